// Drives call machines and status rounds over a real communicator: does what the machine asks,
// reports the result to it, and measures times. Used by the job and the library call.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/round_counts.h>
#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/vote.h>
#include <lockstep/collectives/words.h>
#include <lockstep/worker/agree/agreement/audit.h>
#include <lockstep/worker/agree/agreement/call_machine.h>

namespace lockstep::worker {

/// The steps of a call that are not part of the protocol: tracing and compiling, by this project or
/// by a framework.
class CallSteps {
 public:
  virtual ~CallSteps() = default;
  /// An error ends the call at once: a round inside the trace failed, so all ranks have already
  /// left the call. A trace that fails by itself returns a report with `failure`.
  [[nodiscard]] virtual Result<TraceReport> trace(const Decision& decision) = 0;
  [[nodiscard]] virtual std::string explain(std::size_t node) = 0;
  [[nodiscard]] virtual std::optional<Status> compile() = 0;
};

/// A rank's times and counts of rounds, summed over calls.
struct CallTimes {
  /// `trace` and `compile` exclude the rounds made within them.
  Duration vote{0}, exchange{0}, trace{0}, compile{0};
  Duration vote_wait{0};  // the part of `vote` before the first peer's message arrived
  std::uint64_t votes = 0, exchanges = 0;  // exchanges: every round with payloads
  std::uint64_t traces = 0, compiles = 0;
  RoundCounts rounds;
  CallTimes& operator+=(const CallTimes& other);
  CallTimes& operator-=(const CallTimes& other);
};

/// Observes the calls of a driver, on the rank's own thread; changes nothing.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  /// Called before the first action of a call. For a prefetched call: when the call is made, after
  /// its vote.
  virtual void began(const CallMachine& machine) { (void)machine; }
  /// Called with each action, before it is done.
  virtual void acts(const Action& action) { (void)action; }
  /// Called before each trace: no entry fits on every rank, and the frame is still unchanged.
  virtual void missed(const CallMachine& machine) { (void)machine; }
  // Called with the results of the steps.
  virtual void traced(const TraceReport& report) { (void)report; }
  virtual void explained(std::string_view text) { (void)text; }
  virtual void compiled(const std::optional<Status>& failure) { (void)failure; }
  /// `took`: the call's times.
  virtual void ended(const CallMachine& machine, const CallOutcome& outcome,
                     const CallTimes& took) {
    (void)machine, (void)outcome, (void)took;
  }
};

/// A round of votes, started on construction, that measures how long this rank waits for its first
/// peer: the cost of stragglers, apart from that of the network. The clock must outlive it.
template <class Votes>
class Timed final : public collectives::Round {
 public:
  template <class... Arguments>
  explicit Timed(const Clock& clock, Arguments&&... arguments)
      : votes_(std::forward<Arguments>(arguments)...), clock_(clock), start_(clock.now()) {}

  [[nodiscard]] Want want() const override { return votes_.want(); }
  [[nodiscard]] std::size_t message_bytes() const override { return votes_.message_bytes(); }
  [[nodiscard]] std::span<const std::byte> outgoing() const override { return votes_.outgoing(); }
  void sent() override { votes_.sent(); }
  void received(std::span<const std::byte> message) override {
    if (!first_) first_ = clock_.now();
    votes_.received(message);
  }

  [[nodiscard]] const Votes& operator*() const { return votes_; }
  [[nodiscard]] const Votes* operator->() const { return &votes_; }
  /// Time from the start until the first message arrived; zero in a group of one.
  [[nodiscard]] Duration wait() const { return first_.value_or(start_) - start_; }

 private:
  Votes votes_;
  const Clock& clock_;
  Instant start_;
  std::optional<Instant> first_;
};

