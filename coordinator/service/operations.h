// The operations in which ranks of a job wait: which ranks are in, which are not, and since when.
#pragma once

#include <string>
#include <vector>

#include <lockstep/coordinator/service/membership.h>
#include <lockstep/coordinator/service/progress.h>

namespace lockstep::coordinator {

/// The most operations examined in one job: those with the longest waits.
inline constexpr std::size_t kMostOperations = 64;

struct Operation {
  OperationKind kind = OperationKind::None;  // as the lowest rank in it reports
  std::uint64_t group = kWorldGroup;
  std::string group_name;
  std::uint64_t ordinal = 0;
  RankSet in;          // ranks that wait in it
  RankSet not_in;      // members that have not begun it
  RankSet beside;      // members that began it last and do not wait in it
  bool recent = true;  // every member's last report is recent enough to tell
  Instant since{0};    // when the first of them began to wait

  /// "operation 12 (vote of group tensor)"
  [[nodiscard]] std::string text() const;
};

/// Sorted by age, then group and ordinal. Reports arrive at different times, and an older report
/// proves nothing. So a rank is in `not_in` only if its report is later than another rank's report
/// that it waits there, or if the rank can report no more. Members of a group are known from their
/// own reports; every rank is a member of the world.
[[nodiscard]] std::vector<Operation> awaited_operations(const Membership& membership,
                                                        const Progress& progress);

}  // namespace lockstep::coordinator
