#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/group_rounds.h>

namespace lockstep::worker {
namespace {

/// "min, max": the ops of words, which have to be the same on all ranks.
std::string ops_of(const GroupRounds::Words& words) {
  std::string out;
  for (const collectives::Word& word : words)
    out.append(out.empty() ? "" : ", ").append(collectives::word_op_name(word.op));
  return out;
}

/// "max 4, all 1"
std::string text_of(const GroupRounds::Words& words) {
  std::string out;
  for (const collectives::Word& word : words)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", collectives::word_op_name(word.op),
                       word.value);
  return out;
}

/// Forgets words that were cast ahead if the driver has dropped them, as all ranks do after an
/// error that ends their promises.
template <class Promised>
void forget_dropped(std::optional<Promised>& words, const CallDriver& driver) {
  if (words && words->is_cast && !driver.has_words_ahead()) words.reset();
}

}  // namespace

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
  return observed(take);
}

template <class Take>
auto GroupRounds::observed(const Take& take) {
  if (observer_ != nullptr) observer_->began(key_);
  auto result = take();
  if (observer_ != nullptr)
    observer_->ended(key_, result ? Result<void>{} : Result<void>{result.error()});
  return result;
}

Result<GroupRounds::AgreedWords> GroupRounds::agree_words(RoundKey round, const Words& words,
                                                          RankStatus rank_status) {
  round.kind = RoundKey::Kind::Words;
  forget_dropped(words_, driver_);
  auto checked = collectives::check(words, driver_.group().size());
  const bool promised = has_words_ahead(round);
  if (checked && promised && words_->words != words)
    checked = bad_input(fmt::format("agree() on {} was promised with {}, and is called with {}",
                                    round.frame, text_of(words_->words), text_of(words)));
  const bool cast = promised && words_->is_cast;
  if (promised) words_.reset();
  if (cast) {
    key_ = driver_.words_ahead_key();
    auto taken = observed([&] { return driver_.take_words(); });
    begin_next();
    if ((checked && !rank_status.local_error) || !taken) return taken;
    unreported_ = rank_status.local_error ? rank_status.local_error : checked.error();
    return *unreported_;
  }
  if (checked)
    round.options = ops_of(words);
  else if (!rank_status.local_error)
    rank_status.local_error = checked.error();
  return outside(round,
                 [&] { return driver_.agree_words(key_, checked ? words : Words{}, rank_status); });
}

Result<void> GroupRounds::promise_words(RoundKey round, Words words) {
  forget_dropped(words_, driver_);
  if (words_)
    return bad_input(fmt::format("agree() on {} is ahead; take it before agree() on {} goes ahead",
                                 words_->round.frame, round.frame));
  if (auto checked = collectives::check(words, driver_.group().size()); !checked)
    return checked.error();
  round.kind = RoundKey::Kind::Words;
  round.options = ops_of(words);
  const bool cast = driver_.can_cast_words();
  if (cast) driver_.cast_words(next(round), words);
  words_ = {std::move(round), std::move(words), cast};
  return {};
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
  words_.reset();
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
