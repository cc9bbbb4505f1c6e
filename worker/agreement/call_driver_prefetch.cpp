// The part of the driver that casts votes ahead of their calls, and brings ranks back into step.
#include <algorithm>
#include <span>
#include <utility>

#include <lockstep/worker/agreement/call_driver.h>

namespace lockstep::worker {

using collectives::Combine;
using collectives::Vote;
using collectives::VoteFlag;

namespace {

/// Of a call that this rank cannot make any more: where the ranks have to trace, all hear of it.
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

}  // namespace

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
  const collectives::VoteRound vote(group_.rank(), group_.size(), mine, Combine::And,
                                    group_.hosts());
  ahead_.emplace(std::move(machine), TimedVote(vote, clock_), *next.cache);
  group_.start(ahead_->vote);
}

void CallDriver::move_vote() {
  // An error of the transport comes again where the vote is waited for.
  const auto ended = group_.poll();
  if (!ended || *ended) ahead_->vote_is = CallAhead::VoteIs::Arrived;
}

Result<void> CallDriver::await_vote() {
  const Instant start = now();
  auto ended = group_.wait();
  count_vote(now() - start, Duration{0}, ended ? &ahead_->vote.result() : nullptr, Combine::And);
  ahead_->vote_is = CallAhead::VoteIs::Arrived;
  return ended;
}

CallOutcome CallDriver::take(CallSteps& steps) {
  for (CallObserver* observer : observers_) observer->began(ahead_->machine);
  for (CallObserver* observer : observers_) observer->acts(ahead_->machine.next());
  const CallTimes before = times_;
  const Result<void> in = has_pending_vote() ? await_vote() : Result<void>{};
  CallMachine machine = std::move(ahead_->machine);
  const Vote result = ahead_->vote.result();
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
  if (!ahead_ || ahead_->abandoned) return key;
  key.pending_call = ahead_->machine.key().text();
  key.pending_round = ahead_->machine.key().round;
  return key;
}

Result<void> CallDriver::finish_pending_vote(const RankStatus& rank_status) {
  if (!has_pending_vote()) return {};
  if (auto in = await_vote(); !in) return in;
  if (ahead_->vote.result().clean()) {
    if (ahead_->abandoned)
      ahead_.reset();
    else
      ahead_->vote_is = CallAhead::VoteIs::Agreed;
    return {};
  }
  const RoundKey key = ahead_->machine.key();
  // A call promised with a local error is not made any more, so the error is reported here.
  const RankStatus mine = rank_status.local_error ? rank_status : ahead_->machine.rank_status();
  drop_promises();
  return joint_error(key, mine, ", prefetched");
}

void CallDriver::drop_promises() {
  promises_.clear();
  ahead_.reset();
}

bool CallDriver::abandon(const CodeCache& cache) {
  promises_.erase(std::remove_if(promises_.begin(), promises_.end(),
                                 [&](const Promise& promise) { return promise.cache == &cache; }),
                  promises_.end());
  if (!is_ahead(cache)) return false;
  if (!has_pending_vote())
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
  // Without epoch and number: those are what the ranks may differ in.
  RoundKey key;
  key.group = group;
  key.kind = RoundKey::Kind::Resync;
  bool met = true;
  if (has_pending_vote()) {
    if (auto in = await_vote(); !in) return in.error();
    met = ahead_->vote.result().clean();
  }
  drop_promises();
  // A rank that has just finished its pending vote reaches the rank table by that vote; then all
  // start again, and no vote is pending any more.
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
  // Ranks that are elsewhere have that error now, and are to come here.
  if (failed && joint.code != Code::Gone) return false;
  return joint;
}

}  // namespace lockstep::worker
