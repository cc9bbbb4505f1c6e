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

Round::Want TreeWalk::want() const {
  using Need = Round::Need;
  const auto with = [](Need need, const std::optional<Rank>& peer) {
    return peer ? Round::Want{need, *peer} : Round::Want{};
  };
  switch (stage_) {
    case Stage::Left:
      return with(Need::Receive, place_.left);
    case Stage::Right:
      return with(Need::Receive, place_.right);
    case Stage::Up:
      return with(Need::Send, place_.parent);
    case Stage::Down:
      return with(Need::Receive, place_.parent);
    case Stage::ToLeft:
      return with(Need::Send, place_.left);
    case Stage::ToRight:
      return with(Need::Send, place_.right);
    case Stage::Done:
      break;
  }
  return {};
}

TreeRound::TreeRound(Rank self, int size, Bytes mine, Join join)
    : walk_(self, size), payload_(std::move(mine)), join_(std::move(join)) {
  plan();
}

void TreeRound::plan() {
  while (walk_.stage() != Stage::Done && !walk_.has_peer()) walk_.next();
}

void TreeRound::sent() {
  walk_.next();
  plan();
}

void TreeRound::received(std::span<const std::byte> message) {
  if (walk_.stage() == Stage::Left)
    payload_ = join_(message, payload_);
  else if (walk_.stage() == Stage::Right)
    payload_ = join_(payload_, message);
  else
    payload_.assign(message.begin(), message.end());
  walk_.next();
  plan();
}

TalkRound::TalkRound(Rank self, int size, TreeTalk& talk) : walk_(self, size), talk_(talk) {
  plan();
}

// A stage's message is made when its turn comes; the head of the tree makes its word, too.
void TalkRound::plan() {
  for (; walk_.stage() != Stage::Done; walk_.next()) {
    if (walk_.stage() == Stage::Up) out_ = talk_.word();
    if (!walk_.has_peer()) continue;
    if (walk_.stage() == Stage::ToLeft || walk_.stage() == Stage::ToRight)
      out_ = talk_.answer(walk_.stage() == Stage::ToLeft);
    return;
  }
}

void TalkRound::sent() {
  walk_.next();
  plan();
}

void TalkRound::received(std::span<const std::byte> message) {
  if (walk_.stage() == Stage::Down)
    talk_.answered(message);
  else
    talk_.heard(walk_.stage() == Stage::Left, message);
  walk_.next();
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