/// The calls of one rank in one group. Single-threaded. If the driver is destroyed with a call
/// ahead, the group must not be used again.
///
/// Calls ahead: the calls of a frame are promised in the order in which they will be made. begin()
/// casts the vote of the oldest promise of all frames, without blocking; poke() advances it. At
/// most one such vote is in flight, and every other round first waits for it, on all ranks. A
/// promise covers the sizes of a call, not what a rank does before it. If a rank makes another
/// round after the vote, instead of the call, the next round of the other ranks detects that. On a
/// miss that round is the vote that confirms the call. On a hit it is any round, because the key of
/// every round says whether the call is still to be made. If a vote is not unanimous, every rank
/// drops all its promises.
class CallDriver {
 public:
  /// `self`: the rank that errors name for this driver; empty: its rank within `group`.
  CallDriver(collectives::Communicator& group, DecisionConfig config, RankSet self = {})
      : group_(group), config_(config), self_(std::move(self)) {}
  CallDriver(const CallDriver&) = delete;
  CallDriver& operator=(const CallDriver&) = delete;

  /// Adds an observer of all calls from now on. It outlives the driver.
  void observe(CallObserver& observer) { observers_.push_back(&observer); }

  /// Runs the call to its end.
  [[nodiscard]] CallOutcome call(const RoundKey& key, CodeCache& cache, Observation observation,
                                 RankStatus rank_status, CallSteps& steps);

  /// Promises a call of the frame, after the calls already promised. begin() sets the numbers of
  /// the key. A local error in `rank_status` becomes the error of that call on every rank.
  void promise(RoundKey key, CodeCache& cache, Observation observation,
               RankStatus rank_status = {});
  /// The promised observation of the frame's next call; null: none.
  [[nodiscard]] const Observation* promised(const CodeCache& cache) const;
  /// Key of the oldest promise, for which begin() is to be called once the current call, if any,
  /// has been agreed on and committed. Null: there is no promise, or a call is ahead.
  [[nodiscard]] const RoundKey* due() const {
    return ahead_ || words_ahead_ || promises_.empty() ? nullptr : &promises_.front().key;
  }
  /// Looks up the oldest promised call and casts its vote. Requires due().
  void begin(std::uint64_t round, std::uint64_t call);
  /// Advances the vote in flight, if any. Never blocks.
  void poke() {
    if (VoteIs* vote = pending_vote(); vote != nullptr && *vote == VoteIs::Out) poll_vote(*vote);
  }
  /// Drops the frame's oldest promise whose vote is not cast yet, if any; the call is then made
  /// without a promise.
  void release(const CodeCache& cache);
  /// Drops the frame's promises: no rank calls it again. Returns true if its vote may be in flight;
  /// the frame must then stay in place until has_ahead() is false.
  [[nodiscard]] bool abandon(const CodeCache& cache);
  [[nodiscard]] bool has_ahead() const { return ahead_.has_value(); }
  /// True if the frame's next call is ahead: take() makes it.
  [[nodiscard]] bool is_ahead(const CodeCache& cache) const {
    return ahead_ && &ahead_->cache == &cache;
  }
  [[nodiscard]] const RoundKey& ahead_key() const { return ahead_->machine.key(); }
  /// Sets the scalars of the call ahead to those of the call as `made`: a promise does not cover
  /// scalars.
  void renew_scalars(const Observation& made) { ahead_->machine.renew_scalars(made.scalars); }
  /// Returns `key` after adding the prefetched call that is still to be made, if any. Every round
  /// uses such a key.
  [[nodiscard]] RoundKey with_pending_call(RoundKey key) const;
  /// Runs the call ahead to its end, as call() does. Requires has_ahead().
  [[nodiscard]] CallOutcome take(CallSteps& steps);
  /// Withdraws all promises of this rank, because it cannot keep one (`why`). Takes part in the
  /// call ahead until the ranks agree on it. Errors: the joint error, if the call ahead reports
  /// `why` to all ranks. Success: the peers run an entry as promised, and the next round must
  /// report `why`; or no call was ahead.
  [[nodiscard]] Result<void> withdraw_prefetch(const Status& why);

  /// Collective, after an error that all ranks have. Brings ranks that are out of step to a common
  /// epoch and returns its number; the group's call numbers start again, and no promises are left.
  /// A local error in `rank_status` becomes the error of ranks that are in another round; this rank
  /// then waits here for them. Errors: FrameMismatch, with the round of each rank, if a rank is in
  /// another round and none has a local error (resync() may then be tried again); Gone.
  [[nodiscard]] Result<std::uint64_t> resync(const std::string& group, std::uint64_t epoch,
                                             RankStatus rank_status = {});

