#include <algorithm>
#include <optional>

#include <lockstep/worker/simulator/cluster/folded_rounds.h>

namespace lockstep::worker::simulator {
namespace {

using collectives::TreePlace;
using collectives::Vote;
using collectives::VoteRound;

/// Returns the number of messages that `self` receives in a vote.
std::uint64_t vote_messages(Rank self, int size) {
  VoteRound round(self, size, Vote{});
  const Vote other;
  std::uint64_t count = 0;
  for (;;) {
    switch (round.want().need) {
      case collectives::Round::Need::Done:
        return count;
      case collectives::Round::Need::Send:
        round.sent();
        break;
      default:
        ++count;
        round.received(std::as_bytes(std::span(other.words)));
    }
  }
}

}  // namespace

std::size_t unit_of(std::span<const Unit> units, Rank rank) {
  return static_cast<std::size_t>(std::ranges::lower_bound(units, rank.value, {}, &Unit::last) -
                                  units.begin());
}

std::vector<VoteShare> vote_shares(int size) {
  std::int32_t core = 1;
  while (core <= size / 2) core *= 2;
  std::vector<VoteShare> out;
  const std::int32_t starts[] = {0, size - core, core, size};
  for (int i = 0; i < 3; ++i)
    if (starts[i] < starts[i + 1])
      out.push_back({{starts[i], starts[i + 1] - 1}, vote_messages(Rank{starts[i]}, size)});
  return out;
}

FoldedRounds::FoldedRounds(std::vector<Unit> units, int size)
    : units_(std::move(units)), size_(size) {
  std::int32_t root = 0;
  while (const auto parent = TreePlace::of(Rank{root}, size_).parent) root = parent->value;
  if (spans(0, size_ - 1)) (void)add_joint(root, 0, size_ - 1);
  for (std::size_t i = 0; i < units_.size(); ++i) add_plain(i);
}

bool FoldedRounds::spans(std::int32_t low, std::int32_t high) const {
  return units_[unit_of(low)].last < high;
}

std::size_t FoldedRounds::count(std::int32_t rank) {
  counted_.push_back({rank, vote_messages(Rank{rank}, size_),
                      TreePlace::of(Rank{rank}, size_).parent.has_value(), 0});
  return counted_.size() - 1;
}

// Adds the tree below `rank`, which covers low to high and so several units.
std::size_t FoldedRounds::add_joint(std::int32_t rank, std::int32_t low, std::int32_t high) {
  const TreePlace place = TreePlace::of(Rank{rank}, size_);
  Joint joint{.unit = unit_of(rank), .counted = count(rank), .left = {}, .right = {}};
  if (place.left) joint.left = child(place.left->value, low, rank - 1);
  if (place.right) joint.right = child(place.right->value, rank + 1, high);
  spanning_.insert(rank);
  joints_.push_back(joint);
  return joints_.size() - 1;
}

FoldedRounds::Joint::Child FoldedRounds::child(std::int32_t rank, std::int32_t low,
                                               std::int32_t high) {
  if (!spans(low, high)) return {Joint::Child::Kind::Whole, unit_of(low)};
  return {Joint::Child::Kind::Spanning, add_joint(rank, low, high)};
}

// Counts the first rank by itself, as it may be the root of a broadcast, and one rank for each
// number of messages in a vote.
void FoldedRounds::add_plain(std::size_t unit) {
  const auto [first, last] = units_[unit];
  add_plain(unit, first, first);
  for (const VoteShare& share : vote_shares(size_))
    add_plain(unit, std::max(first + 1, share.ranks.first), std::min(last, share.ranks.last));
}

void FoldedRounds::add_plain(std::size_t unit, std::int32_t low, std::int32_t high) {
  std::optional<std::int32_t> best;
  std::uint64_t most = 0;
  for (std::int32_t r = low; r <= high && most < 2; ++r) {
    if (spanning_.count(r) > 0) continue;
    const TreePlace place = TreePlace::of(Rank{r}, size_);
    const std::uint64_t children = (place.left ? 1U : 0U) + (place.right ? 1U : 0U);
    if (best && children <= most) continue;
    best = r;
    most = children;
  }
  if (best) plains_.push_back({unit, count(*best), most});
}

Vote FoldedRounds::vote(std::span<const Vote> mine, collectives::Combine combine) {
  Vote all;
  for (const Vote& vote : mine) all.join(vote, combine);
  for (Counted& rank : counted_) rank.received += rank.vote_messages * sizeof(Vote);
  ++rounds_;
  return all;
}

/// Returns the lengths if every rank sends what its unit sends, as most do (see tree_join()).
TreeBytes FoldedRounds::sent_by_units(std::span<const Bytes> mine) const {
  TreeBytes out;
  out.up.resize(static_cast<std::size_t>(size_));
  for (std::size_t i = 0; i < units_.size(); ++i)
    std::fill(out.up.begin() + units_[i].first, out.up.begin() + units_[i].last + 1,
              static_cast<std::uint32_t>(mine[i].size()));
  return out;
}

Bytes FoldedRounds::tree_join(std::span<const Bytes> mine, const collectives::Join& join,
                              TreeBytes* sent) {
  if (sent != nullptr) *sent = sent_by_units(mine);
  std::vector<Bytes> joined(joints_.size());
  for (std::size_t j = 0; j < joints_.size(); ++j) {
    const Joint& joint = joints_[j];
    Bytes payload = mine[joint.unit];
    for (const auto* child : {&joint.left, &joint.right}) {
      if (child->kind == Joint::Child::Kind::None) continue;
      const Bytes& theirs =
          child->kind == Joint::Child::Kind::Spanning ? joined[child->index] : mine[child->index];
      counted_[joint.counted].received += theirs.size();
      payload = child == &joint.left ? join(theirs, payload) : join(payload, theirs);
    }
    if (sent != nullptr)
      sent->up[static_cast<std::size_t>(counted_[joint.counted].rank)] =
          static_cast<std::uint32_t>(payload.size());
    joined[j] = std::move(payload);
  }
  Bytes result = joints_.empty() ? mine[0] : std::move(joined.back());
  for (const Plain& plain : plains_)
    counted_[plain.counted].received += plain.children * mine[plain.unit].size();
  for (Counted& rank : counted_)
    if (rank.has_parent) rank.received += result.size();
  ++rounds_;
  if (sent != nullptr) sent->down = result.size();
  return result;
}

Bytes FoldedRounds::broadcast(Rank root, std::span<const Bytes> mine) {
  const Bytes& payload = mine[unit_of(root.value)];
  for (Counted& rank : counted_)
    if (rank.rank != root.value) rank.received += payload.size();
  ++rounds_;
  return payload;
}

std::uint64_t FoldedRounds::bytes_per_rank_max() const {
  std::uint64_t most = 0;
  for (const Counted& rank : counted_) most = std::max(most, rank.received);
  return most;
}

}  // namespace lockstep::worker::simulator
