#include <algorithm>
#include <bit>
#include <cstring>

#include <lockstep/collectives/vote.h>

namespace lockstep::collectives {

Vote Vote::of(std::uint64_t entries, std::uint64_t key, std::uint64_t state,
              std::uint64_t pending) {
  Vote vote;
  vote.words = {entries, key, ~key, state, ~state, pending, ~pending, kOnes};
  return vote;
}

void Vote::take_words(const Vote& result) {
  for (const std::size_t word : kVoteWords) words[word] = result.words[word];
  words[1] &= result.words[1], words[2] &= result.words[2], words[7] &= result.words[7];
}

void Vote::join(const Vote& other, const VoteOps& ops) {
  words[1] &= other.words[1], words[2] &= other.words[2], words[7] &= other.words[7];
  for (std::size_t i = 0; i < ops.size(); ++i) {
    std::uint64_t& mine = words[kVoteWords[i]];
    const std::uint64_t theirs = other.words[kVoteWords[i]];
    const auto a = static_cast<std::int64_t>(mine), b = static_cast<std::int64_t>(theirs);
    if (!ops[i]) continue;
    switch (*ops[i]) {
      case WordOp::BitAnd:
      case WordOp::All:
        mine &= theirs;
        break;
      case WordOp::BitOr:
      case WordOp::Any:
        mine |= theirs;
        break;
      case WordOp::Min:
        if (b < a) mine = theirs;
        break;
      case WordOp::Max:
        if (b > a) mine = theirs;
        break;
      case WordOp::Sum:
        mine += theirs;
        break;
      case WordOp::Equal:
        if (a == b) break;
        raise(VoteFlag::Unequal);
        mine = std::min(mine, theirs);  // the same on both
        break;
      case WordOp::ArgMin:
      case WordOp::ArgMax: {
        std::uint64_t& rank = words[kVoteWords[i + 1]];
        const std::uint64_t their_rank = other.words[kVoteWords[i + 1]];
        const bool better = ops[i] == WordOp::ArgMin ? b < a : b > a;
        if (better || (a == b && their_rank < rank)) mine = theirs, rank = their_rank;
        break;
      }
    }
  }
}

VoteRound::VoteRound(Rank self, int size, const Vote& mine, Combine combine, const HostRuns* hosts,
                     const VoteOps* ops)
    : vote_(mine),
      hosts_(hosts != nullptr && !hosts->empty() ? hosts : nullptr),
      place_(hosts_ != nullptr ? TreePlace::on_host(self, *hosts_) : TreePlace{}),
      walk_(place_),
      self_(hosts_ != nullptr ? hosts_->run_of(self) : self.value),
      size_(hosts_ != nullptr ? hosts_->count() : size),
      core_(static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(size_)))),
      combine_(combine),
      ops_(ops) {
  plan();
}

// A host h >= core_ sends its vote to host h - core_ and receives the result from it. Each other
// host exchanges votes, for each bit_, with the host whose number differs in that bit.
Round::Want VoteRound::want_between_hosts() const {
  const auto with = [this](Need need, std::int32_t host) {
    return Want{need, hosts_ != nullptr ? hosts_->head(host) : Rank{host}};
  };
  const bool folded = self_ >= core_;
  if (stage_ == Stage::Double)
    return !folded && bit_ < core_ ? with(Need::Swap, self_ ^ bit_) : Want{};
  const std::int32_t partner = folded ? self_ - core_ : self_ + core_;
  if (partner >= size_) return {};
  return with((stage_ == Stage::FoldIn) == folded ? Need::Send : Need::Receive, partner);
}

/// True on the head of a host, from when it has gathered the host's votes until it has the result.
bool VoteRound::between_hosts() const {
  return walk_.stage() == TreeWalk::Stage::Down && !place_.parent && stage_ != Stage::Done;
}

/// True if the next message is the vote of all ranks, in which this rank's own is contained.
bool VoteRound::awaits_result() const {
  return between_hosts() ? stage_ == Stage::FoldOut : walk_.stage() == TreeWalk::Stage::Down;
}

void VoteRound::plan() {
  while (walk_.stage() != TreeWalk::Stage::Done) {
    want_ = between_hosts() ? want_between_hosts() : walk_.want();
    if (want_.need != Need::Done) return;
    between_hosts() ? void(stage_ = static_cast<Stage>(static_cast<int>(stage_) + 1))
                    : walk_.next();
  }
  want_ = {};
}

void VoteRound::next() {
  if (!between_hosts())
    walk_.next();
  else if (stage_ == Stage::Double)
    bit_ <<= 1;
  else
    stage_ = static_cast<Stage>(static_cast<int>(stage_) + 1);
  plan();
}

std::span<const std::byte> VoteRound::outgoing() const {
  return std::as_bytes(std::span(vote_.words));
}

void VoteRound::sent() { next(); }

void VoteRound::received(std::span<const std::byte> message) {
  Vote theirs;
  if (message.size() == sizeof theirs)
    std::memcpy(theirs.words.data(), message.data(), sizeof theirs);
  else
    theirs.words.fill(0);
  if (ops_ == nullptr)
    vote_.join(theirs, combine_);
  else if (awaits_result())
    vote_.take_words(theirs);
  else
    vote_.join(theirs, *ops_);
  next();
}

}  // namespace lockstep::collectives
