// Compile and step times of a recorded job: measured values for a cost model.
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
  std::optional<std::int64_t> compile_ns;  // trace and build; nullopt: the frame was never compiled
  std::int64_t step_ns = 0;                // from the end of a call to the next call of any frame
};

/// Collects the costs while a record is read.
class CostCollector {
 public:
  /// For use as a CallVisitor. The time between two calls counts as the step of the earlier one.
  /// The step of the last call is not known.
  void add(const RankRecord& rank, const RecordedCall& call);
  /// Costs by frame.
  [[nodiscard]] std::map<std::string, RecordedCost> costs();

 private:
  struct Times {
    std::vector<std::int64_t> compile, step;
  };
  std::map<std::string, Times> times_;
  Times* before_ = nullptr;  // times of the frame of the rank's previous call, if it ended
};

/// Reads the costs from a record, by frame. Errors: BadInput (no record, or a damaged one).
[[nodiscard]] Result<std::map<std::string, RecordedCost>> recorded_costs(
    const std::string& directory);

/// Replaces the model's costs of these frames.
void put_costs(const std::map<std::string, RecordedCost>& costs, CostModel& out);

}  // namespace lockstep::worker::simulator
