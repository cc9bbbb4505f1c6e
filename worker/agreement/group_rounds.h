// The rounds of one group of ranks, for all who make some over it: its agreements, the frames of a
// job, a program's own votes. The one place for epochs and numbers of rounds, for the order of
// prefetched calls, for resync and for how a rank leaves.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <lockstep/worker/agreement/call_driver.h>

namespace lockstep::worker {

/// Is told of the rounds of a group, on the rank's own thread; changes nothing.
class RoundObserver {
 public:
  virtual ~RoundObserver() = default;
  /// The call of a frame that this rank comes to.
  virtual void comes_to(const RoundKey& call) { (void)call; }
  // Rounds outside of calls.
  virtual void began(const RoundKey& round) = 0;
  virtual void ended(const RoundKey& round, const Result<void>& result) {
    (void)round, (void)result;
  }
};

/// Where the peers of a rank that leaves go next.
enum class PeersGo : std::uint8_t {
  On,         // to a round of the group, or to the run of a call that is ahead
  ToRound,    // to a round of the group: all have the error of the last one
  Elsewhere,  // perhaps to a round of another group
};

/// One communicator, at most one vote out. One thread. Rounds are given without epoch and numbers.
class GroupRounds {
 public:
  /// `self` and `config`: as CallDriver's. `first`: the number of an epoch's first round.
  explicit GroupRounds(collectives::Communicator& group, RankSet self = {},
                       DecisionConfig config = {}, std::uint64_t first = 0)
      : driver_(group, config, std::move(self)), first_(first), next_(first) {}

  /// It outlives this.
  void observe(RoundObserver& observer) { observer_ = &observer; }
  [[nodiscard]] CallDriver& driver() { return driver_; }
  /// Of the round under way, or the last one.
  [[nodiscard]] const RoundKey& key() const { return key_; }
  /// The key of `round`, which is the next one.
  const RoundKey& next(const RoundKey& round);

  // Rounds outside of calls; errors as the driver's.
  [[nodiscard]] Result<void> status_round(const RoundKey& round,
                                          const RankStatus& rank_status = {});
  [[nodiscard]] Result<bool> any_rank(const RoundKey& round, bool mine,
                                      const RankStatus& rank_status = {});
  /// As CallDriver::resync: then a new epoch has begun.
  [[nodiscard]] Result<void> resync(const RoundKey& round, RankStatus rank_status = {});
  /// The last word of this rank, `gone`: in the round `close`, or as far as the call ahead goes.
  /// Error: what all ranks heard. Otherwise they may never hear of it by a round, and the watchdog
  /// is to end the job.
  [[nodiscard]] Result<void> leave(const RoundKey& close, const Status& gone, PeersGo peers);

  /// The next call of a frame, to its end: the one ahead, or a new one with this key. Then the vote
  /// of the next promised call goes out. The call ahead sees the scalars of `observation`.
  /// An observation that is no temporary is copied where a new call takes it. `agreed()` comes
  /// between the two.
  template <class Seen, class Agreed = decltype([] {})>
  [[nodiscard]] CallOutcome call(const RoundKey& call, CodeCache& cache, Seen&& observation,
                                 RankStatus rank_status, CallSteps& steps,
                                 const Agreed& agreed = {}) {
    const bool ahead = come_to(call, cache);
    if (ahead) driver_.renew_scalars(observation);
    CallOutcome outcome = ahead ? driver_.take(steps)
                                : driver_.call(key_, cache, std::forward<Seen>(observation),
                                               std::move(rank_status), steps);
    agreed();
    begin_next();
    return outcome;
  }
  /// The error of a call of a frame that this rank cannot make.
  struct Refusal {
    Status error;          // the joint one, or `why`
    bool unheard = false;  // the others run an entry as promised, and have not heard of it
  };
  /// Takes part in the next call of the frame with `why`, which its peers hear; all promises of
  /// this rank are withdrawn where that call is ahead.
  [[nodiscard]] Refusal refuse(const RoundKey& call, CodeCache& cache, const Status& why);
  /// Frames that are not called any more, on all ranks alike. True: a vote of one may be out, so
  /// they stay in place until the driver has no call ahead.
  [[nodiscard]] bool abandon(std::span<const CodeCache* const> frames);
  /// As CallDriver::promise; the vote goes out where none is ahead.
  void promise(RoundKey call, CodeCache& cache, Observation observation, RankStatus rank_status);

 private:
  /// Whether the call of the frame that this rank comes to is ahead; `key_` is its key.
  bool come_to(const RoundKey& call, const CodeCache& cache);
  /// A call has been agreed on: the vote of the next promised one goes out.
  void begin_next() {
    if (const RoundKey* call = driver_.due()) driver_.begin(next_++, calls_[call->frame]++);
  }
  /// Takes a round outside of calls.
  template <class Take>
  [[nodiscard]] auto outside(const RoundKey& round, const Take& take);

  CallDriver driver_;
  RoundObserver* observer_ = nullptr;  // null: nobody is to hear
  RoundKey key_;
  std::uint64_t first_, next_, epoch_ = 0;
  std::map<std::string, std::uint64_t> calls_;  // of each frame, in this epoch
};

}  // namespace lockstep::worker