  /// Compares what the ranks are about to run, each by its own decision (audit.h).
  [[nodiscard]] AuditOutcome audit(const RoundKey& key, AuditLedger& ledger, AuditedCall own);

  /// One vote on the ranks' status, outside of a call: settle, finish, a point inside a graph.
  /// Fails with the same error on every rank if any rank has a local error or is in another round.
  [[nodiscard]] Result<void> status_round(const RoundKey& round, const RankStatus& rank_status);

  /// True on every rank if `mine` is true on any; a round of its own. Errors: as status_round.
  [[nodiscard]] Result<bool> any_rank(const RoundKey& round, bool mine,
                                      const RankStatus& rank_status = {});
  /// The value of the group's lowest rank on every rank; a round of its own. Errors: as
  /// status_round.
  [[nodiscard]] Result<std::int64_t> broadcast_from_lowest(const RoundKey& round,
                                                           std::int64_t mine);

  /// The group's words (collectives/words.h); a round of its own. `words` have passed check(), or
  /// `rank_status` has a local error. Errors: as status_round; ConstantMismatch, with every rank's
  /// words, if words that have to be equal are not.
  using Words = std::vector<collectives::Word>;
  using AgreedWords = std::vector<collectives::AgreedWord>;
  [[nodiscard]] Result<AgreedWords> agree_words(const RoundKey& round, const Words& words,
                                                const RankStatus& rank_status = {});
  /// True if words may be cast ahead: no other vote is ahead or promised. Equal on all ranks.
  [[nodiscard]] bool can_cast_words() const {
    return !ahead_ && !words_ahead_ && promises_.empty();
  }
  /// Casts the votes of words ahead of agree_words(); poke() advances them. Never blocks. Requires
  /// can_cast_words().
  void cast_words(const RoundKey& round, Words words, RankStatus rank_status = {});
  [[nodiscard]] bool has_words_ahead() const { return words_ahead_.has_value(); }
  [[nodiscard]] const RoundKey& words_ahead_key() const { return words_ahead_->key; }
  /// Returns the group's words for those cast ahead; errors as agree_words(). Requires
  /// has_words_ahead().
  [[nodiscard]] Result<AgreedWords> take_words();

  /// A vote in a step that the ranks take together (building, starting); the step defines what the
  /// words mean. Returns the AND of all. Errors: the joint error if a rank is in another round, as
  /// in status_round.
  [[nodiscard]] Result<collectives::Vote> vote_words(const RoundKey& key,
                                                     const collectives::Vote& mine);
  [[nodiscard]] Result<Bytes> tree_join(Bytes mine, collectives::Join join);
  [[nodiscard]] Result<Bytes> broadcast(Rank root, Bytes mine);
  [[nodiscard]] Result<void> talk(collectives::TreeTalk& talk);

  [[nodiscard]] collectives::Communicator& group() { return group_; }
  [[nodiscard]] const DecisionConfig& config() const { return config_; }
  [[nodiscard]] const CallTimes& times() const { return times_; }

 private:
  struct Promise {
    RoundKey key;
    CodeCache* cache;
    Observation observation;
    RankStatus rank_status;
  };
  /// State of a vote cast ahead. Arrived: it has ended, and its result is not examined yet. Agreed:
  /// the result was examined and is unanimous.
  enum class VoteIs : std::uint8_t { Out, Arrived, Agreed };
  /// The call whose vote was cast ahead of it. Never moves: the group refers to its vote.
  struct CallAhead {
    CallAhead(CallMachine its_machine, const Clock& clock, const collectives::VoteRound& its_vote,
              CodeCache& its_cache)
        : machine(std::move(its_machine)), vote(clock, its_vote), cache(its_cache) {}
    CallMachine machine;
    Timed<collectives::VoteRound> vote;
    CodeCache& cache;
    VoteIs vote_is = VoteIs::Out;
    bool abandoned = false;  // the call will not be made; dropped once its vote has ended
  };
  /// Words whose votes were cast ahead. Never moves.
  struct WordsAhead {
    WordsAhead(RoundKey its_key, Words its_words, RankStatus status,
               collectives::Communicator& group, const Clock& clock)
        : key(std::move(its_key)),
          words(std::move(its_words)),
          rank_status(std::move(status)),
          votes(clock, group.rank(), group.size(), key.hash(), words,
                rank_status.local_error.has_value(), group.hosts()) {}
    RoundKey key;
    Words words;
    RankStatus rank_status;
    Timed<collectives::WordsRound> votes;
    VoteIs vote_is = VoteIs::Out;
  };

