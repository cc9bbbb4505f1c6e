// The executor of ranks that have the same past but values of their own in a call: one machine for
// each run of such ranks. The machine decides. What the other ranks of its run would vote and send
// is computed from their values, which are made when they are needed and never held.
#pragma once

#include <lockstep/worker/simulator/cluster/rank_executor.h>
#include <lockstep/worker/simulator/cluster/rank_rounds.h>
#include <lockstep/worker/simulator/input/generator.h>

namespace lockstep::worker::simulator {

/// Called by one thread; rounds use all cores.
class StreamedExecutor final : public RankExecutor {
 public:
  /// The units, ascending, cover ranks 0 to size-1.
  StreamedExecutor(std::vector<Unit> units, int size, const DecisionConfig& config);

  /// Runs a call in which the ranks of each unit are equal.
  void run(Machines machines, const Status& absent) override;
  /// Runs a call in which each rank has its own values. The machine of a unit is that of its first
  /// rank. Ranks of a unit have equal caches, and all machines have the same frame.
  void run(Machines machines, const RankInputs& inputs, const Status& absent);

  [[nodiscard]] std::uint64_t bytes_per_rank_max() const override {
    return rounds_.bytes_per_rank_max();
  }
  [[nodiscard]] std::uint64_t rounds() const override { return rounds_.rounds(); }

 private:
  class Call;
  void run(Machines machines, const RankInputs* inputs, const Status& absent);

  std::vector<Unit> units_;
  int size_;
  DecisionConfig config_;
  RankRounds rounds_;
};

}  // namespace lockstep::worker::simulator
