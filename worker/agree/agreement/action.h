// What a call machine asks of its driver. Each action is answered by one report to the machine.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>
#include <lockstep/worker/agree/exchange/decision.h>

namespace lockstep::worker {

/// Result of a call; equal on all ranks, except that a `message` may hold details of this rank.
struct CallOutcome {
  enum class Kind : std::uint8_t { Reused, Compiled, Fallback, Error };
  Kind kind = Kind::Error;
  int entry = -1;               // for Reused and Compiled
  std::optional<Status> error;  // for Error
  bool untested = false;        // RankStatus::untested is true on some rank
};

namespace action {
/// Vote `mine` over the group. Answer: voted(result).
struct Vote {
  collectives::Vote mine;
  collectives::Combine combine = collectives::Combine::And;
};
/// Join payloads in rank order by the tree. Answer: joined(result).
struct TreeJoin {
  Bytes mine;
  collectives::Join join;
};
/// Broadcast the payload of `root`. Answer: joined(result).
struct Broadcast {
  Rank root;
  Bytes mine;
};
/// Trace the frame under the decision. Answer: traced(report).
struct Trace {
  const Decision* decision = nullptr;
};
/// Describe node `node` of this rank's graph: its text and the user's line. Answer:
/// explained(text); the text is empty if the graph has no such node.
struct Explain {
  std::size_t node = 0;
};
/// Build and load what the trace produced. Answer: compiled(failure).
struct Compile {};
/// The call is over.
struct Finish {
  CallOutcome outcome;
};
}  // namespace action

using Action = std::variant<action::Vote, action::TreeJoin, action::Broadcast, action::Trace,
                            action::Explain, action::Compile, action::Finish>;

/// One canonical line: votes in hexadecimal, payloads by length and fingerprint, decisions and
/// outcomes in words. A record and its replay print the same lines, byte for byte.
[[nodiscard]] std::string action_text(const Action& action);
/// "reused 0", "compiled 1", "fallback", "error KIND_MISMATCH: …"
[[nodiscard]] std::string outcome_text(const CallOutcome& outcome);

}  // namespace lockstep::worker
