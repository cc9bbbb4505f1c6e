// Ranks and sets of ranks, and their text in messages.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// A process of a group, 0 to size-1.
struct Rank {
  std::int32_t value = 0;
  auto operator<=>(const Rank&) const = default;
};

/// A set of ranks as sorted, disjoint, non-adjacent runs; so equal sets are equal values, and a
/// million consecutive ranks are one run. Immutable apart from `insert`.
class RankSet {
 public:
  struct Run {
    std::int32_t first = 0, last = 0;
    auto operator<=>(const Run&) const = default;
  };

  RankSet() = default;
  [[nodiscard]] static RankSet of(Rank rank);
  /// Requires first <= last.
  [[nodiscard]] static RankSet range(Rank first, Rank last);
  [[nodiscard]] static RankSet all(int size);

  void insert(Run run);
  void insert(Rank rank) { insert(Run{rank.value, rank.value}); }
  void insert(const RankSet& other);

  [[nodiscard]] bool empty() const { return runs_.empty(); }
  [[nodiscard]] std::int64_t size() const;
  [[nodiscard]] bool contains(Rank rank) const;
  /// Requires a non-empty set.
  [[nodiscard]] Rank lowest() const { return Rank{runs_.front().first}; }
  [[nodiscard]] RankSet minus(const RankSet& other) const;
  [[nodiscard]] const std::vector<Run>& runs() const { return runs_; }

  /// Goes through the ranks one by one, ascending.
  class Iterator {
   public:
    using value_type = Rank;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    explicit Iterator(std::span<const Run> left)
        : left_(left), rank_(left.empty() ? 0 : left.front().first) {}
    Rank operator*() const { return Rank{rank_}; }
    Iterator& operator++() {
      if (rank_ == left_.front().last)
        *this = Iterator(left_.subspan(1));
      else
        ++rank_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const {
      return left_.size() == other.left_.size() && rank_ == other.rank_;
    }

   private:
    std::span<const Run> left_;  // the run that contains rank_, and the runs after it
    std::int32_t rank_ = 0;
  };
  [[nodiscard]] Iterator begin() const { return Iterator(runs_); }
  [[nodiscard]] Iterator end() const { return {}; }

  /// "0-2,7": two or more consecutive ranks are a range.
  [[nodiscard]] std::string text() const;
  /// "rank 3", "ranks 0-2,7"
  [[nodiscard]] std::string phrase() const;

  bool operator==(const RankSet&) const = default;

 private:
  std::vector<Run> runs_;
};

/// `text` with a capital first letter, to begin a sentence: "Ranks 1-2".
[[nodiscard]] std::string capital(std::string text);

}  // namespace lockstep
