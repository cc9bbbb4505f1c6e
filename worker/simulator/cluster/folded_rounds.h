// Rounds of a group in which runs of equal ranks count once. A vote is an AND (or minimum) and a
// tree join is idempotent, so the result needs one message per run. What a rank receives depends on
// its place: on the vote's schedule and, in the ordered tree, on the payloads of its two subtrees.
// A subtree within one run sends what the run sends. So ranks whose subtree spans several runs are
// counted one by one. Of a run's other ranks, only its first and those that may receive the most
// are counted: one for each number of messages in a vote.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>
#include <lockstep/worker/simulator/cost/rank_clocks.h>

namespace lockstep::worker::simulator {

/// Consecutive ranks that do the same in every call.
using Unit = RankSet::Run;
/// The index of the unit that holds the rank. Requires ascending units, one of which holds it.
[[nodiscard]] std::size_t unit_of(std::span<const Unit> units, Rank rank);

/// Ranks that receive equally many messages in a vote. Let `core` be the largest power of two up to
/// the size. In VoteRound, ranks below size - core receive one more message, which is folded in;
/// ranks from core on receive only the result.
struct VoteShare {
  RankSet::Run ranks;
  std::uint64_t messages = 0;
};
/// Ascending; they cover ranks 0 to size-1.
[[nodiscard]] std::vector<VoteShare> vote_shares(int size);

/// Used by one thread. Spans of messages have one element per unit.
class FoldedRounds {
 public:
  /// The units, ascending, cover ranks 0 to size-1.
  FoldedRounds(std::vector<Unit> units, int size);

  [[nodiscard]] collectives::Vote vote(std::span<const collectives::Vote> mine,
                                       collectives::Combine combine);
  /// Requires that equal payloads join to themselves. If `sent` is not null, stores the lengths of
  /// what the ranks send.
  [[nodiscard]] Bytes tree_join(std::span<const Bytes> mine, const collectives::Join& join,
                                TreeBytes* sent = nullptr);
  [[nodiscard]] Bytes broadcast(Rank root, std::span<const Bytes> mine);

  /// Returns the payload received in all rounds by the rank with the most.
  [[nodiscard]] std::uint64_t bytes_per_rank_max() const;
  [[nodiscard]] std::uint64_t rounds() const { return rounds_; }

 private:
  /// A rank whose received bytes are counted.
  struct Counted {
    std::int32_t rank = 0;
    std::uint64_t vote_messages = 0;
    bool has_parent = false;
    std::uint64_t received = 0;
  };
  /// A rank whose subtree spans several units.
  struct Joint {
    struct Child {
      enum class Kind : std::uint8_t { None, Whole, Spanning };
      Kind kind = Kind::None;
      std::size_t index = 0;  // Whole: the unit; Spanning: index into joints_
    };
    std::size_t unit = 0, counted = 0;
    Child left, right;
  };
  /// Any other rank: its children, if any, send what its unit sends.
  struct Plain {
    std::size_t unit = 0, counted = 0;
    std::uint64_t children = 0;
  };

  [[nodiscard]] std::size_t unit_of(std::int32_t rank) const {
    return simulator::unit_of(units_, Rank{rank});
  }
  [[nodiscard]] bool spans(std::int32_t low, std::int32_t high) const;
  std::size_t count(std::int32_t rank);
  std::size_t add_joint(std::int32_t rank, std::int32_t low, std::int32_t high);
  Joint::Child child(std::int32_t rank, std::int32_t low, std::int32_t high);
  void add_plain(std::size_t unit);
  void add_plain(std::size_t unit, std::int32_t low, std::int32_t high);
  [[nodiscard]] TreeBytes sent_by_units(std::span<const Bytes> mine) const;

  std::vector<Unit> units_;
  int size_;
  std::vector<Counted> counted_;
  std::vector<Joint> joints_;  // children before parents; the root last
  std::vector<Plain> plains_;
  std::set<std::int32_t> spanning_;
  std::uint64_t rounds_ = 0;
};

}  // namespace lockstep::worker::simulator
