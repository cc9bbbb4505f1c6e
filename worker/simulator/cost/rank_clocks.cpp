#include <algorithm>
#include <bit>

#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>
#include <lockstep/worker/simulator/cost/rank_clocks.h>

namespace lockstep::worker::simulator {

using collectives::TreePlace;

namespace {
constexpr std::uint64_t kVoteBytes = sizeof(collectives::Vote);
}

RankClocks::RankClocks(const NetworkModel& network, int size)
    : network_(network.in_world(size)), size_(size), now_(static_cast<std::size_t>(size), 0) {}

std::int64_t RankClocks::latest() const { return *std::max_element(now_.begin(), now_.end()); }

/// Advances both clocks by a message that the receiver waits for.
void RankClocks::send(std::int32_t from, std::int32_t to, std::uint64_t bytes) {
  std::int64_t& sender = now_[static_cast<std::size_t>(from)];
  std::int64_t& receiver = now_[static_cast<std::size_t>(to)];
  receiver = std::max(receiver, sender + network_.message_ns(Rank{from}, Rank{to}, bytes));
  sender += network_.busy_ns(Rank{from}, Rank{to}, bytes);
}

void RankClocks::vote() {
  const auto core = static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(size_)));
  for (std::int32_t r = core; r < size_; ++r) send(r, r - core, kVoteBytes);
  for (std::int32_t bit = 1; bit < core; bit <<= 1) exchange_with_partner(bit);
  for (std::int32_t r = core; r < size_; ++r) send(r - core, r, kVoteBytes);
}

// Each rank swaps with the partner that differs in `bit`. If all links are alike, `busy` and
// `message` are constants, and the loop is additions and maxima over adjacent numbers.
void RankClocks::exchange_with_partner(std::int32_t bit) {
  const auto core = static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(size_)));
  const bool alike = network_.ranks_per_host <= 1 || network_.ranks_per_host >= size_;
  for (std::int32_t base = 0; base < core; base += 2 * bit) {
    std::int64_t* low = now_.data() + base;
    std::int64_t* high = low + bit;
    std::int64_t busy = network_.busy_ns(Rank{base}, Rank{base + bit}, kVoteBytes);
    std::int64_t message = network_.message_ns(Rank{base}, Rank{base + bit}, kVoteBytes);
    for (std::int32_t i = 0; i < bit; ++i) {
      if (!alike) {
        busy = network_.busy_ns(Rank{base + i}, Rank{base + bit + i}, kVoteBytes);
        message = network_.message_ns(Rank{base + i}, Rank{base + bit + i}, kVoteBytes);
      }
      const std::int64_t a = low[i], b = high[i];
      low[i] = std::max(a + busy, b + message);
      high[i] = std::max(b + busy, a + message);
    }
  }
}

// Builds the tree. Called once.
void RankClocks::plant() {
  std::int32_t root = 0;
  while (const auto parent = TreePlace::of(Rank{root}, size_).parent) root = parent->value;
  tree_.reserve(static_cast<std::size_t>(size_));
  tree_.push_back({.rank = root});
  for (std::size_t i = 0; i < tree_.size(); ++i) {
    const TreePlace place = TreePlace::of(Rank{tree_[i].rank}, size_);
    if (place.left) tree_[i].left = place.left->value;
    if (place.right) tree_[i].right = place.right->value;
    for (const auto& child : {place.left, place.right})
      if (child) tree_.push_back({.rank = child->value});
  }
}

void RankClocks::tree_join(const TreeBytes& bytes) {
  if (tree_.empty()) plant();
  for (auto place = tree_.rbegin(); place != tree_.rend(); ++place)
    for (const std::int32_t child : {place->left, place->right}) {
      if (child < 0) continue;
      const std::uint32_t length = bytes.up[static_cast<std::size_t>(child)];
      send(child, place->rank, length);
      now_[static_cast<std::size_t>(place->rank)] +=
          transfer_ns(length, network_.join_bytes_per_us);
    }
  const std::int64_t read = transfer_ns(bytes.down, network_.read_bytes_per_us);
  for (const Place& place : tree_) {
    for (const std::int32_t child : {place.left, place.right})
      if (child >= 0) send(place.rank, child, bytes.down);
    now_[static_cast<std::size_t>(place.rank)] += read;
  }
}

// `relative` counts ranks from the root. Its lowest set bit is the hop by which a rank receives the
// payload; the rank passes the payload on by the lower hops.
void RankClocks::broadcast(Rank root, std::uint64_t bytes) {
  const auto rank_of = [&](std::int64_t relative) {
    return static_cast<std::int32_t>((relative + root.value) % size_);
  };
  for (std::int64_t relative = 0; relative < size_; ++relative) {
    std::int64_t hop =
        relative == 0 ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint32_t>(size_)))
                      : relative & -relative;
    for (hop >>= 1; hop > 0; hop >>= 1)
      if (relative + hop < size_) send(rank_of(relative), rank_of(relative + hop), bytes);
  }
}

}  // namespace lockstep::worker::simulator
