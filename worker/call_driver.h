// Drives call machines and status rounds over a real communicator: does what the machine asks,
// tells it what came of it, and keeps the time. The job facade and the library call stand on this.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/audit.h>
#include <lockstep/worker/call_machine.h>

namespace lockstep::worker {

/// The steps of a call that the protocol leaves to others: the tracer and the compiler of this
/// project, or those of a framework.
class CallSteps {
 public:
  virtual ~CallSteps() = default;
  /// An error ends the call at once: a collective round inside the trace failed, so all ranks are
  /// already out of it. A trace that fails by itself is a report with `failure`.
  [[nodiscard]] virtual Result<TraceReport> trace(const Decision& decision) = 0;
  [[nodiscard]] virtual std::string explain(std::size_t node) = 0;
  [[nodiscard]] virtual std::optional<Status> compile() = 0;
};

/// Time and traffic of what a rank did, summed over calls.
struct CallTimes {
  /// `compile` is without the rounds that ranks take while they build.
  Duration vote{0}, exchange{0}, trace{0}, compile{0};
  Duration vote_wait{0};  // the part of `vote` before the first peer's message was there
  std::uint64_t votes = 0, exchanges = 0;  // exchanges: every round with payloads
  std::uint64_t traces = 0, compiles = 0;
  CallTimes& operator+=(const CallTimes& other);
};

/// One group of ranks as seen from one of them. One thread.
class CallDriver {
 public:
  /// `self`: this rank as errors number it, in a group that numbers its ranks by place.
  CallDriver(collectives::Communicator& group, DecisionConfig config, RankSet self = {})
      : group_(group), config_(config), self_(std::move(self)) {}

  /// Takes the call to its end. `log` (may be empty) gets every action's canonical line.
  [[nodiscard]] CallOutcome call(const RoundKey& key, Frame& frame, Observation observation,
                                 Standing standing, CallSteps& steps,
                                 const std::function<void(const Action&)>& log = {});

  /// Compares what the ranks are about to run, each by its own decision (audit.h).
  [[nodiscard]] AuditOutcome audit(const RoundKey& key, AuditLedger& ledger, AuditedCall own);

  /// One vote on how the ranks stand, outside of a call: settle, finish, a point inside a graph.
  /// The same error on every rank if one of them is in trouble or in another round.
  [[nodiscard]] Result<void> status_round(const RoundKey& key, const Standing& standing);

  /// True on every rank if `mine` is true on any; a round of its own.
  [[nodiscard]] Result<bool> any(const RoundKey& key, bool mine);

  /// Rounds of a step that the ranks take together (building, at start). A vote with words of the
  /// step's own: the AND of all; a rank in another round is the joint error, as in status_round.
  [[nodiscard]] Result<collectives::Vote> ballot(const RoundKey& key,
                                                 const collectives::Vote& mine);
  [[nodiscard]] Result<Bytes> exchange(Bytes mine, collectives::Join join);
  [[nodiscard]] Result<Bytes> broadcast(Rank root, Bytes mine);

  [[nodiscard]] collectives::Communicator& group() { return group_; }
  [[nodiscard]] const DecisionConfig& config() const { return config_; }
  [[nodiscard]] const CallTimes& times() const { return times_; }

 private:
  [[nodiscard]] Result<collectives::Vote> vote(const collectives::Vote& mine,
                                               collectives::Combine combine);
  [[nodiscard]] Status roll(const RoundKey& key, Standing standing);
  [[nodiscard]] Instant now() const { return clock_.now(); }

  collectives::Communicator& group_;
  DecisionConfig config_;
  RankSet self_;
  SystemClock clock_;
  CallTimes times_;
};

}  // namespace lockstep::worker
