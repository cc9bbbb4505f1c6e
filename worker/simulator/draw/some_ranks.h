// A set of ranks that stays short, for reports: a world of millions in which every second rank is
// meant takes no more room than one of ten.
#pragma once

#include <cstdint>
#include <string>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::worker::simulator {

/// How many ranks, and which: all of them, or those that were added first.
class SomeRanks {
 public:
  /// Requires ranks that were not added before.
  void add(const RankSet& ranks);
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Those that are named; `count()` of them unless there are many apart from each other.
  [[nodiscard]] const RankSet& named() const { return named_; }
  /// "rank 3", "ranks 0-2, 7", "ranks 0, 2, 4, … (512)"
  [[nodiscard]] std::string text() const;
  bool operator==(const SomeRanks&) const = default;

 private:
  RankSet named_;
  std::int64_t count_ = 0;
};

}  // namespace lockstep::worker::simulator
