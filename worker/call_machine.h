// The life of one call of a coordinated frame (design section 3) as a pure state machine: it says
// what to do next, its driver does it and reports back. One object file for a real job (job.cpp
// drives it over MPI) and for a dry run (simulator/ drives it over virtual ranks).
//
//   lookup - vote -+- run
//                  +- exchange - decide - trace - verify - compile - commit - run
//
// Nothing here waits, reads a clock, or knows a transport.
#pragma once

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>
#include <lockstep/shapes/guard.h>
#include <lockstep/worker/code_cache.h>
#include <lockstep/worker/decision.h>
#include <lockstep/worker/observation.h>

#include <optional>
#include <string>
#include <variant>

namespace lockstep::worker {

/// Identifies a round: two ranks with different keys are not in the same round. Hashed into a vote.
struct RoundKey {
  std::uint64_t epoch = 0;
  std::string group, frame;
  std::uint64_t call = 0;     // counted per group
  std::uint32_t attempt = 0;
  enum class Kind : std::uint8_t { Call, Verify, Commit, Close, Settle, More, Finish, Start } kind = Kind::Call;
  [[nodiscard]] std::uint64_t hash() const;
  [[nodiscard]] std::string text() const;
};

/// What a rank's own trace under the decision came to.
struct TraceReport {
  shapes::Fingerprint graph;
  std::vector<shapes::Guard> guards;        // beyond what the decision itself says
  std::optional<Status> failure;            // the user's function threw, or asked for unbacked data
};

/// What a call came to; equal on all ranks but for `message` details of the rank's own.
struct CallOutcome {
  enum class Kind : std::uint8_t { Reused, Compiled, Fallback, Error } kind = Kind::Error;
  int entry = -1;                // Reused, Compiled
  std::optional<Status> error;   // Error
};

namespace action {
/// Vote `mine` over the group. Answer: voted(result).
struct Vote {
  collectives::Vote mine;
  collectives::Combine combine = collectives::Combine::And;
};
/// Join payloads in rank order by the tree. Answer: joined(result).
struct Exchange {
  Bytes mine;
  collectives::Join join;
};
/// One payload from `root` to all. Answer: joined(result).
struct Broadcast {
  Rank root;
  Bytes mine;
};
/// Trace the frame under frame.pending decision. Answer: traced(report).
struct Trace {
  const Decision* decision = nullptr;
};
/// Build and load what the trace produced. Answer: compiled(failure).
struct Compile {};
/// The call is over.
struct Finish {
  CallOutcome outcome;
};
}  // namespace action

using Action = std::variant<action::Vote, action::Exchange, action::Broadcast, action::Trace,
                            action::Compile, action::Finish>;

/// One call on one rank. Single-threaded. `frame` is this rank's cache of the frame and outlives it.
class CallMachine {
 public:
  CallMachine(Rank self, int size, const DecisionConfig& config, RoundKey key, Frame& frame,
              Observation observation);

  /// What to do now. Pure; stays the same until the matching report below is made.
  [[nodiscard]] const Action& next() const { return action_; }

  void voted(const collectives::Vote& result);
  void joined(const Bytes& result);
  void traced(TraceReport report);
  /// nullopt: built and loaded.
  void compiled(std::optional<Status> failure);
  /// The transport gave up (a rank is missing or lost): the call ends with that error and the frame
  /// is as before.
  void failed(Status status);

 private:
  Action action_;
  // The implementation's own state; see call_machine.cpp.
};

}  // namespace lockstep::worker
