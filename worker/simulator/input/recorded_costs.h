// What compiling and stepping took in a recorded job: the figures of a cost model, measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/cost/cost_model.h>
#include <lockstep/worker/simulator/input/record_reader.h>

namespace lockstep::worker::simulator {

/// Medians over all ranks and calls of a frame.
struct RecordedCost {
  std::optional<std::int64_t> compile_ns;  // trace and build; nullopt: it was never compiled
  std::int64_t step_ns = 0;                // from the end of a call to the next call of any frame
};

/// Takes them in while a record is read.
class CostCollector {
 public:
  /// A CallVisitor. What comes between two calls is the step of the first; nothing is known of the
  /// last one's.
  void add(const RankRecord& rank, const RecordedCall& call);
  /// By frame.
  [[nodiscard]] std::map<std::string, RecordedCost> costs();

 private:
  struct Times {
    std::vector<std::int64_t> compile, step;
  };
  std::map<std::string, Times> times_;
  Times* before_ = nullptr;  // of the rank's call before, which has ended
};

/// By frame. Errors: BadInput (no record, or a damaged one).
[[nodiscard]] Result<std::map<std::string, RecordedCost>> recorded_costs(
    const std::string& directory);

/// Puts them in place of what the model has for these frames.
void put_costs(const std::map<std::string, RecordedCost>& costs, CostModel& out);

}  // namespace lockstep::worker::simulator
