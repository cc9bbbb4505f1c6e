// The executor of ranks with the same past that have one of many inputs each in a call: one machine
// for each different input speaks for the ranks that have it.
#pragma once

#include <lockstep/worker/simulator/cluster/rank_executor.h>
#include <lockstep/worker/simulator/cluster/rank_rounds.h>

namespace lockstep::worker::simulator {

/// One thread calls; rounds use all cores.
class RowExecutor : public MachineExecutor {
 public:
  explicit RowExecutor(int size) : rounds_(size) {}

  /// Takes the first machine to its end; the others go as far as the last round. Each machine is of
  /// the lowest rank that has its input, ascending. `machine_of`: of every rank.
  void run(Machines machines, std::span<const std::uint32_t> machine_of);
  /// Some ranks do not make the call: it ends with `absent`.
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
