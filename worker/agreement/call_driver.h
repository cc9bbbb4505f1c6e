// Drives call machines and status rounds over a real communicator: does what the machine asks,
// tells it what came of it, and keeps the time. The job facade and the library call stand on this.
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
#include <lockstep/worker/agreement/audit.h>
#include <lockstep/worker/agreement/call_machine.h>

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
  /// `trace` and `compile` are without the rounds that ranks take while they build.
  Duration vote{0}, exchange{0}, trace{0}, compile{0};
  Duration vote_wait{0};  // the part of `vote` before the first peer's message was there
  std::uint64_t votes = 0, exchanges = 0;  // exchanges: every round with payloads
  std::uint64_t traces = 0, compiles = 0;
  RoundCounts rounds;
  CallTimes& operator+=(const CallTimes& other);
  CallTimes& operator-=(const CallTimes& other);
};

/// Is told of the calls of a driver, on the rank's own thread; changes nothing.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  /// Before the first action. A call that was prefetched begins when it is made.
  virtual void began(const CallMachine& machine) { (void)machine; }
  /// What the machine asks for, before it is done.
  virtual void acts(const Action& action) { (void)action; }
  /// No entry fits on every rank; before each trace, while the frame is as it was.
  virtual void missed(const CallMachine& machine) { (void)machine; }
  // What the steps answered.
  virtual void traced(const TraceReport& report) { (void)report; }
  virtual void explained(std::string_view text) { (void)text; }
  virtual void compiled(const std::optional<Status>& failure) { (void)failure; }
  /// `took`: what the driver spent on the call.
  virtual void ended(const CallMachine& machine, const CallOutcome& outcome,
                     const CallTimes& took) {
    (void)machine, (void)outcome, (void)took;
  }
};

/// A vote, starting now, that knows how long this rank waited for its first peer: what a straggler
/// costs, apart from what the network costs. The clock outlives it.
class TimedVote final : public collectives::Round {
 public:
  TimedVote(collectives::VoteRound vote, const Clock& clock)
      : vote_(std::move(vote)), clock_(clock), start_(clock.now()) {}

  [[nodiscard]] Want want() const override { return vote_.want(); }
  [[nodiscard]] std::size_t message_bytes() const override { return vote_.message_bytes(); }
  [[nodiscard]] std::span<const std::byte> outgoing() const override { return vote_.outgoing(); }
  void sent() override { vote_.sent(); }
  void received(std::span<const std::byte> message) override {
    if (!first_) first_ = clock_.now();
    vote_.received(message);
  }

  [[nodiscard]] const collectives::Vote& result() const { return vote_.result(); }
  /// From the start until the first message was there; zero in a group of one.
  [[nodiscard]] Duration wait() const { return first_.value_or(start_) - start_; }

 private:
  collectives::VoteRound vote_;
  const Clock& clock_;
  Instant start_;
  std::optional<Instant> first_;
};

/// One group of ranks as seen from one of them. One thread. The group is not used again after a
/// driver that goes away with a call ahead.
///
/// Calls ahead: the calls of a frame are promised in the order in which they will be made. The vote
/// of the oldest promise of all frames is cast by begin(), without waiting, and moves in poke(); at
/// most one is out. Every other round first brings it in, on all ranks alike. A promise covers
/// sizes, not what happens in between: a rank that goes another way after its vote came in is found
/// by the next round of the ranks that make the call. That is at once where the call is a miss, for
/// it is confirmed by one more vote then; where it is a hit, the key of every round says whether
/// the call is still to be made. If a vote is not unanimous, every rank drops all its promises.
class CallDriver {
 public:
  /// `self`: this rank as errors number it, in a group that numbers its ranks by place.
  CallDriver(collectives::Communicator& group, DecisionConfig config, RankSet self = {})
      : group_(group), config_(config), self_(std::move(self)) {}
  CallDriver(const CallDriver&) = delete;
  CallDriver& operator=(const CallDriver&) = delete;

  /// One more that is told of all calls from here on. It outlives the driver.
  void observe(CallObserver& observer) { observers_.push_back(&observer); }

