#include <utility>

#include <lockstep/worker/agreement/call_driver.h>
#include <lockstep/worker/agreement/rank_table.h>

namespace lockstep::worker {

using collectives::Vote;
using collectives::VoteFlag;

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

Result<Vote> CallDriver::vote(const Vote& mine, collectives::Combine combine,
                              const RankStatus& rank_status) {
  if (auto in = finish_pending_vote(rank_status); !in) return in.error();
  const Instant start = now();
  TimedVote round({group_.rank(), group_.size(), mine, combine, group_.hosts()}, clock_);
  const auto done = group_.run(round);
  count_vote(now() - start, round.wait(), done ? &round.result() : nullptr, combine);
  if (!done) return done.error();
  return round.result();
}

void CallDriver::count_vote(Duration took, Duration wait, const Vote* result,
                            collectives::Combine combine) {
  times_.vote += took;
  times_.vote_wait += wait;
  ++times_.votes;
  times_.rounds.wait.add(wait);
  times_.rounds.wire.add(took - wait);
  const bool at_one =
      combine == collectives::Combine::Min || (result != nullptr && result->clean());
  ++times_.rounds.votes[result == nullptr ? RoundEnd::Broken
                        : at_one          ? RoundEnd::Agreed
                                          : RoundEnd::Diverged];
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
  // The AND of "not mine" is all ones only if no rank has it.
  const auto none = and_over_ranks(round, mine ? 0 : Vote::kOnes, rank_status);
  if (!none) return none.error();
  return *none != Vote::kOnes;
}

Result<std::int64_t> CallDriver::broadcast_from_lowest(const RoundKey& round, std::int64_t mine) {
  // All others say nothing, which is all ones.
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
                                                              std::string_view remark) {
  RankSet ranks = rank_status.speaks_for.empty() ? self_ : rank_status.speaks_for;
  if (ranks.empty()) ranks = RankSet::of(group_.rank());
  const auto payload =
      tree_join(rank_table_payload(ranks, rank_report(key, rank_status, remark)), join_rank_tables);
  if (!payload) return payload.error();
  times_.rounds.exchanges.move(RoundEnd::Agreed, RoundEnd::Diverged);
  return rank_table_values(*payload);
}

Status CallDriver::joint_error(const RoundKey& key, const RankStatus& rank_status,
                               std::string_view remark) {
  const auto lines = collect_rank_table(key, rank_status, remark);
  if (!lines) return lines.error();
  Status joint = diagnose(*lines);
  if (joint.code == Code::FrameMismatch) drop_promises();
  return joint;
}

}  // namespace lockstep::worker
