#include <utility>

#include <lockstep/worker/agree/agreement/group_rounds.h>

namespace lockstep::worker {
const RoundKey& GroupRounds::next(const RoundKey& round) {
  key_ = round;
  key_.epoch = epoch_;
  key_.round = next_++;
  const bool is_call = key_.kind == RoundKey::Kind::Call || key_.kind == RoundKey::Kind::Audit;
  key_.call = is_call ? calls_[key_.frame]++ : key_.round;
  return key_;
}

template <class Take>
auto GroupRounds::outside(const RoundKey& round, const Take& take) {
  next(round);
  if (observer_ != nullptr) observer_->began(key_);
  auto result = take();
  if (observer_ != nullptr)
    observer_->ended(key_, result ? Result<void>{} : Result<void>{result.error()});
  return result;
}

Result<void> GroupRounds::status_round(const RoundKey& round, const RankStatus& rank_status) {
  return outside(round, [&] { return driver_.status_round(key_, rank_status); });
}

Result<bool> GroupRounds::any_rank(const RoundKey& round, bool mine,
                                   const RankStatus& rank_status) {
  return outside(round, [&] { return driver_.any_rank(key_, mine, rank_status); });
}

Result<void> GroupRounds::resync(const RoundKey& round, RankStatus rank_status) {
  const auto met =
      outside(round, [&] { return driver_.resync(key_.group, epoch_, std::move(rank_status)); });
  if (!met) return met.error();
  epoch_ = *met;
  next_ = first_;
  calls_.clear();
  return {};
}

// Peers in a prefetched call make no round now, and may never make one.
Result<void> GroupRounds::leave(const RoundKey& close, const Status& gone, PeersGo peers) {
  if (peers == PeersGo::Elsewhere || (peers == PeersGo::On && driver_.has_ahead()))
    return driver_.withdraw_prefetch(gone);
  const auto told = status_round(close, {.pending = 0, .local_error = gone});
  return told ? gone : told.error();
}

bool GroupRounds::reach_call(const RoundKey& call, const CodeCache& cache) {
  const bool ahead = driver_.is_ahead(cache);
  if (ahead)
    key_ = driver_.ahead_key();
  else
    next(call);
  if (observer_ != nullptr) observer_->reaches_call(key_);
  return ahead;
}

GroupRounds::Refusal GroupRounds::refuse(const RoundKey& call, CodeCache& cache,
                                         const Status& why) {
  if (driver_.is_ahead(cache)) {
    key_ = driver_.ahead_key();
    const auto unheard = driver_.withdraw_prefetch(why);
    return unheard ? Refusal{why, true} : Refusal{unheard.error()};
  }
  driver_.release(cache);
  const auto joint = driver_.status_round(next(call), {.pending = 0, .local_error = why});
  begin_next();
  return {joint ? why : joint.error()};
}

bool GroupRounds::abandon(std::span<const CodeCache* const> frames) {
  bool out = false;
  for (const CodeCache* frame : frames) out |= driver_.abandon(*frame);
  begin_next();
  return out;
}

void GroupRounds::promise(RoundKey call, CodeCache& cache, Observation observation,
                          RankStatus rank_status) {
  call.epoch = epoch_;
  driver_.promise(std::move(call), cache, std::move(observation), std::move(rank_status));
  begin_next();
}

}  // namespace lockstep::worker