  /// Takes the call to its end.
  [[nodiscard]] CallOutcome call(const RoundKey& key, CodeCache& cache, Observation observation,
                                 RankStatus rank_status, CallSteps& steps);

  /// Commits to a call of the frame, after those already promised. The key's numbers are given by
  /// begin(). A local error in `rank_status` becomes the error of that call on every rank.
  void promise(RoundKey key, CodeCache& cache, Observation observation,
               RankStatus rank_status = {});
  /// What the next call of the frame is held to; null: nothing.
  [[nodiscard]] const Observation* promised(const CodeCache& cache) const;
  /// The promised call whose turn it is, where none is ahead: begin() is to be called, once the
  /// call under way, if any, has been agreed on and committed. Null: there is none.
  [[nodiscard]] const RoundKey* due() const {
    return ahead_ || promises_.empty() ? nullptr : &promises_.front().key;
  }
  /// Looks up the oldest promised call and casts its vote. Requires due().
  void begin(std::uint64_t round, std::uint64_t call);
  /// Moves the vote that is out. Never waits; one comparison where none is.
  void poke() {
    if (ahead_ && ahead_->vote_is == CallAhead::VoteIs::Out) move_vote();
  }
  /// The next call of the frame is made in another way: it was promised, but its vote is not cast.
  void release(const CodeCache& cache);
  /// The frame is not called any more, on all ranks alike. True: its vote may be out, so it stays
  /// in place until has_ahead() is false.
  [[nodiscard]] bool abandon(const CodeCache& cache);
  [[nodiscard]] bool has_ahead() const { return ahead_.has_value(); }
  /// The call of the frame is ahead: take() makes it.
  [[nodiscard]] bool is_ahead(const CodeCache& cache) const {
    return ahead_ && &ahead_->cache == &cache;
  }
  [[nodiscard]] const RoundKey& ahead_key() const { return ahead_->machine.key(); }
  /// Scalars are not promised: the call ahead sees those of the call as it is made.
  void renew_scalars(const Observation& made) { ahead_->machine.renew_scalars(made.scalars); }
  /// `key` with the prefetched call that is still to be made, as in every round of this driver.
  [[nodiscard]] RoundKey with_pending_call(RoundKey key) const;
  /// Takes the call ahead to its end, as call() does. Requires that there is one.
  [[nodiscard]] CallOutcome take(CallSteps& steps);
  /// Withdraws all promises of this rank, which cannot keep one of them: `why`. Takes part in the
  /// call ahead until the ranks agree on it. Errors: the joint error where all ranks hear of `why`
  /// in this call; else the others run an entry as promised, and `why` is for the next round.
  [[nodiscard]] Result<void> withdraw_prefetch(const Status& why);

  /// Collective. Brings ranks that are out of step, after an error that all have, to a common
  /// epoch, the number of which it returns; no rank has promises after it. The group's call numbers
  /// start again. A local error in `rank_status` becomes the error of ranks that are in another
  /// round, for which this one then waits here. Errors: FrameMismatch where a rank is in another
  /// round and none has a local error, with what each is in (resync() may be tried again after
  /// that); Gone.
  [[nodiscard]] Result<std::uint64_t> resync(const std::string& group, std::uint64_t epoch,
                                             RankStatus rank_status = {});

  /// Compares what the ranks are about to run, each by its own decision (audit.h).
  [[nodiscard]] AuditOutcome audit(const RoundKey& key, AuditLedger& ledger, AuditedCall own);

  /// One vote on how the ranks stand, outside of a call: settle, finish, a point inside a graph.
  /// The same error on every rank if one of them has a local error or is in another round.
  [[nodiscard]] Result<void> status_round(const RoundKey& round, const RankStatus& rank_status);

  /// True on every rank if `mine` is true on any; a round of its own. Errors: as status_round.
  [[nodiscard]] Result<bool> any_rank(const RoundKey& round, bool mine,
                                      const RankStatus& rank_status = {});
  /// The value of the group's lowest rank on every rank; a round of its own. Errors: as
  /// status_round.
  [[nodiscard]] Result<std::int64_t> broadcast_from_lowest(const RoundKey& round,
                                                           std::int64_t mine);

