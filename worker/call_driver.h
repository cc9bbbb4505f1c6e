// Carries one call through over a Communicator: does what the call machine asks for, measures what
// it waits for, and reports back.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/call_machine.h>

namespace lockstep::worker {

/// What the rank itself contributes to a call. Called from within poll(), in the order shown.
struct CallHost {
  std::function<TraceReport(const Decision&)> trace;
  /// The text of the trace's node, empty where there is none; may be left out.
  std::function<std::string(std::size_t node)> explain;
  /// Builds and loads what was traced; nullopt: done.
  std::function<std::optional<Status>()> compile;
  /// Sees every action before it is carried out; may be left out.
  std::function<void(const Action&)> watch;
};

/// Where the time of calls went. Sums.
struct CallTimes {
  std::int64_t votes = 0, exchanges = 0;
  Duration vote_wait{0};  // from the start of a vote until its first message was there
  Duration vote_wire{0};  // from there to its end; also waits for ranks further away
  Duration exchange{0};   // joins and broadcasts
  Duration trace{0}, compile{0};
  CallTimes& operator+=(const CallTimes& other);
};

/// One call. Single-threaded; everything given to it outlives it.
class CallDriver {
 public:
  CallDriver(collectives::Communicator& group, CallMachine& machine, const CallHost& host,
             const Clock& clock);
  ~CallDriver();

  /// Moves as far as it can without waiting for other ranks; true once the call is over.
  bool poll();
  /// Polls to the end, waiting as the communicator waits.
  const CallOutcome& run();
  /// Requires that the call is over.
  [[nodiscard]] const CallOutcome& outcome() const;
  [[nodiscard]] const CallTimes& times() const { return times_; }

 private:
  class TimedRound;
  /// Carries out what needs no message; false at the end, otherwise a round is under way.
  bool advance();
  bool begin_round(const Action& action);
  void end_round();

  collectives::Communicator& group_;
  CallMachine& machine_;
  const CallHost& host_;
  const Clock& clock_;
  CallTimes times_;
  std::unique_ptr<TimedRound> round_;
};

}  // namespace lockstep::worker
