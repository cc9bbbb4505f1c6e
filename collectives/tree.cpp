#include <utility>

#include <lockstep/collectives/tree.h>

namespace lockstep::collectives {

// Each range of ranks is headed by its middle; the two halves beside it are its subtrees.
TreePlace TreePlace::of(Rank self, int size) {
  TreePlace place;
  std::int32_t low = 0, high = size - 1;
  std::int32_t head = low + (high - low) / 2;
  while (head != self.value) {
    place.parent = Rank{head};
    (self.value < head ? high : low) = self.value < head ? head - 1 : head + 1;
    head = low + (high - low) / 2;
  }
  if (low < head) place.left = Rank{low + (head - 1 - low) / 2};
  if (head < high) place.right = Rank{head + 1 + (high - head - 1) / 2};
  return place;
}

TreeRound::TreeRound(Rank self, int size, Bytes mine, Join join)
    : place_(TreePlace::of(self, size)), payload_(std::move(mine)), join_(std::move(join)) {
  plan();
}

// Stages without a peer are passed over.
void TreeRound::plan() {
  for (;; stage_ = static_cast<Stage>(static_cast<std::uint8_t>(stage_) + 1)) {
    std::optional<Rank> peer;
    Need need = Need::Send;
    switch (stage_) {
      case Stage::Left:
        peer = place_.left, need = Need::Receive;
        break;
      case Stage::Right:
        peer = place_.right, need = Need::Receive;
        break;
      case Stage::Up:
        peer = place_.parent;
        break;
      case Stage::Down:
        peer = place_.parent, need = Need::Receive;
        break;
      case Stage::ToLeft:
        peer = place_.left;
        break;
      case Stage::ToRight:
        peer = place_.right;
        break;
      case Stage::Done:
        want_ = {};
        return;
    }
    if (!peer) continue;
    want_ = {need, *peer};
    return;
  }
}

void TreeRound::sent() {
  stage_ = static_cast<Stage>(static_cast<std::uint8_t>(stage_) + 1);
  plan();
}

void TreeRound::received(std::span<const std::byte> message) {
  if (stage_ == Stage::Left)
    payload_ = join_(message, payload_);
  else if (stage_ == Stage::Right)
    payload_ = join_(payload_, message);
  else
    payload_.assign(message.begin(), message.end());
  stage_ = static_cast<Stage>(static_cast<std::uint8_t>(stage_) + 1);
  plan();
}

BroadcastRound::BroadcastRound(Rank self, int size, Rank root, Bytes mine)
    : self_(self.value),
      size_(size),
      relative_((self.value - root.value + size) % size),
      have_(self == root),
      payload_(std::move(mine)) {
  // The lowest set bit of `relative_` is the hop by which the payload arrives; the root, which has
  // none, starts with the highest hop.
  while (mask_ < size_ && (relative_ & mask_) == 0) mask_ <<= 1;
  plan();
}

void BroadcastRound::plan() {
  if (!have_) {
    want_ = {Need::Receive, Rank{(self_ - mask_ + size_) % size_}};
    return;
  }
  for (mask_ >>= 1; mask_ > 0; mask_ >>= 1) {
    if (relative_ + mask_ >= size_) continue;
    want_ = {Need::Send, Rank{(self_ + mask_) % size_}};
    return;
  }
  want_ = {};
}

void BroadcastRound::sent() { plan(); }

void BroadcastRound::received(std::span<const std::byte> message) {
  payload_.assign(message.begin(), message.end());
  have_ = true;
  plan();
}

}  // namespace lockstep::collectives
