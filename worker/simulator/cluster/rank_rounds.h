// Rounds of a group whose ranks all differ: like FoldedRounds, but with a payload per rank. A
// payload is made when the tree asks for it and dropped when it is joined, so a thread holds at
// most as many payloads as the tree is deep. Received bytes are counted rank by rank.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <lockstep/collectives/tree.h>
#include <lockstep/worker/simulator/cluster/folded_rounds.h>

namespace lockstep::worker::simulator {

/// Called by one thread; a tree join uses all cores.
class RankRounds {
 public:
  /// Returns what a rank sends. Called from several threads.
  using Payload = std::function<Bytes(Rank)>;
  /// True if ranks `low` to `high` send the same payload.
  using Same = std::function<bool(std::int32_t low, std::int32_t high)>;

  explicit RankRounds(int size);

  /// Notes that a vote has ended.
  void voted() { ++votes_; }
  /// Returns the join of all ranks' payloads, in the order of the tree. Requires that payloads for
  /// which `same` is true join to themselves. If `sent` is not null, stores the lengths that the
  /// ranks send.
  [[nodiscard]] Bytes tree_join(const Payload& payload, const collectives::Join& join,
                                const Same& same, TreeBytes* sent = nullptr);
  /// Notes that every rank but `root` has received `bytes`.
  void broadcast(Rank root, std::size_t bytes);

  /// Returns the payload received in all rounds by the rank with the most.
  [[nodiscard]] std::uint64_t bytes_per_rank_max() const;
  [[nodiscard]] std::uint64_t rounds() const { return votes_ + others_; }

 private:
  struct ParallelJoin;
  int size_;
  std::vector<std::uint64_t> received_;  // by rank: from children, minus what the rank broadcast
  std::uint64_t from_parent_ = 0;        // received by every rank with a parent, from it
  std::uint64_t broadcast_ = 0;          // broadcast, received by every rank
  std::uint64_t votes_ = 0, others_ = 0;
};

}  // namespace lockstep::worker::simulator