  /// For steps that the ranks take together (building, at start): a vote whose words have a meaning
  /// of the step's own; the result is the AND of all. Errors: a rank in another round is the joint
  /// error, as in status_round.
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
  /// The call whose vote was cast ahead of it. Stays in place: the group refers to its vote.
  struct CallAhead {
    CallAhead(CallMachine its_machine, TimedVote its_vote, CodeCache& its_cache)
        : machine(std::move(its_machine)), vote(std::move(its_vote)), cache(its_cache) {}
    /// Arrived: it need not be moved any more, and nobody has looked at it. Agreed: it was waited
    /// for, and all ranks were at one on it.
    enum class VoteIs : std::uint8_t { Out, Arrived, Agreed };
    CallMachine machine;
    TimedVote vote;
    CodeCache& cache;
    VoteIs vote_is = VoteIs::Out;
    bool abandoned = false;  // the call is not made any more: it goes once its vote is in
  };

  /// `before`: the times when the call began.
  [[nodiscard]] CallOutcome drive(CallMachine& machine, CallSteps& steps, CallTimes before);
  /// Does the one thing that `machine` asks for; nullopt unless it was to finish.
  [[nodiscard]] std::optional<CallOutcome> answer(CallMachine& machine, CallSteps& steps);
  /// After the vote of a call that is a miss: are those that cast it ahead here?
  [[nodiscard]] Result<void> confirm(const CallMachine& machine);
  /// Tells `machine` what its vote, or its tree join, came to.
  void tell(CallMachine& machine, const collectives::Vote& result);
  void tell(CallMachine& machine, const Bytes& joined);
  /// Whether the vote of the call ahead is still to be waited for.
  [[nodiscard]] bool has_pending_vote() const {
    return ahead_ && ahead_->vote_is != CallAhead::VoteIs::Agreed;
  }
  void move_vote();
  [[nodiscard]] Result<void> await_vote();
  /// Before any other round: waits for the pending vote. Errors: where the vote is not unanimous,
  /// the joint error, in which `rank_status` takes part.
  [[nodiscard]] Result<void> finish_pending_vote(const RankStatus& rank_status);
  /// Counts a vote that took `took` and ended with `result`; null: it broke off.
  void count_vote(Duration took, Duration wait, const collectives::Vote* result,
                  collectives::Combine combine);
  /// Counts a tree join or a broadcast that began at `start` and came to its end, or did not.
  void count_exchange(Instant start, bool done);
  /// The AND of the ranks' words. Errors: as status_round.
  [[nodiscard]] Result<std::uint64_t> and_over_ranks(const RoundKey& round, std::uint64_t word,
                                                     const RankStatus& rank_status);
  void drop_promises();
  [[nodiscard]] Result<collectives::Vote> vote(const collectives::Vote& mine,
                                               collectives::Combine combine,
                                               const RankStatus& rank_status = {});
  /// The reports of all ranks.
  [[nodiscard]] Result<std::vector<RankValue>> collect_rank_table(const RoundKey& key,
                                                                  const RankStatus& rank_status,
                                                                  std::string_view remark = {});
  /// The diagnosis of all reports, the same on every rank.
  [[nodiscard]] Status joint_error(const RoundKey& key, const RankStatus& rank_status,
                                   std::string_view remark = {});
  /// Collects a rank table during a resync. True: every rank reports this resync. False: some rank
  /// is in another round and has heard of a local error; `rank_status` has been told.
  [[nodiscard]] Result<bool> all_in_resync(const RoundKey& key, RankStatus& rank_status);
  [[nodiscard]] Instant now() const { return clock_.now(); }

  collectives::Communicator& group_;
  DecisionConfig config_;
  RankSet self_;
  std::vector<CallObserver*> observers_;
  SystemClock clock_;
  CallTimes times_;
  std::deque<Promise> promises_;  // oldest first, without the one whose call is ahead
  std::optional<CallAhead> ahead_;
  bool unconfirmed_ = false;  // the last vote of a call was cast ahead by some rank
};

}  // namespace lockstep::worker