  /// `before`: times_ when the call began.
  [[nodiscard]] CallOutcome drive(CallMachine& machine, CallSteps& steps, CallTimes before);
  /// Does the next action of `machine`. Returns the outcome if that is Finish.
  [[nodiscard]] std::optional<CallOutcome> answer(CallMachine& machine, CallSteps& steps);
  /// After the vote of a miss: checks that the ranks that cast this vote ahead do make the call.
  [[nodiscard]] Result<void> confirm(const CallMachine& machine);
  /// Reports the result of a vote, or of a tree join or broadcast, to `machine`.
  void tell(CallMachine& machine, const collectives::Vote& result);
  void tell(CallMachine& machine, const Bytes& joined);
  /// The vote ahead that must still be waited for; null: none.
  [[nodiscard]] VoteIs* pending_vote() {
    VoteIs* vote = ahead_ ? &ahead_->vote_is : words_ahead_ ? &words_ahead_->vote_is : nullptr;
    return vote != nullptr && *vote != VoteIs::Agreed ? vote : nullptr;
  }
  /// True if the result of the vote ahead, which has arrived, is unanimous.
  [[nodiscard]] bool vote_ahead_met() const {
    return ahead_ ? ahead_->vote->result().clean() : words_ahead_->votes->met();
  }
  void poll_vote(VoteIs& vote);
  [[nodiscard]] Result<void> await_vote(VoteIs& vote);
  /// Waits for the pending vote, before any other round. Errors: the joint error, to which this
  /// rank reports `rank_status`, if the vote is not unanimous.
  [[nodiscard]] Result<void> finish_pending_vote(const RankStatus& rank_status);
  void count_vote(Duration took, Duration wait, RoundEnd end);
  /// Counts a tree join, broadcast or talk that began at `start`. `done`: it succeeded.
  void count_exchange(Instant start, bool done);
  /// The AND of the ranks' words. Errors: as status_round.
  [[nodiscard]] Result<std::uint64_t> and_over_ranks(const RoundKey& round, std::uint64_t word,
                                                     const RankStatus& rank_status);
  void drop_promises();
  [[nodiscard]] Result<collectives::Vote> vote(const collectives::Vote& mine,
                                               collectives::Combine combine,
                                               const RankStatus& rank_status = {});
  /// Collects the reports of all ranks.
  [[nodiscard]] Result<std::vector<RankValue>> collect_rank_table(const RoundKey& key,
                                                                  const RankStatus& rank_status,
                                                                  std::string_view remark = {},
                                                                  std::string_view brought = {});
  /// The diagnosis of all reports, the same on every rank; arguments as rank_report().
  [[nodiscard]] Status joint_error(const RoundKey& key, const RankStatus& rank_status,
                                   std::string_view remark = {}, std::string_view brought = {});
  /// Collects a rank table during a resync. Reports `rank_status` in it, then clears `rank_status`.
  /// True: every rank is in this resync. False: some rank was in another round, which has failed
  /// with a rank's local error.
  [[nodiscard]] Result<bool> all_in_resync(const RoundKey& key, RankStatus& rank_status);
  [[nodiscard]] Instant now() const { return clock_.now(); }

  collectives::Communicator& group_;
  DecisionConfig config_;
  RankSet self_;
  std::vector<CallObserver*> observers_;
  SystemClock clock_;
  CallTimes times_;
  std::deque<Promise> promises_;  // oldest first, without that of the call ahead
  std::optional<CallAhead> ahead_;
  std::optional<WordsAhead> words_ahead_;  // not set while ahead_ is
  bool unconfirmed_ = false;               // the last vote of a call was cast ahead by some rank
};

}  // namespace lockstep::worker
