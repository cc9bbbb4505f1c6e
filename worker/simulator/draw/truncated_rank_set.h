// A set of ranks of bounded size, for reports: every second rank of a world of millions takes no
// more memory than every second rank of ten.
#pragma once

#include <cstdint>
#include <string>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::worker::simulator {

/// Counts the ranks added, and lists the first of them, up to a limit.
class TruncatedRankSet {
 public:
  /// Requires ranks that were not added before.
  void add(const RankSet& ranks);
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Listed ranks: all `count()` of them, unless they form many separate runs.
  [[nodiscard]] const RankSet& named() const { return named_; }
  /// "rank 3", "ranks 0-2, 7", "ranks 0, 2, 4, … (512)"
  [[nodiscard]] std::string text() const;
  bool operator==(const TruncatedRankSet&) const = default;

 private:
  RankSet named_;
  std::int64_t count_ = 0;
};

}  // namespace lockstep::worker::simulator
