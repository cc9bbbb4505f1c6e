// Rounds of a group whose ranks all differ: as FoldedRounds, but no rank speaks for another. A
// payload is made when the tree asks for it and dropped when it is joined, so a world of any size
// holds as many payloads as the tree is deep. What each rank receives is counted rank by rank.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <lockstep/collectives/tree.h>
#include <lockstep/worker/simulator/cluster/folded_rounds.h>

namespace lockstep::worker::simulator {

/// One thread calls; a tree join uses all cores.
class RankRounds {
 public:
  /// What a rank sends. Called from several threads.
  using Payload = std::function<Bytes(Rank)>;
  /// Of the ranks from the one to the other.
  using Same = std::function<bool(std::int32_t low, std::int32_t high)>;

  explicit RankRounds(int size);

  /// A vote has ended.
  void voted() { ++votes_; }
  /// The join of all ranks' payloads, in the order of the tree. Ranks of a range for which `same`
  /// is true send the same, and equal payloads of theirs join to themselves.
  /// What the ranks send is put into `sent`, if that is not null.
  [[nodiscard]] Bytes tree_join(const Payload& payload, const collectives::Join& join,
                                const Same& same, TreeBytes* sent = nullptr);
  /// Every rank but `root` has received that many bytes.
  void broadcast(Rank root, std::size_t bytes);

  /// Payload received in all rounds by the rank with most.
  [[nodiscard]] std::uint64_t bytes_per_rank_max() const;
  [[nodiscard]] std::uint64_t rounds() const { return votes_ + others_; }

 private:
  struct ParallelJoin;
  int size_;
  std::vector<std::uint64_t> received_;  // by each rank from its children, less what it broadcast
  std::uint64_t from_parent_ = 0;        // by every rank that has a parent
  std::uint64_t broadcast_ = 0;          // by every rank
  std::uint64_t votes_ = 0, others_ = 0;
};

}  // namespace lockstep::worker::simulator
