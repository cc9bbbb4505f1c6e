// Carries out the actions of the call machines of all simulated ranks. Three implementations with
// equal results: every rank a virtual rank that exchanges messages (virtual_executor.cpp), runs of
// equal ranks folded into one machine each (folded_executor.cpp), so that a world of millions costs
// milliseconds, or runs of ranks that differ in the values of a call only (streamed_executor.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <lockstep/worker/agreement/call_machine.h>
#include <lockstep/worker/simulator/cluster/folded_rounds.h>
#include <lockstep/worker/simulator/cost/run_clock.h>
#include <lockstep/worker/simulator/input/known_traces.h>

namespace lockstep::worker::simulator {

/// The machine of each unit for one call; null where the unit does not make the call.
using Machines = std::span<const std::unique_ptr<CallMachine>>;

class RankExecutor {
 public:
  virtual ~RankExecutor() = default;

  /// From now on the clock is told of rounds and builds; it outlives the group.
  void time_by(RunClock& clock) { clock_ = &clock; }

  /// From now on traces come to what is known of them; it outlives the group. May be null.
  void trace_by(const KnownTraces* traces) { traces_ = traces; }

  /// Takes every machine to Finish. Where units are absent the others wait for them until the
  /// deadline passes and end with `absent`; otherwise `absent` is not looked at.
  virtual void run(Machines machines, const Status& absent) = 0;

  /// Payload received in rounds that ended, over all calls, by the rank with most.
  [[nodiscard]] virtual std::uint64_t bytes_per_rank_max() const = 0;
  /// Rounds that ended.
  [[nodiscard]] virtual std::uint64_t rounds() const = 0;

 protected:
  /// As answer_locally(), and the clock is told.
  bool answer_timed(CallMachine& machine) const;
  RunClock* clock_ = nullptr;            // null: nobody asks for times
  const KnownTraces* traces_ = nullptr;  // null: nothing is known
};

/// Does what the machine asks of its own rank until it asks for a round or is at its end. True: a
/// round. A dry run traces and compiles nothing: what is not known of a trace is taken to be the
/// decision itself.
bool answer_locally(CallMachine& machine, LocalWork* work = nullptr,
                    const KnownTraces* traces = nullptr);

/// What a round came to on every rank.
using RoundResult = std::variant<collectives::Vote, Bytes>;
/// Runs the round that all machines ask for, without telling them; nullopt where they ask for
/// different kinds, or for none. Requires a machine per unit.
[[nodiscard]] std::optional<RoundResult> fold_round(FoldedRounds& rounds, Machines machines,
                                                    RunClock* clock = nullptr);
void answer(CallMachine& machine, const RoundResult& result);
/// The same of a round that has ended on this rank.
void answer(CallMachine& machine, const collectives::Round& round);
/// Some ranks are absent: the calls of all others end with `absent` after the deadline.
void time_out_all(Machines machines, const Status& absent, RunClock* clock = nullptr);
/// The machines ask for different rounds: every call ends with an error that says so.
void fail_all(Machines machines);

/// Every rank a virtual rank of a simulated network. Unit i must be rank i.
[[nodiscard]] std::unique_ptr<RankExecutor> virtual_executor(int size);
/// One machine per unit; the units, ascending, cover ranks 0 to size-1.
[[nodiscard]] std::unique_ptr<RankExecutor> folded_executor(std::vector<Unit> units, int size);

}  // namespace lockstep::worker::simulator
