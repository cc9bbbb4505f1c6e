// A recorded job on virtual ranks that draw their inputs from the recorded ones, call by call. All
// ranks compile together and so have the same past: one cache per frame serves all of them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/cluster/row_executor.h>

namespace lockstep::worker::simulator {

/// Used by one thread. The scenario outlives it. All calls of the scenario are in Generator::order.
class DrawnJob {
 public:
  DrawnJob(const Scenario& scenario, const DryRunOptions& options);
  [[nodiscard]] CallResult call(std::size_t index);
  [[nodiscard]] const RowExecutor& executor() const { return executor_; }
  [[nodiscard]] Profiles learnt() const;
  [[nodiscard]] std::optional<Timing> take_timing();

 private:
  /// An input of a call, and the lowest rank that has it.
  struct Row {
    std::int32_t lowest = 0;
    std::string frame;
    Observation seen;
  };
  struct Rows {
    std::vector<Row> rows;          // ascending by lowest rank
    std::vector<std::uint32_t> of;  // index in rows, by rank; UINT32_MAX: absent
    RankSet present;
  };
  [[nodiscard]] Rows drawn(const GeneratedCall& kind, const RankInputs& inputs) const;
  [[nodiscard]] Rows recorded(const ScenarioCall& call) const;
  [[nodiscard]] CallResult run(std::size_t index, const Rows& call, bool apart);
  [[nodiscard]] std::unique_ptr<CallMachine> machine(std::size_t index, const Row& row,
                                                     CodeCache& cache) const;
  CodeCache& cache_of(const Row& row);

  const Scenario& scenario_;
  const Profiles* from_;
  std::map<std::string, CodeCache> frames_;
  RowExecutor executor_;
  std::optional<RunClock> clock_;  // if the scenario has costs
};

/// Returns the number of elements of all tensors; at most INT64_MAX.
[[nodiscard]] std::int64_t elements_of(const Observation& seen);

}  // namespace lockstep::worker::simulator
