// The fourth way to carry out a call: ranks have the same past, and in the call some of many
// inputs each; one machine for each different input speaks for the ranks that have it.
#pragma once

#include <lockstep/worker/simulator/cluster/rank_executor.h>
#include <lockstep/worker/simulator/cluster/rank_rounds.h>

namespace lockstep::worker::simulator {

/// One thread calls; rounds use all cores.
class RowExecutor {
 public:
  explicit RowExecutor(int size) : rounds_(size) {}
  /// As RankExecutor's.
  void time_by(RunClock& clock) { clock_ = &clock; }
  void trace_by(const KnownTraces* traces) { traces_ = traces; }

  /// Takes the first machine to its end; the others go as far as the last round. Each machine is of
  /// the lowest rank that has its input, ascending. `machine_of`: of every rank.
  void run(Machines machines, std::span<const std::uint32_t> machine_of);
  /// Some ranks do not make the call: it ends with `absent`.
  void time_out(Machines machines, const Status& absent) { time_out_all(machines, absent, clock_); }

  [[nodiscard]] std::uint64_t bytes_per_rank_max() const { return rounds_.bytes_per_rank_max(); }
  [[nodiscard]] std::uint64_t rounds() const { return rounds_.rounds(); }

 private:
  [[nodiscard]] bool waits(CallMachine& machine) const;
  [[nodiscard]] std::optional<RoundResult> round(Machines machines,
                                                 std::span<const std::uint32_t> machine_of);
  [[nodiscard]] Bytes tree_join(Machines machines, std::span<const std::uint32_t> machine_of);

  RankRounds rounds_;
  RunClock* clock_ = nullptr;            // null: nobody asks for times
  const KnownTraces* traces_ = nullptr;  // null: nothing is known
};

}  // namespace lockstep::worker::simulator
