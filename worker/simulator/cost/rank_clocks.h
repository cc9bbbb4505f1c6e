// Virtual time of every rank of a group. The rounds of an agreement advance it: they cost what the
// messages of VoteRound, TreeRound and BroadcastRound cost on a NetworkModel. A message is an
// addition and a maximum here, not an event of a simulated network, so a vote of 131,072 ranks
// takes about a millisecond. A test compares every rank's time with the rounds themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/worker/simulator/cost/network_model.h>

namespace lockstep::worker::simulator {

/// Bytes that the ranks send in a tree join.
struct TreeBytes {
  std::vector<std::uint32_t> up;  // by rank: length of its subtree's join, sent to its parent
  std::uint64_t down = 0;         // length of the join of all ranks
};

/// Used by one thread.
class RankClocks {
 public:
  /// Every rank's time starts at 0.
  RankClocks(const NetworkModel& network, int size);

  /// Times by rank. Callers add the time between rounds.
  [[nodiscard]] std::span<std::int64_t> now() { return now_; }
  [[nodiscard]] std::int64_t latest() const;

  /// Advances by a vote: recursive doubling, folded if the size is not a power of two.
  void vote();
  /// Advances by a join: up the ordered tree and down again; then every rank reads the result.
  void tree_join(const TreeBytes& bytes);
  /// Advances by a broadcast down a binomial tree.
  void broadcast(Rank root, std::uint64_t bytes);

 private:
  struct Place {
    std::int32_t rank = 0, left = -1, right = -1;  // -1: none
  };
  void exchange_with_partner(std::int32_t bit);
  void plant();
  void send(std::int32_t from, std::int32_t to, std::uint64_t bytes);

  NetworkModel network_;
  std::int32_t size_;
  std::vector<std::int64_t> now_;
  std::vector<Place> tree_;  // parents before children; empty until the first tree join
};

}  // namespace lockstep::worker::simulator
