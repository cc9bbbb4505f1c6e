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

VoteRound::VoteRound(Rank self, int size, const Vote& mine, Combine combine)
    : vote_(mine),
      self_(self.value),
      size_(size),
      core_(static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(size)))),
      combine_(combine) {
  plan();
}

// Ranks from core_ on fold their vote into the rank core_ below them and are told the result; the
// others exchange with the partner that differs in bit_, for each bit.
void VoteRound::plan() {
  const bool folded = self_ >= core_;
  const std::int32_t partner = folded ? self_ - core_ : self_ + core_;
  const bool has_partner = partner < size_;
  if (stage_ == Stage::FoldIn) {
    if (has_partner) {
      want_ = {folded ? Need::Send : Need::Receive, Rank{partner}};
      return;
    }
    stage_ = Stage::Double;
  }
  if (stage_ == Stage::Double) {
    if (!folded && bit_ < core_) {
      want_ = {Need::Swap, Rank{self_ ^ bit_}};
      return;
    }
    stage_ = Stage::FoldOut;
  }
  if (stage_ == Stage::FoldOut && has_partner) {
    want_ = {folded ? Need::Receive : Need::Send, Rank{partner}};
    return;
  }
  stage_ = Stage::Done;
  want_ = {};
}

std::span<const std::byte> VoteRound::outgoing() const {
  return std::as_bytes(std::span(vote_.words));
}

void VoteRound::sent() {
  stage_ = stage_ == Stage::FoldIn ? Stage::Double : Stage::Done;
  plan();
}

void VoteRound::received(std::span<const std::byte> message) {
  Vote theirs;
  if (message.size() == sizeof theirs)
    std::memcpy(theirs.words.data(), message.data(), sizeof theirs);
  else
    theirs.words.fill(0);
  for (std::size_t i = 0; i < vote_.words.size(); ++i) {
    std::uint64_t& word = vote_.words[i];
    word = combine_ == Combine::And ? word & theirs.words[i] : std::min(word, theirs.words[i]);
  }
  switch (stage_) {
    case Stage::FoldIn:
      stage_ = Stage::Double;
      break;
    case Stage::Double:
      bit_ <<= 1;
      break;
    default:
      stage_ = Stage::Done;
  }
  plan();
}

}  // namespace lockstep::collectives
