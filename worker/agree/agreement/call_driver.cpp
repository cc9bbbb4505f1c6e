#include <algorithm>
#include <span>
#include <utility>

#include <fmt/ranges.h>

#include <lockstep/worker/agree/agreement/call_driver.h>
#include <lockstep/worker/agree/agreement/rank_table.h>

namespace lockstep::worker {

using collectives::Combine;
using collectives::Vote;
using collectives::VoteFlag;
using collectives::VoteRound;

namespace {

/// Steps of a call that this rank can no longer make: trace and compile fail, and all ranks learn
/// why.
class FailedSteps final : public CallSteps {
 public:
  explicit FailedSteps(const Status& why) : why_(why) {}
  Result<TraceReport> trace(const Decision&) override {
    TraceReport report;
    report.failure = why_;
    return report;
  }
  std::string explain(std::size_t) override { return {}; }
  std::optional<Status> compile() override { return why_; }

 private:
  const Status& why_;
};

RoundEnd end_of(const Result<void>& done, bool at_one) {
  if (!done) return RoundEnd::Broken;
  return at_one ? RoundEnd::Agreed : RoundEnd::Diverged;
}

/// The words that have to be equal on all ranks, for reports.
std::string equal_words(const CallDriver::Words& words) {
  std::vector<std::int64_t> equal;
  for (const collectives::Word& word : words)
    if (word.op == collectives::WordOp::Equal) equal.push_back(word.value);
  return fmt::format("{}", fmt::join(equal, ", "));
}

}  // namespace

CallTimes& CallTimes::operator+=(const CallTimes& other) {
  vote += other.vote, exchange += other.exchange, trace += other.trace, compile += other.compile;
  vote_wait += other.vote_wait, votes += other.votes, exchanges += other.exchanges;
  traces += other.traces, compiles += other.compiles;
  rounds += other.rounds;
  return *this;
}

CallTimes& CallTimes::operator-=(const CallTimes& other) {
  vote -= other.vote, exchange -= other.exchange, trace -= other.trace, compile -= other.compile;
  vote_wait -= other.vote_wait, votes -= other.votes, exchanges -= other.exchanges;
  traces -= other.traces, compiles -= other.compiles;
  rounds -= other.rounds;
  return *this;
}

Result<Vote> CallDriver::vote(const Vote& mine, Combine combine, const RankStatus& rank_status) {
  if (auto in = finish_pending_vote(rank_status); !in) return in.error();
  const Instant start = now();
  Timed<VoteRound> round(clock_, group_.rank(), group_.size(), mine, combine, group_.hosts());
  const auto done = group_.run(round);
  const bool at_one = combine == Combine::Min || round->result().clean();
  count_vote(now() - start, round.wait(), end_of(done, at_one));
  if (!done) return done.error();
  return round->result();
}

void CallDriver::count_vote(Duration took, Duration wait, RoundEnd end) {
  times_.vote += took;
  times_.vote_wait += wait;
  ++times_.votes;
  times_.rounds.wait.add(wait);
  times_.rounds.wire.add(took - wait);
  ++times_.rounds.votes[end];
}

void CallDriver::count_exchange(Instant start, bool done) {
  const Duration took = now() - start;
  times_.exchange += took;
  ++times_.exchanges;
  times_.rounds.wire.add(took);
  ++times_.rounds.exchanges[done ? RoundEnd::Agreed : RoundEnd::Broken];
}

void CallDriver::tell(CallMachine& machine, const Vote& result) {
  const bool agreed =
      std::get<action::Vote>(machine.next()).combine == collectives::Combine::And && result.clean();
  machine.voted(result);
  unconfirmed_ = result.clean() && result.raised(VoteFlag::Ahead);
  if (agreed && std::holds_alternative<action::TreeJoin>(machine.next()))
    times_.rounds.votes.move(RoundEnd::Agreed, RoundEnd::Resolved);
}

void CallDriver::tell(CallMachine& machine, const Bytes& joined) {
  machine.joined(joined);
  const auto* end = std::get_if<action::Finish>(&machine.next());
  if (end != nullptr && end->outcome.error)
    times_.rounds.exchanges.move(RoundEnd::Agreed, RoundEnd::Diverged);
}

Result<Bytes> CallDriver::tree_join(Bytes mine, collectives::Join join) {
  if (auto in = finish_pending_vote({}); !in) return in.error();
  const Instant start = now();
  collectives::TreeRound round(group_.rank(), group_.size(), std::move(mine), std::move(join),
                               group_.hosts());
  const auto done = group_.run(round);
  count_exchange(start, done.has_value());
  if (!done) return done.error();
  return round.result();
}

Result<Bytes> CallDriver::broadcast(Rank root, Bytes mine) {
  if (auto in = finish_pending_vote({}); !in) return in.error();
  const Instant start = now();
  collectives::BroadcastRound round(group_.rank(), group_.size(), root, std::move(mine));
  const auto done = group_.run(round);
  count_exchange(start, done.has_value());
  if (!done) return done.error();
  return round.result();
}

Result<void> CallDriver::talk(collectives::TreeTalk& talk) {
  if (auto in = finish_pending_vote({}); !in) return in.error();
  const Instant start = now();
  collectives::TalkRound round(group_.rank(), group_.size(), talk);
  auto done = group_.run(round);
  count_exchange(start, done.has_value());
  return done;
}

CallOutcome CallDriver::call(const RoundKey& key, CodeCache& cache, Observation observation,
                             RankStatus rank_status, CallSteps& steps) {
  release(cache);
  if (rank_status.speaks_for.empty()) rank_status.speaks_for = self_;
  CallMachine machine(group_.rank(), group_.size(), cache.own_config.value_or(config_),
                      with_pending_call(key), cache, std::move(observation),
                      std::move(rank_status));
  for (CallObserver* observer : observers_) observer->began(machine);
  return drive(machine, steps, times_);
}

CallOutcome CallDriver::drive(CallMachine& machine, CallSteps& steps, CallTimes before) {
  for (;;) {
    for (CallObserver* observer : observers_) observer->acts(machine.next());
    auto outcome = answer(machine, steps);
    if (!outcome) continue;
    if (outcome->error && outcome->error->code == Code::FrameMismatch) drop_promises();
    CallTimes took = times_;
    took -= before;
    for (CallObserver* observer : observers_) observer->ended(machine, *outcome, took);
    return *std::move(outcome);
  }
}

std::optional<CallOutcome> CallDriver::answer(CallMachine& machine, CallSteps& steps) {
  const Action& action = machine.next();
  if (const auto* to_vote = std::get_if<action::Vote>(&action)) {
    const auto result = vote(to_vote->mine, to_vote->combine, machine.rank_status());
    result ? tell(machine, *result) : machine.failed(result.error());
  } else if (const auto* to_join = std::get_if<action::TreeJoin>(&action)) {
    if (auto met = confirm(machine); !met) {
      machine.failed(met.error());
      return std::nullopt;
    }
    const auto result = tree_join(to_join->mine, to_join->join);
    result ? tell(machine, *result) : machine.failed(result.error());
  } else if (const auto* to_broadcast = std::get_if<action::Broadcast>(&action)) {
    const auto result = broadcast(to_broadcast->root, to_broadcast->mine);
    result ? tell(machine, *result) : machine.failed(result.error());
  } else if (const auto* to_trace = std::get_if<action::Trace>(&action)) {
    for (CallObserver* observer : observers_) observer->missed(machine);
    const Instant start = now();
    const Duration rounds = times_.vote + times_.exchange;
    auto report = steps.trace(*to_trace->decision);
    times_.trace += now() - start - (times_.vote + times_.exchange - rounds);
    ++times_.traces;
    if (report)
      for (CallObserver* observer : observers_) observer->traced(*report);
    report ? machine.traced(std::move(*report)) : machine.failed(report.error());
  } else if (const auto* to_explain = std::get_if<action::Explain>(&action)) {
    std::string text = steps.explain(to_explain->node);
    for (CallObserver* observer : observers_) observer->explained(text);
    machine.explained(std::move(text));
  } else if (std::holds_alternative<action::Compile>(action)) {
    const Instant start = now();
    const Duration rounds = times_.vote + times_.exchange;
    auto failure = steps.compile();
    times_.compile += now() - start - (times_.vote + times_.exchange - rounds);
    ++times_.compiles;
    for (CallObserver* observer : observers_) observer->compiled(failure);
    machine.compiled(std::move(failure));
  } else {
    return std::get<action::Finish>(action).outcome;
  }
  return std::nullopt;
}

AuditOutcome CallDriver::audit(const RoundKey& key, AuditLedger& ledger, AuditedCall own) {
  AuditMachine machine(self_.empty() ? group_.rank() : self_.lowest(), with_pending_call(key),
                       ledger, std::move(own));
  while (machine.outcome() == nullptr) {
    if (const auto* to_vote = std::get_if<action::Vote>(&machine.next())) {
      const auto result = vote(to_vote->mine, to_vote->combine);
      result ? machine.voted(*result) : machine.failed(result.error());
    } else {
      const auto& to_join = std::get<action::TreeJoin>(machine.next());
      const auto result = tree_join(to_join.mine, to_join.join);
      result ? machine.joined(*result) : machine.failed(result.error());
    }
  }
  const AuditOutcome& outcome = *machine.outcome();
  if (outcome.error && outcome.error->code == Code::FrameMismatch) drop_promises();
  return outcome;
}

Result<void> CallDriver::status_round(const RoundKey& round, const RankStatus& rank_status) {
  const RoundKey key = with_pending_call(round);
  Vote mine = Vote::of(0, key.hash(), 0, rank_status.pending);
  if (rank_status.local_error) mine.raise(VoteFlag::Error);
  const auto result = vote(mine, collectives::Combine::And, rank_status);
  if (!result) return result.error();
  if (result->clean()) return {};
  return joint_error(key, rank_status);
}

Result<std::uint64_t> CallDriver::and_over_ranks(const RoundKey& round, std::uint64_t word,
                                                 const RankStatus& rank_status) {
  const RoundKey key = with_pending_call(round);
  Vote mine = Vote::of(word, key.hash(), 0, rank_status.pending);
  if (rank_status.local_error) mine.raise(VoteFlag::Error);
  const auto result = vote(mine, collectives::Combine::And, rank_status);
  if (!result) return result.error();
  if (!result->clean()) return joint_error(key, rank_status);
  return result->entries();
}

Result<bool> CallDriver::any_rank(const RoundKey& round, bool mine, const RankStatus& rank_status) {
  // The AND is all ones only if `mine` is false on every rank.
  const auto none = and_over_ranks(round, mine ? 0 : Vote::kOnes, rank_status);
  if (!none) return none.error();
  return *none != Vote::kOnes;
}

Result<std::int64_t> CallDriver::broadcast_from_lowest(const RoundKey& round, std::int64_t mine) {
  // All other ranks vote all ones, which is neutral.
  const bool lowest = group_.rank().value == 0 || group_.mirrors();
  const auto word =
      and_over_ranks(round, lowest ? static_cast<std::uint64_t>(mine) : Vote::kOnes, {});
  if (!word) return word.error();
  return static_cast<std::int64_t>(*word);
}

Result<Vote> CallDriver::vote_words(const RoundKey& key, const Vote& mine) {
  auto result = vote(mine, collectives::Combine::And);
  if (result && !result->same_key()) return joint_error(key, {});
  return result;
}

Result<std::vector<RankValue>> CallDriver::collect_rank_table(const RoundKey& key,
                                                              const RankStatus& rank_status,
                                                              std::string_view remark,
                                                              std::string_view brought) {
  RankSet ranks = rank_status.speaks_for.empty() ? self_ : rank_status.speaks_for;
  if (ranks.empty()) ranks = RankSet::of(group_.rank());
  const auto payload = tree_join(
      rank_table_payload(ranks, rank_report(key, rank_status, remark, brought)), join_rank_tables);
  if (!payload) return payload.error();
  times_.rounds.exchanges.move(RoundEnd::Agreed, RoundEnd::Diverged);
  return rank_table_values(*payload);
}

Status CallDriver::joint_error(const RoundKey& key, const RankStatus& rank_status,
                               std::string_view remark, std::string_view brought) {
  const auto lines = collect_rank_table(key, rank_status, remark, brought);
  if (!lines) return lines.error();
  Status joint = diagnose(*lines);
  if (joint.code == Code::FrameMismatch) drop_promises();
  return joint;
}

Result<CallDriver::AgreedWords> CallDriver::agree_words(const RoundKey& round, const Words& words,
                                                        const RankStatus& rank_status) {
  if (auto in = finish_pending_vote(rank_status); !in) return in.error();
  const RoundKey key = with_pending_call(round);
  const Instant start = now();
  Timed<collectives::WordsRound> votes(clock_, group_.rank(), group_.size(), key.hash(), words,
                                       rank_status.local_error.has_value(), group_.hosts());
  const auto done = group_.run(votes);
  count_vote(now() - start, votes.wait(), end_of(done, votes->met()));
  if (!done) return done.error();
  if (votes->met()) return votes->words();
  return joint_error(key, rank_status, {}, equal_words(words));
}

void CallDriver::cast_words(const RoundKey& round, Words words, RankStatus rank_status) {
  words_ahead_.emplace(round, std::move(words), std::move(rank_status), group_, clock_);
  group_.start(words_ahead_->votes);
}

Result<CallDriver::AgreedWords> CallDriver::take_words() {
  if (auto in = finish_pending_vote({}); !in) return in.error();
  AgreedWords words = words_ahead_->votes->words();
  words_ahead_.reset();
  return words;
}

// Calls ahead: promises, and the vote that is cast before its call.
void CallDriver::promise(RoundKey key, CodeCache& cache, Observation observation,
                         RankStatus rank_status) {
  promises_.push_back({std::move(key), &cache, std::move(observation), std::move(rank_status)});
}

const Observation* CallDriver::promised(const CodeCache& cache) const {
  if (is_ahead(cache)) return &ahead_->machine.observation();
  for (const Promise& promise : promises_)
    if (promise.cache == &cache) return &promise.observation;
  return nullptr;
}

void CallDriver::release(const CodeCache& cache) {
  const auto kept = std::find_if(promises_.begin(), promises_.end(),
                                 [&](const Promise& promise) { return promise.cache == &cache; });
  if (kept != promises_.end()) promises_.erase(kept);
}

void CallDriver::begin(std::uint64_t round, std::uint64_t call) {
  Promise next = std::move(promises_.front());
  promises_.pop_front();
  next.key.round = round;
  next.key.call = call;
  if (next.rank_status.speaks_for.empty()) next.rank_status.speaks_for = self_;
  CallMachine machine(group_.rank(), group_.size(), next.cache->own_config.value_or(config_),
                      std::move(next.key), *next.cache, std::move(next.observation),
                      std::move(next.rank_status));
  Vote mine = std::get<action::Vote>(machine.next()).mine;
  mine.raise(VoteFlag::Ahead);
  const VoteRound vote(group_.rank(), group_.size(), mine, Combine::And, group_.hosts());
  ahead_.emplace(std::move(machine), clock_, vote, *next.cache);
  group_.start(ahead_->vote);
}

void CallDriver::poll_vote(VoteIs& vote) {
  // A transport error is returned again by the wait for this vote.
  const auto ended = group_.poll();
  if (!ended || *ended) vote = VoteIs::Arrived;
}

Result<void> CallDriver::await_vote(VoteIs& vote) {
  const Instant start = now();
  auto ended = group_.wait();
  count_vote(now() - start, Duration{0}, end_of(ended, vote_ahead_met()));
  vote = VoteIs::Arrived;
  return ended;
}

CallOutcome CallDriver::take(CallSteps& steps) {
  for (CallObserver* observer : observers_) observer->began(ahead_->machine);
  for (CallObserver* observer : observers_) observer->acts(ahead_->machine.next());
  const CallTimes before = times_;
  VoteIs* const pending = pending_vote();
  const Result<void> in = pending != nullptr ? await_vote(*pending) : Result<void>{};
  CallMachine machine = std::move(ahead_->machine);
  const Vote result = ahead_->vote->result();
  ahead_.reset();
  if (in) {
    if (!result.clean()) promises_.clear();
    tell(machine, result);
  } else {
    machine.failed(in.error());
  }
  return drive(machine, steps, before);
}

Result<void> CallDriver::confirm(const CallMachine& machine) {
  if (!std::exchange(unconfirmed_, false)) return {};
  return status_round(machine.key(), machine.rank_status());
}

RoundKey CallDriver::with_pending_call(RoundKey key) const {
  if (ahead_ ? ahead_->abandoned : !words_ahead_) return key;
  const RoundKey& pending = ahead_ ? ahead_->machine.key() : words_ahead_->key;
  key.pending_call = pending.text();
  key.pending_round = pending.round;
  return key;
}

Result<void> CallDriver::finish_pending_vote(const RankStatus& rank_status) {
  VoteIs* const vote = pending_vote();
  if (vote == nullptr) return {};
  if (auto in = await_vote(*vote); !in) return in;
  if (vote_ahead_met()) {
    *vote = VoteIs::Agreed;
    if (ahead_ && ahead_->abandoned) ahead_.reset();
    return {};
  }
  const RoundKey key = ahead_ ? ahead_->machine.key() : words_ahead_->key;
  // A call promised with a local error will not be made, so the error is reported here.
  const RankStatus mine = rank_status.local_error ? rank_status
                          : ahead_                ? ahead_->machine.rank_status()
                                                  : words_ahead_->rank_status;
  const std::string brought = ahead_ ? "" : equal_words(words_ahead_->words);
  drop_promises();
  return joint_error(key, mine, ", prefetched", brought);
}

void CallDriver::drop_promises() {
  promises_.clear();
  ahead_.reset();
  words_ahead_.reset();
}

bool CallDriver::abandon(const CodeCache& cache) {
  promises_.erase(std::remove_if(promises_.begin(), promises_.end(),
                                 [&](const Promise& promise) { return promise.cache == &cache; }),
                  promises_.end());
  if (!is_ahead(cache)) return false;
  if (pending_vote() == nullptr)
    ahead_.reset();
  else
    ahead_->abandoned = true;
  return ahead_.has_value();
}

Result<void> CallDriver::withdraw_prefetch(const Status& why) {
  if (!ahead_) return {};
  FailedSteps steps(why);
  CallOutcome outcome = take(steps);
  drop_promises();
  if (outcome.kind == CallOutcome::Kind::Error) return *std::move(outcome.error);
  return {};
}

Result<std::uint64_t> CallDriver::resync(const std::string& group, std::uint64_t epoch,
                                         RankStatus rank_status) {
  // The key has no epoch and no number, because the ranks may differ in these.
  RoundKey key;
  key.group = group;
  key.kind = RoundKey::Kind::Resync;
  bool met = true;
  if (VoteIs* const vote = pending_vote()) {
    if (auto in = await_vote(*vote); !in) return in.error();
    met = vote_ahead_met();
  }
  drop_promises();
  // A rank whose pending vote was not unanimous goes straight to the rank table, as its peers do
  // after their pending votes. Then all ranks start again, with no vote pending.
  for (bool all_here = false;; met = true) {
    if (met) {
      const auto result = vote(Vote::of(0, key.hash(), 0, 0), Combine::And);
      if (!result) return result.error();
      if (result->clean()) break;
      if (all_here) return joint_error(key, rank_status);
    }
    const auto here = all_in_resync(key, rank_status);
    if (!here) return here.error();
    all_here = *here;
  }
  Vote latest;
  latest.words[0] = ~epoch;
  const auto newest = vote(latest, Combine::Min);
  if (!newest) return newest.error();
  return ~newest->words[0] + 1;
}

Result<bool> CallDriver::all_in_resync(const RoundKey& key, RankStatus& rank_status) {
  const auto lines = collect_rank_table(key, std::exchange(rank_status, {}));
  if (!lines) return lines.error();
  bool here = true, failed = false;
  for (const RankValue& line : *lines) {
    ByteReader in(std::as_bytes(std::span(line.value)));
    const RankReport said = read_rank_report(in);
    here &= said.round == key.round_text();
    failed |= said.local_error.has_value();
  }
  if (here) return true;
  Status joint = diagnose(*lines);
  // Ranks in other rounds have that error now, and are expected to join the resync.
  if (failed && joint.code != Code::Gone) return false;
  return joint;
}

}  // namespace lockstep::worker
