// A words round: up to eight words of each rank become eight of the group, by an op for each (the
// largest, the sum, the rank with the smallest), with the votes of vote.h and in as many as they
// need. Ranks in another round, and ranks that ask for other ops, are found in the same votes.
// Performs no I/O itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/vote.h>

namespace lockstep::collectives {

inline constexpr int kWordOps = 10;
/// "argmin"
[[nodiscard]] std::string_view word_op_name(WordOp op);

/// Most words of a round.
inline constexpr std::size_t kMostWords = 8;

struct Word {
  std::int64_t value = 0;
  WordOp op = WordOp::Max;
  bool operator==(const Word&) const = default;
};
struct AgreedWord {
  std::int64_t value = 0;
  /// ArgMin, ArgMax: the lowest rank that brought the value; other ops: nullopt.
  std::optional<Rank> rank{};
  bool operator==(const AgreedWord&) const = default;
};

/// Checks one rank's words. Errors: BadInput (none or more than kMostWords, a sum that `size` such
/// values could overflow).
[[nodiscard]] Result<void> check(std::span<const Word> words, int size);

class WordsRound final : public Round {
 public:
  /// `key`: of the round and of all that must be equal on all ranks, such as the ops. `words` have
  /// passed check(); they may be empty if `failed`, which says that this rank has a local error.
  WordsRound(Rank self, int size, std::uint64_t key, std::span<const Word> words, bool failed,
             const HostRuns* hosts = nullptr);
  WordsRound(const WordsRound&) = delete;
  WordsRound& operator=(const WordsRound&) = delete;

  [[nodiscard]] Want want() const override { return vote_->want(); }
  [[nodiscard]] std::size_t message_bytes() const override { return sizeof(Vote); }
  [[nodiscard]] std::span<const std::byte> outgoing() const override { return vote_->outgoing(); }
  void sent() override;
  void received(std::span<const std::byte> message) override;

  /// True if all ranks were in this round and none failed. Requires want().need == Done, as do the
  /// other results.
  [[nodiscard]] bool met() const;
  /// True if words that have to be equal are not; met() is then false, too.
  [[nodiscard]] bool unequal() const { return vote_->result().raised(VoteFlag::Unequal); }
  /// The group's words. Requires met().
  [[nodiscard]] const std::vector<AgreedWord>& words() const { return agreed_; }

 private:
  void begin(std::size_t first);
  void next();

  Rank self_;
  int size_;
  std::uint64_t key_;
  std::vector<Word> mine_;
  bool failed_;
  const HostRuns* hosts_;
  std::size_t first_ = 0, end_ = 0;  // the words of the vote under way
  VoteOps ops_{};
  std::optional<VoteRound> vote_;
  std::vector<AgreedWord> agreed_;
};

}  // namespace lockstep::collectives
