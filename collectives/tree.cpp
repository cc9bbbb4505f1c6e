#include <utility>

#include <lockstep/collectives/tree.h>

namespace lockstep::collectives {

// The middle of each range of ranks is the root of its tree; the two halves beside it are the
// subtrees.
TreePlace TreePlace::of(Rank self, int size, const HostRuns* hosts) {
  TreePlace place;
  if (hosts != nullptr && !hosts->empty()) {
    place = on_host(self, *hosts);
    if (place.parent) return place;
    const TreePlace host = of(Rank{hosts->run_of(self)}, hosts->count());
    if (host.parent) place.parent = hosts->head(host.parent->value);
    if (host.left) place.far_left = hosts->head(host.left->value);
    if (host.right) place.far_right = hosts->head(host.right->value);
    return place;
  }
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

TreePlace TreePlace::on_host(Rank self, const HostRuns& hosts) {
  const int run = hosts.run_of(self);
  const std::int32_t first = hosts.first(run).value;
  TreePlace place = of(Rank{self.value - first}, hosts.length(run));
  for (auto* each : {&place.parent, &place.left, &place.right})
    if (*each) (*each)->value += first;
  return place;
}

std::vector<Rank> TreePlace::neighbours() const {
  std::vector<Rank> out;
  for (const auto& each : {parent, left, right, far_left, far_right})
    if (each) out.push_back(*each);
  return out;
}

Round::Want TreeWalk::want() const {
  using Need = Round::Need;
  const auto with = [](Need need, const std::optional<Rank>& peer) {
    return peer ? Round::Want{need, *peer} : Round::Want{};
  };
  switch (stage_) {
    case Stage::Left:
      return with(Need::Receive, place_.left);
    case Stage::FarLeft:
      return with(Need::Receive, place_.far_left);
    case Stage::Right:
      return with(Need::Receive, place_.right);
    case Stage::FarRight:
      return with(Need::Receive, place_.far_right);
    case Stage::Up:
      return with(Need::Send, place_.parent);
    case Stage::Down:
      return with(Need::Receive, place_.parent);
    case Stage::ToFarLeft:
      return with(Need::Send, place_.far_left);
    case Stage::ToFarRight:
      return with(Need::Send, place_.far_right);
    case Stage::ToLeft:
      return with(Need::Send, place_.left);
    case Stage::ToRight:
      return with(Need::Send, place_.right);
    case Stage::Done:
      break;
  }
  return {};
}

TreeRound::TreeRound(Rank self, int size, Bytes mine, Join join, const HostRuns* hosts)
    : walk_(TreePlace::of(self, size, hosts)), payload_(std::move(mine)), join_(std::move(join)) {
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
  if (walk_.stage() <= Stage::FarLeft)
    payload_ = join_(message, payload_);
  else if (walk_.stage() <= Stage::FarRight)
    payload_ = join_(payload_, message);
  else
    payload_.assign(message.begin(), message.end());
  walk_.next();
  plan();
}

TalkRound::TalkRound(Rank self, int size, TreeTalk& talk)
    : walk_(TreePlace::of(self, size)), talk_(talk) {
  plan();
}

// Makes a stage's message when the walk reaches the stage. The root makes its word, too, but sends
// it to no rank.
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
  // no set bit, starts with the highest hop.
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
