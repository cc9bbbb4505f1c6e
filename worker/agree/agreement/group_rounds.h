// The rounds of one group of ranks, for everything that makes rounds over it: its agreements, the
// frames of a job, a program's own votes. The one place for epochs and numbers of rounds, for the
// order of prefetched calls, for resync and for how a rank leaves.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/worker/agree/agreement/call_driver.h>

namespace lockstep::worker {

/// Observes the rounds of a group, on the rank's own thread; changes nothing.
class RoundObserver {
 public:
  virtual ~RoundObserver() = default;
  /// Called when this rank reaches a call of a frame.
  virtual void reaches_call(const RoundKey& call) { (void)call; }
  // Called at the start and at the end of a round outside of calls.
  virtual void began(const RoundKey& round) = 0;
  virtual void ended(const RoundKey& round, const Result<void>& result) {
    (void)round, (void)result;
  }
};

/// Where the peers of a leaving rank go next.
enum class PeersGo : std::uint8_t {
  On,         // to a round of the group, or to run the call ahead
  ToRound,    // to a round of the group, as all have the last round's error
  Elsewhere,  // perhaps to a round of another group
};

/// The rounds over one communicator, with at most one vote in flight. Single-threaded. Callers give
/// the keys of rounds without epoch and numbers.
class GroupRounds {
 public:
  /// `self` and `config`: as CallDriver's. `first`: the number of an epoch's first round.
  explicit GroupRounds(collectives::Communicator& group, RankSet self = {},
                       DecisionConfig config = {}, std::uint64_t first = 0)
      : driver_(group, config, std::move(self)), first_(first), next_(first) {}

  /// Sets the observer, which must outlive this object.
  void observe(RoundObserver& observer) { observer_ = &observer; }
  [[nodiscard]] CallDriver& driver() { return driver_; }
  /// Key of the current or last round.
  [[nodiscard]] const RoundKey& key() const { return key_; }
  /// Begins the next round: returns `round` with its epoch and numbers.
  const RoundKey& next(const RoundKey& round);

  using Words = CallDriver::Words;
  using AgreedWords = CallDriver::AgreedWords;
  /// As CallDriver::agree_words, after check(). `round.frame` is the name of the words. Takes the
  /// votes that promise_words() has cast, if it has this name; `rank_status` is then for the next
  /// round. Errors: as the driver's; BadInput (other words were promised; if their votes were cast,
  /// only this rank has the error: take_unreported_error()).
  [[nodiscard]] Result<AgreedWords> agree_words(RoundKey round, const Words& words,
                                                RankStatus rank_status = {});
  [[nodiscard]] bool has_words_ahead(const RoundKey& round) const {
    return words_ && words_->round.frame == round.frame && words_->round.group == round.group;
  }
  /// Returns and clears the error of a broken promise that only this rank has so far, for the next
  /// round.
  [[nodiscard]] std::optional<Status> take_unreported_error() {
    return std::exchange(unreported_, std::nullopt);
  }
  /// Commits to agree_words() with these words, so that their votes run ahead of it. The votes are
  /// cast in agree_words() itself if another vote is ahead now. Errors: BadInput (other words are
  /// ahead, or check() fails), after which nothing is promised.
  [[nodiscard]] Result<void> promise_words(RoundKey round, Words words);

  // Rounds outside of calls; errors as the driver's.
  [[nodiscard]] Result<void> status_round(const RoundKey& round,
                                          const RankStatus& rank_status = {});
  [[nodiscard]] Result<bool> any_rank(const RoundKey& round, bool mine,
                                      const RankStatus& rank_status = {});
  /// As CallDriver::resync; begins a new epoch.
  [[nodiscard]] Result<void> resync(const RoundKey& round, RankStatus rank_status = {});
  /// Reports `gone` to the peers as this rank leaves, in the round `close` or in the call ahead.
  /// Error: the error that all ranks get. Success: the peers may never learn of `gone` in a round,
  /// so the watchdog must end the job.
  [[nodiscard]] Result<void> leave(const RoundKey& close, const Status& gone, PeersGo peers);

  /// Runs the next call of a frame to its end: the call ahead if it is of this frame, else a new
  /// call with the key `call`. Then calls `agreed()` and casts the vote of the next promised call.
  /// A call ahead gets the scalars of `observation`. An lvalue `observation` is copied only for a
  /// new call.
  template <class Seen, class Agreed = decltype([] {})>
  [[nodiscard]] CallOutcome call(const RoundKey& call, CodeCache& cache, Seen&& observation,
                                 RankStatus rank_status, CallSteps& steps,
                                 const Agreed& agreed = {}) {
    const bool ahead = reach_call(call, cache);
    if (ahead) driver_.renew_scalars(observation);
    CallOutcome outcome = ahead ? driver_.take(steps)
                                : driver_.call(key_, cache, std::forward<Seen>(observation),
                                               std::move(rank_status), steps);
    agreed();
    begin_next();
    return outcome;
  }
  /// The error of a call that this rank cannot make.
  struct Refusal {
    Status error;          // the joint error, or `why`
    bool unheard = false;  // the peers run an entry as promised and do not know the error
  };
  /// Takes part in the next call of the frame with the local error `why`. If that call is ahead,
  /// all promises of this rank are withdrawn.
  [[nodiscard]] Refusal refuse(const RoundKey& call, CodeCache& cache, const Status& why);
  /// Drops the promises of `frames`: no rank calls them again. Returns true if a vote of one of
  /// them may be in flight; `frames` must then stay in place until the driver has no call ahead.
  [[nodiscard]] bool abandon(std::span<const CodeCache* const> frames);
  /// As CallDriver::promise; casts the vote if no call is ahead.
  void promise(RoundKey call, CodeCache& cache, Observation observation, RankStatus rank_status);

 private:
  /// Sets `key_` to the key of the frame's next call. Returns true if that call is ahead.
  bool reach_call(const RoundKey& call, const CodeCache& cache);
  /// Casts the vote of the next promised call, if no call is ahead.
  void begin_next() {
    if (const RoundKey* call = driver_.due()) driver_.begin(next_++, calls_[call->frame]++);
  }
  struct PromisedWords {
    RoundKey round;
    Words words;
    bool is_cast;  // else their votes are cast when they are taken
  };
  /// Makes a round outside of calls by calling `take`, with its key in `key_`.
  template <class Take>
  [[nodiscard]] auto outside(const RoundKey& round, const Take& take);
  /// Calls `take` for the round of key_, and tells the observer.
  template <class Take>
  [[nodiscard]] auto observed(const Take& take);

  CallDriver driver_;
  RoundObserver* observer_ = nullptr;  // null: none
  RoundKey key_;
  std::uint64_t first_, next_, epoch_ = 0;
  std::optional<PromisedWords> words_;          // not taken yet
  std::optional<Status> unreported_;            // error of a broken promise of words
  std::map<std::string, std::uint64_t> calls_;  // number of calls by frame, in this epoch
};

}  // namespace lockstep::worker
