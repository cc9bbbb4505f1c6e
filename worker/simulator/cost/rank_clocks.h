// Virtual time of every rank of a group, advanced by the rounds of an agreement: the messages of
// VoteRound, TreeRound and BroadcastRound at the price of a NetworkModel. An event of a simulated
// network is an addition and a maximum here, so a vote of 131,072 ranks takes about a millisecond.
// A test compares every rank's time with the rounds themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/worker/simulator/cost/network_model.h>

namespace lockstep::worker::simulator {

/// Bytes that the ranks send in a tree join.
struct TreeBytes {
  std::vector<std::uint32_t> up;  // by rank: from its subtree to its parent
  std::uint64_t down = 0;         // the join of all
};

/// One thread.
class RankClocks {
 public:
  /// Sets every rank to 0.
  RankClocks(const NetworkModel& network, int size);

  /// By rank; callers add the time between rounds.
  [[nodiscard]] std::span<std::int64_t> now() { return now_; }
  [[nodiscard]] std::int64_t latest() const;

  /// Recursive doubling, folded if the size is not a power of two.
  void vote();
  /// Up the ordered tree and down again; then every rank reads the result.
  void tree_join(const TreeBytes& bytes);
  /// By a binomial tree.
  void broadcast(Rank root, std::uint64_t bytes);

 private:
  struct Place {
    std::int32_t rank = 0, left = -1, right = -1;  // -1: none
  };
  void double_up(std::int32_t bit);
  void plant();
  void send(std::int32_t from, std::int32_t to, std::uint64_t bytes);

  NetworkModel network_;
  std::int32_t size_;
  std::vector<std::int64_t> now_;
  std::vector<Place> tree_;  // parents before children; empty until the first tree join
};

}  // namespace lockstep::worker::simulator
