// Carries out the actions of the call machines of all simulated ranks. The implementations give
// equal results: every rank as a virtual rank that exchanges messages (virtual_executor.cpp); one
// machine for each run of equal ranks, so that a world of millions costs milliseconds
// (folded_executor.cpp); one machine for each run of ranks that differ only in the values of a call
// (streamed_executor.h). RowExecutor (row_executor.h) has an interface of its own.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <lockstep/worker/agree/agreement/call_machine.h>
#include <lockstep/worker/simulator/cluster/folded_rounds.h>
#include <lockstep/worker/simulator/cost/run_clock.h>
#include <lockstep/worker/simulator/input/known_traces.h>

namespace lockstep::worker::simulator {

/// The machine of each unit for one call; null if the unit does not make the call.
using Machines = std::span<const std::unique_ptr<CallMachine>>;

/// What executors have in common: the clock, and known traces.
class MachineExecutor {
 public:
  /// From now on the clock counts rounds and builds. It outlives the executor.
  void time_by(RunClock& clock) { clock_ = &clock; }

  /// From now on traces give their known results. `traces` outlives the executor; may be null.
  void trace_by(const KnownTraces* traces) { traces_ = traces; }

 protected:
  /// As answer_locally(); the clock counts the work.
  bool answer_timed(CallMachine& machine) const;
  /// Takes all machines to Finish, if they ask for the same rounds at the same time. `round` runs
  /// one round over all ranks and returns its result; nullopt: the machines ask for different
  /// rounds.
  template <class RunRound>
  void run_together(Machines machines, const Status& absent, const RunRound& round) const;

  RunClock* clock_ = nullptr;            // null: no times are needed
  const KnownTraces* traces_ = nullptr;  // null: no traces are known
};

class RankExecutor : public MachineExecutor {
 public:
  virtual ~RankExecutor() = default;

  /// Takes every machine to Finish. If units are absent, the others wait for them until the
  /// deadline and end with `absent`, which is otherwise ignored.
  virtual void run(Machines machines, const Status& absent) = 0;

  /// Returns the payload received in rounds that ended, over all calls, by the rank with the most.
  [[nodiscard]] virtual std::uint64_t bytes_per_rank_max() const = 0;
  /// Returns the number of rounds that ended.
  [[nodiscard]] virtual std::uint64_t rounds() const = 0;
};

/// Carries out the machine's actions that need no other rank, until it asks for a round or has
/// ended. Returns true for a round. A dry run traces and compiles nothing: the decision is taken as
/// its own trace, unless the trace is known.
bool answer_locally(CallMachine& machine, LocalWork* work = nullptr,
                    const KnownTraces* traces = nullptr);

/// The result of a round on every rank.
using RoundResult = std::variant<collectives::Vote, Bytes>;
/// True if all machines ask for a round of one kind.
[[nodiscard]] bool ask_alike(Machines machines);
/// The joint vote of all machines. Requires that each asks for a vote.
[[nodiscard]] collectives::Vote joint_vote(Machines machines);
/// Runs the round that all machines ask for, without giving them the result. nullopt if they ask
/// for different kinds of rounds, or for none. Requires a machine per unit.
[[nodiscard]] std::optional<RoundResult> fold_round(FoldedRounds& rounds, Machines machines,
                                                    RunClock* clock = nullptr);
/// Gives the machine the result of its round.
void answer(CallMachine& machine, const RoundResult& result);
/// Gives the machine the result of a round that has ended on its rank.
void answer(CallMachine& machine, const collectives::Round& round);
/// Some ranks are absent: ends the calls of all others with `absent` after the deadline.
void time_out_all(Machines machines, const Status& absent, RunClock* clock = nullptr);
/// The machines ask for different rounds: ends every call with an error that says so.
void fail_all(Machines machines);

template <class RunRound>
void MachineExecutor::run_together(Machines machines, const Status& absent,
                                   const RunRound& round) const {
  if (std::ranges::any_of(machines, [](const auto& machine) { return !machine; }))
    return time_out_all(machines, absent, clock_);
  for (;;) {
    std::size_t waiting = 0;
    for (const auto& machine : machines) waiting += answer_timed(*machine) ? 1 : 0;
    if (waiting == 0) return;
    const std::optional<RoundResult> result =
        waiting < machines.size() || !ask_alike(machines) ? std::nullopt : round();
    if (!result) return fail_all(machines);
    for (const auto& machine : machines) answer(*machine, *result);
  }
}

/// Makes every rank a virtual rank of a simulated network. Unit i must be rank i.
[[nodiscard]] std::unique_ptr<RankExecutor> virtual_executor(int size);
/// Has one machine per unit; the units, ascending, cover ranks 0 to size-1.
[[nodiscard]] std::unique_ptr<RankExecutor> folded_executor(std::vector<Unit> units, int size);

}  // namespace lockstep::worker::simulator
