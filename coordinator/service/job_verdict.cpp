#include <algorithm>

#include <lockstep/coordinator/service/job_verdict.h>

namespace lockstep::coordinator {
namespace {

/// True if one of `ranks` last reported that it is a member of the operation's group and has not
/// begun the operation.
bool behind(const RankSet& ranks, const Operation& operation, const Progress& progress) {
  for (const Rank rank : ranks)
    if (const Seen* seen = progress.seen(rank); seen != nullptr) {
      const std::int64_t begun = seen->begun(operation.group);
      if (begun >= 0 && begun < static_cast<std::int64_t>(operation.ordinal)) return true;
    }
  return false;
}

bool awaited(const Finding& finding, const std::vector<Operation>& operations,
             const Progress& progress, Duration patience, Instant now) {
  return std::any_of(operations.begin(), operations.end(), [&](const Operation& operation) {
    return now - operation.since >= patience && behind(finding.ranks, operation, progress);
  });
}

}  // namespace

std::optional<JobVerdict> job_verdict(const std::vector<Finding>& findings,
                                      const std::vector<Operation>& operations,
                                      const Progress& progress, const Rules& rules, Instant now) {
  for (const Finding& finding : findings) {
    if (!finding.act) continue;
    switch (finding.kind) {
      case Finding::Kind::Lost:
        if (awaited(finding, operations, progress, rules.closed_act, now))
          return JobVerdict{Code::RankLost, finding.message};
        break;
      case Finding::Kind::Silent:
        if (awaited(finding, operations, progress, rules.silent_act, now))
          return JobVerdict{Code::Stuck, finding.message};
        break;
      case Finding::Kind::Stuck:
      case Finding::Kind::Ring:
      case Finding::Kind::Hung:
        return JobVerdict{Code::Stuck, finding.message};
      case Finding::Kind::Absent:
      case Finding::Kind::Lags:
        break;
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::coordinator
