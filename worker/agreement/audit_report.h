// From a rank table of audited calls, and what their inputs have in common, to what the ranks are
// told: pure, and the same on all of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/agreement/audit.h>
#include <lockstep/worker/agreement/audit_evidence.h>

namespace lockstep::worker {

/// One rank's line for the rank table: its report, as in any round that the call may meet, and what
/// it is about to run.
[[nodiscard]] std::string audit_line(const RoundKey& key, const AuditedCall& own);

/// True if every rank is in some audited call. If not, diagnose() has the error.
[[nodiscard]] bool all_audited(const std::vector<RankValue>& rank_table);

struct AuditVerdict {
  Status status;
  bool stops = false;   // an error; else a finding
  std::string content;  // what makes a finding the same as another; no numbers of calls, no sizes
};
/// The texts of a rank that travel as evidence.
void describe(Evidence& evidence, const AuditedCall& own);
/// Where the texts of ranks part that are at one place, without what they say there: those of
/// collectives where these differ, else of programs. nullopt: nothing parts, or there are no texts.
[[nodiscard]] std::optional<Parting> find_parting(const std::vector<RankValue>& rank_table,
                                                  const std::vector<Evidence>& evidence);
/// What a rank's text says there; "(none)" past its end.
[[nodiscard]] std::string parting_line(const Parting& parting, const AuditedCall& own);
/// Requires all_audited(rank_table). `evidence` is by lines of the rank table. nullopt: all run the
/// same, though not all know its collectives.
[[nodiscard]] std::optional<AuditVerdict> judge(const std::vector<RankValue>& rank_table,
                                                const std::vector<Evidence>& evidence,
                                                const std::optional<Parting>& parting);

}  // namespace lockstep::worker
