// The operations in which ranks of a job wait: who is in, who is not, for how long.
#pragma once

#include <string>
#include <vector>

#include <lockstep/coordinator/service/membership.h>
#include <lockstep/coordinator/service/progress.h>

namespace lockstep::coordinator {

/// Most operations looked at in one job; those waited in for longest are.
inline constexpr std::size_t kMostOperations = 64;

struct Operation {
  OperationKind kind = OperationKind::None;  // as the lowest rank in it says
  std::uint64_t group = kWorldGroup;
  std::string group_name;
  std::uint64_t ordinal = 0;
  RankSet in;           // wait in it
  RankSet not_in;       // members that have not begun it
  RankSet beside;       // members that have, as their last one, and do not wait in it
  bool settled = true;  // nobody's last report is too old to say whether it has
  Instant since{0};     // when the first of them began to wait

  /// "operation 12 (vote of group tensor)"
  [[nodiscard]] std::string text() const;
};

/// By age, then group and ordinal. A rank is not in only if it says so in a report that came after
/// another told that it waits there, or can say nothing any more: reports come at different times,
/// and an older one proves nothing. Members of a group are known from their own reports; every rank
/// is a member of the world.
[[nodiscard]] std::vector<Operation> awaited_operations(const Membership& membership,
                                                        const Progress& progress);

}  // namespace lockstep::coordinator
