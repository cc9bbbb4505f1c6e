// The executor of ranks that have the same past but may have different inputs in a call: one
// machine for each different input speaks for the ranks that have it.
#pragma once

#include <lockstep/worker/simulator/cluster/rank_executor.h>
#include <lockstep/worker/simulator/cluster/rank_rounds.h>

namespace lockstep::worker::simulator {

/// Called by one thread; rounds use all cores.
class RowExecutor : public MachineExecutor {
 public:
  explicit RowExecutor(int size) : rounds_(size) {}

  /// Takes the first machine to its end, and the others to the last round. Each machine is that of
  /// the lowest rank with its input; these ranks ascend. `machine_of`: index of the machine, by
  /// rank.
  void run(Machines machines, std::span<const std::uint32_t> machine_of);
  /// Some ranks do not make the call: ends it with `absent`.
  void time_out(Machines machines, const Status& absent) { time_out_all(machines, absent, clock_); }

  [[nodiscard]] std::uint64_t bytes_per_rank_max() const { return rounds_.bytes_per_rank_max(); }
  [[nodiscard]] std::uint64_t rounds() const { return rounds_.rounds(); }

 private:
  [[nodiscard]] std::optional<RoundResult> round(Machines machines,
                                                 std::span<const std::uint32_t> machine_of);
  [[nodiscard]] Bytes tree_join(Machines machines, std::span<const std::uint32_t> machine_of);

  RankRounds rounds_;
};

}  // namespace lockstep::worker::simulator
