// The calls of a timed run: for each run of equal ranks, one call machine of a real job and its
// actions so far. Each rank arrives at a call, and at its rounds, at its own time. The first of a
// run's ranks to have a round's result gives it to the machine, for the whole run.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/worker/agree/agreement/call_machine.h>
#include <lockstep/worker/simulator/cluster/folded_rounds.h>
#include <lockstep/worker/simulator/cluster/result.h>
#include <lockstep/worker/simulator/input/partition.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// The ranks that take part, with their state between calls. The scenario and the faults outlive
/// it.
class Cast {
 public:
  Cast(const Scenario& scenario, std::span<const Fault> faults);

  /// Runs of ranks that do the same in every call and under every fault; ascending.
  [[nodiscard]] const std::vector<Unit>& units() const { return units_; }
  [[nodiscard]] std::size_t unit_of(Rank rank) const;

 private:
  friend class TimedCall;
  /// True if `fault` strikes this unit.
  [[nodiscard]] bool hit(std::size_t unit, const Fault& fault) const;

  const Scenario& scenario_;
  std::span<const Fault> faults_;
  std::vector<RankClass> classes_;
  std::vector<Unit> units_;
  std::vector<std::size_t> class_of_;
  std::vector<std::map<std::string, CodeCache>> frames_;    // per unit, by name
  std::vector<std::optional<std::size_t>> compile_struck_;  // by fault: call whose compile it hit
  std::string branch_;  // name of the float of a branch fault; empty: no such fault
};

/// One call. Requires that ranks arrive at the calls in order.
class TimedCall {
 public:
  TimedCall(Cast& cast, std::size_t index);

  /// True if the unit makes this call.
  [[nodiscard]] bool has(std::size_t unit) const { return machines_[unit].group >= 0; }
  /// True if no rank makes the call.
  [[nodiscard]] bool nobody() const { return has_absent_ranks_ && !result_->frame; }
  /// True if some ranks do not make the call, so the others wait for them in vain.
  [[nodiscard]] bool has_absent_ranks() const { return has_absent_ranks_; }
  /// Returns the unit's action number `step`: a round, Compile or Finish. Requires that action step
  /// - 1 was returned, and the result of its round reported.
  [[nodiscard]] const Action& action(std::size_t unit, std::size_t step);
  /// Reports the result of the round that is action `step`; equal on all ranks of a unit.
  void report(std::size_t unit, std::size_t step, const collectives::Round& round);
  /// True if compilers of some ranks fail in this call, so that other ranks build for them.
  [[nodiscard]] bool peers_build_for_failed() const { return peers_build_for_failed_; }
  /// Returns the frame that the unit calls. Requires has(unit).
  [[nodiscard]] const std::string& frame(std::size_t unit) const {
    return drawn_ ? *call_.frame
                  : call_.groups[static_cast<std::size_t>(machines_[unit].group)].frame;
  }
  /// Numbers of sources and symbols of the unit's trace. Require that action Compile was returned.
  [[nodiscard]] std::size_t sources(std::size_t unit) const { return machines_[unit].sources; }
  [[nodiscard]] std::size_t symbols(std::size_t unit) const { return machines_[unit].symbols; }
  /// "call 6 of train_step": the last activity of the unit's ranks, for the board.
  [[nodiscard]] const std::string& text(std::size_t unit);
  /// Returns the call's result on the lowest unit that makes it, as a dry run reports it; nullopt:
  /// none yet.
  [[nodiscard]] const std::optional<CallResult>& result() const { return result_; }

 private:
  struct Seat {
    int group = -1;
    std::unique_ptr<CallMachine> machine;
    std::vector<Action> actions;
    std::size_t sources = 0, symbols = 0;
    std::string text;
  };
  void start(std::size_t unit);
  /// Carries out the machine's actions that need no other rank, up to the next round or the end.
  void go_on(std::size_t unit);
  [[nodiscard]] Observation observation(std::size_t unit) const;
  void add_branch(std::size_t unit, Observation& seen) const;
  [[nodiscard]] bool branches_here(std::size_t unit) const;
  [[nodiscard]] TraceReport traced(const Decision& decision) const;
  void strike_compile();
  [[nodiscard]] std::optional<Status> compile_failure(std::size_t unit) const;
  void finished(std::size_t unit, const CallOutcome& outcome);

  Cast& cast_;
  std::size_t index_;
  ScenarioCall call_;                // unused if ranks draw their own inputs
  std::optional<RankInputs> drawn_;  // set if ranks draw their own inputs
  std::string frame_;                // the frame in the result
  bool has_absent_ranks_ = false, compile_seen_ = false, peers_build_for_failed_ = false;
  std::size_t lowest_ = 0;
  std::vector<Seat> machines_;  // by unit
  std::optional<CallResult> result_;
};

}  // namespace lockstep::worker::simulator
