// Ranks and sets of ranks, as every message that names ranks prints them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// A process of a group, 0 to size-1.
struct Rank {
  std::int32_t value = 0;
  auto operator<=>(const Rank&) const = default;
};

/// A set of ranks as sorted, disjoint, non-adjacent runs; so equal sets are equal values and a
/// million consecutive ranks take one entry. Immutable apart from `insert`.
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
  void insert(const RankSet& other);

  [[nodiscard]] bool empty() const { return runs_.empty(); }
  [[nodiscard]] std::int64_t size() const;
  [[nodiscard]] bool contains(Rank rank) const;
  /// Requires a non-empty set.
  [[nodiscard]] Rank lowest() const { return Rank{runs_.front().first}; }
  [[nodiscard]] RankSet minus(const RankSet& other) const;
  [[nodiscard]] const std::vector<Run>& runs() const { return runs_; }
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
