// The operations in which ranks of a job wait: which ranks are in each, which are not, and since
// when.
#pragma once

#include <string>
#include <vector>

#include <lockstep/coordinator/service/membership.h>
#include <lockstep/coordinator/service/progress.h>

namespace lockstep::coordinator {

/// Maximum number of operations examined in one job. These are the operations with the longest
/// waits.
inline constexpr std::size_t kMostOperations = 64;

struct Operation {
  OperationKind kind = OperationKind::None;  // as reported by the lowest rank in it
  std::uint64_t group = kWorldGroup;
  std::string group_name;
  std::uint64_t ordinal = 0;
  RankSet in;          // ranks that wait in it
  RankSet not_in;      // members that have not begun it
  RankSet beside;      // members whose last operation it is, but that do not wait
  bool recent = true;  // every member's last report is recent enough to place the member
  Instant since{0};    // when the first rank began to wait

  /// "operation 12 (vote of group tensor)"
  [[nodiscard]] std::string text() const;
};

/// The operations in which ranks wait, sorted by age, then by group and ordinal. Reports arrive at
/// different times, and a report from before a wait proves nothing. So a rank is in `not_in` only
/// if its last report arrived after the first report of a wait in the operation, or if the rank can
/// report no more. Members of a group are known from their own reports; every rank is a member of
/// the world.
[[nodiscard]] std::vector<Operation> awaited_operations(const Membership& membership,
                                                        const Progress& progress);

}  // namespace lockstep::coordinator
