// The vote: one AND over eight 64-bit words, by which all ranks learn at once whether they agree
// (ARCHITECTURE.md). Performs no I/O itself. It is recursive doubling; if the group's size is no
// power of two, the extra ranks first send their votes to others. If hosts are known (host_runs.h),
// the vote runs between one rank of each host, which gathers the host's votes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include <lockstep/collectives/round.h>
#include <lockstep/collectives/tree.h>

namespace lockstep::collectives {

/// Flags of a vote. To raise a flag is to clear its bit: so under AND a flag that any rank raises
/// is raised in the result. Records contain the numbers of the flags.
enum class VoteFlag : std::uint8_t {
  Error,
  Gone = 2,
  TraceFailed = 4,
  GuardFailed,
  CompileFailed,
  RunFailed,
  /// Not an objection: a rank cast this vote ahead of its call, and may still make another call
  /// next.
  Ahead,
  /// Not an objection: a rank has yet to test what its program depends on beyond its inputs.
  Untested,
  /// Words that have to be equal are not (words.h).
  Unequal
};

/// How two votes are combined.
enum class Combine : std::uint8_t {
  And,  // agreement
  Min,  // unsigned minimum, word by word; elects the lowest rank that can give the hints
};

/// How a word of all ranks becomes one, in a words round (words.h). Numbers are signed. The numbers
/// of the ops are those of lockstep.h.
enum class WordOp : std::uint8_t {
  Min,
  Max,
  Sum,
  BitAnd,
  BitOr,
  All,     // of truth values: 1 if it is 1 on every rank, else 0
  Any,     // 1 if it is 1 on some rank, else 0
  Equal,   // the same on every rank; else VoteFlag::Unequal is raised
  ArgMin,  // the least, and in the word after it the lowest rank that has it
  ArgMax,
};
/// The words of a vote that are free in a words round: all but its key and its flags.
inline constexpr std::array<std::size_t, 5> kVoteWords{0, 3, 4, 5, 6};
/// Their ops; nullopt: the word is the same on all ranks, or belongs to the op before it.
using VoteOps = std::array<std::optional<WordOp>, kVoteWords.size()>;

/// What one rank votes. After a round every rank holds the AND over all ranks.
struct Vote {
  static constexpr std::uint64_t kOnes = ~std::uint64_t{0};

  /// [0] entries that fit, one bit each; [1],[2] round key and its complement; [3],[4] digest of
  /// source list and state, and its complement; [5],[6] digest of pending asserts and agreed
  /// values, and its complement; [7] flags. All ones is the neutral element.
  std::array<std::uint64_t, 8> words{kOnes, kOnes, kOnes, kOnes, kOnes, kOnes, kOnes, kOnes};

  [[nodiscard]] static Vote of(std::uint64_t entries, std::uint64_t key, std::uint64_t state,
                               std::uint64_t pending);
  void raise(VoteFlag flag) { words[7] &= ~(std::uint64_t{1} << static_cast<unsigned>(flag)); }
  [[nodiscard]] bool raised(VoteFlag flag) const {
    return (words[7] >> static_cast<unsigned>(flag) & 1) == 0;
  }
  [[nodiscard]] std::uint64_t entries() const { return words[0]; }
  [[nodiscard]] bool same_key() const { return (words[1] | words[2]) == kOnes; }
  [[nodiscard]] bool same_state() const { return (words[3] | words[4]) == kOnes; }
  [[nodiscard]] bool same_pending() const { return (words[5] | words[6]) == kOnes; }
  /// True if some rank objects.
  [[nodiscard]] bool any_flag() const {
    constexpr std::uint64_t kNone = std::uint64_t{1} << static_cast<unsigned>(VoteFlag::Ahead) |
                                    std::uint64_t{1} << static_cast<unsigned>(VoteFlag::Untested);
    return (words[7] | kNone) != kOnes;
  }
  /// True if all ranks were in one round with equal pending digests, and none objected.
  [[nodiscard]] bool clean() const { return same_key() && same_pending() && !any_flag(); }

  /// Combines `other` into this vote.
  void join(const Vote& other, Combine combine) {
    for (std::size_t w = 0; w < words.size(); ++w)
      words[w] =
          combine == Combine::And ? words[w] & other.words[w] : std::min(words[w], other.words[w]);
  }

  /// Combines `other` into this vote, in a words round.
  void join(const Vote& other, const VoteOps& ops);
  /// Takes the words of the result, which this vote is part of, and joins its key and flags.
  void take_words(const Vote& result);

  bool operator==(const Vote&) const = default;
};
static_assert(sizeof(Vote) == 64);

/// One vote among `size` ranks. Without `hosts` a rank receives at most ceil(log2 size)+1 messages
/// of 64 bytes. With `hosts` (see Communicator::hosts(); must outlive the round), the head of a
/// host receives at most ceil(log2 hosts)+1 messages from other hosts and two from its own. Any
/// other rank receives at most three, all from its own host.
class VoteRound final : public Round {
 public:
  /// `ops`: of a words round, in place of `combine`; must outlive the round.
  VoteRound(Rank self, int size, const Vote& mine, Combine combine = Combine::And,
            const HostRuns* hosts = nullptr, const VoteOps* ops = nullptr);

  [[nodiscard]] Want want() const override { return want_; }
  [[nodiscard]] std::size_t message_bytes() const override { return sizeof(Vote); }
  [[nodiscard]] std::span<const std::byte> outgoing() const override;
  void sent() override;
  /// A message that does not have 64 bytes counts as a vote that agrees with nothing.
  void received(std::span<const std::byte> message) override;

  /// The vote of all ranks. Requires want().need == Done.
  [[nodiscard]] const Vote& result() const { return vote_; }

 private:
  enum class Stage : std::uint8_t { FoldIn, Double, FoldOut, Done };
  void plan();
  void next();
  [[nodiscard]] bool between_hosts() const;
  [[nodiscard]] bool awaits_result() const;
  [[nodiscard]] Want want_between_hosts() const;
  Vote vote_;
  Want want_;
  const HostRuns* hosts_;  // null: each rank counts as a host
  TreePlace place_;        // this rank's place in the tree of its host
  TreeWalk walk_;          // walk of that tree; at Down the head first runs the stages of stage_
  std::int32_t self_;      // number of this host
  std::int32_t size_;      // number of hosts
  std::int32_t core_;      // largest power of two <= size
  std::int32_t bit_ = 1;
  Stage stage_ = Stage::FoldIn;
  Combine combine_;
  const VoteOps* ops_;  // null: combine_ holds
};

}  // namespace lockstep::collectives
