// The calls of a timed run: one call machine for each run of equal ranks, the very machine of a
// real job, and what it asked for so far. Ranks come to a call, and through its rounds, each at its
// own time; the first of a run that has a result hands it to the machine for all.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/worker/agreement/call_machine.h>
#include <lockstep/worker/simulator/cluster/folded_rounds.h>
#include <lockstep/worker/simulator/cluster/result.h>
#include <lockstep/worker/simulator/input/partition.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// Who takes part, with what each holds from call to call. The scenario and the faults outlive it.
class Cast {
 public:
  Cast(const Scenario& scenario, std::span<const Fault> faults);

  /// Runs of ranks that do the same in every call, and under every fault; ascending.
  [[nodiscard]] const std::vector<Unit>& units() const { return units_; }
  [[nodiscard]] std::size_t unit_of(Rank rank) const;

 private:
  friend class TimedCall;
  /// What `fault` is about happens on this unit.
  [[nodiscard]] bool hit(std::size_t unit, const Fault& fault) const;

  const Scenario& scenario_;
  std::span<const Fault> faults_;
  std::vector<RankClass> classes_;
  std::vector<Unit> units_;
  std::vector<std::size_t> class_of_;
  std::vector<std::map<std::string, CodeCache>> frames_;    // per unit, by name
  std::vector<std::optional<std::size_t>> compile_struck_;  // per fault: in which call
  std::string branch_;  // the float that ranks branch on; empty: no fault is a branch
};

/// One call. Requires that ranks come to the calls in order.
class TimedCall {
 public:
  TimedCall(Cast& cast, std::size_t index);

  /// The unit makes this call.
  [[nodiscard]] bool has(std::size_t unit) const { return machines_[unit].group >= 0; }
  [[nodiscard]] bool nobody() const { return in_vain_ && !result_->frame; }
  /// Some ranks do not, so the others wait for them in vain.
  [[nodiscard]] bool in_vain() const { return in_vain_; }
  /// What rank does as its `step`th action: a round, Compile or Finish. Requires that step 0, or
  /// the result of the step before, has been asked for or reported.
  [[nodiscard]] const Action& action(std::size_t unit, std::size_t step);
  /// The result of the round that is action `step`; equal on all ranks of a unit.
  void report(std::size_t unit, std::size_t step, const collectives::Round& round);
  /// Compilers of some ranks fail in this call, and what they should have built is built by others.
  [[nodiscard]] bool builds_again() const { return builds_again_; }
  /// The frame that the unit calls. Requires has(unit).
  [[nodiscard]] const std::string& frame(std::size_t unit) const {
    return drawn_ ? *call_.frame
                  : call_.groups[static_cast<std::size_t>(machines_[unit].group)].frame;
  }
  /// Of what the unit traced. Requires an action Compile.
  [[nodiscard]] std::size_t sources(std::size_t unit) const { return machines_[unit].sources; }
  [[nodiscard]] std::size_t symbols(std::size_t unit) const { return machines_[unit].symbols; }
  /// "call 6 of train_step": what the unit's ranks are last seen at.
  [[nodiscard]] const std::string& text(std::size_t unit);
  /// What it came to on the lowest unit that makes it, as a dry run reports it; nullopt: not yet.
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
  /// Does what the machine asks of its own rank, up to the next round or the end.
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
  ScenarioCall call_;                // not where ranks draw for themselves
  std::optional<RankInputs> drawn_;  // where they do
  std::string frame_;                // of the result
  bool in_vain_ = false, compile_seen_ = false, builds_again_ = false;
  std::size_t lowest_ = 0;
  std::vector<Seat> machines_;  // per unit
  std::optional<CallResult> result_;
};

}  // namespace lockstep::worker::simulator
