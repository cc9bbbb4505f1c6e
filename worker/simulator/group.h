// Who carries out what the call machines of a simulated group ask for. Two ways with equal results:
// every rank a virtual rank that exchanges messages (virtual_group.h), or runs of equal ranks
// folded into one machine each (folded_group.h), which is how a world of millions costs
// milliseconds.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/worker/call_machine.h>

namespace lockstep::worker::simulator {

/// Consecutive ranks that do the same in every call; one machine plays them, as their first rank.
using Unit = RankSet::Run;

/// What ranks do by themselves between rounds. A dry run makes it up, a replay reads it from the
/// record.
class Local {
 public:
  virtual ~Local() = default;
  virtual TraceReport trace(std::size_t unit, const Decision& decision) = 0;
  /// The text of the unit's graph at a node.
  virtual std::string explain(std::size_t unit, std::size_t node) = 0;
  virtual std::optional<Status> compile(std::size_t unit) = 0;
  /// Called for every action of every machine, Finish included.
  virtual void asked(std::size_t unit, const Action& action) = 0;
};

/// The machine of each unit for one call; null where the unit does not make the call.
using Machines = std::span<const std::unique_ptr<CallMachine>>;

class Group {
 public:
  virtual ~Group() = default;

  /// Takes every machine to Finish. Where units are absent the others wait for them until the
  /// deadline passes and end with `absent`; otherwise `absent` is not looked at.
  virtual void run(Machines machines, Local& local, const Status& absent) = 0;

  /// Payload received in rounds that ended, over all calls, by the rank with most.
  [[nodiscard]] virtual std::uint64_t bytes_per_rank_max() const = 0;
  /// Rounds that ended.
  [[nodiscard]] virtual std::uint64_t rounds() const = 0;
};

/// Answers the machine's local actions until it asks for a round or is at its end. True: a round.
bool answer_locally(CallMachine& machine, std::size_t unit, Local& local);

/// Every rank a virtual rank of a simulated network. Unit i must be rank i.
[[nodiscard]] std::unique_ptr<Group> virtual_group(int size);
/// One machine per unit; the units, ascending, cover ranks 0 to size-1.
[[nodiscard]] std::unique_ptr<Group> folded_group(std::vector<Unit> units, int size);

}  // namespace lockstep::worker::simulator
