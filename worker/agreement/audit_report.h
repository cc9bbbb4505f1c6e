// Turns the rank table of audited calls and the evidence of their inputs into a verdict. Pure, and
// equal on all ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/agreement/audit.h>
#include <lockstep/worker/agreement/audit_evidence.h>

namespace lockstep::worker {

/// One rank's line for the rank table: its report, as in every round that this call may meet, and
/// what it is about to run.
[[nodiscard]] std::string audit_line(const RoundKey& key, const AuditedCall& own);

/// True if every rank is in some audited call. If not, diagnose() has the error.
[[nodiscard]] bool all_audited(const std::vector<RankValue>& rank_table);

struct AuditVerdict {
  Status status;
  bool stops = false;   // an error; else a finding
  std::string content;  // identifies a finding; without numbers of calls and sizes
};
/// Adds what is sent of a rank's texts to its evidence.
void describe(Evidence& evidence, const AuditedCall& own);
/// The first line in which the ranks' texts differ, without the lines themselves: of collectives if
/// these differ, else of programs. nullopt: no line differs, there are no texts, or a rank has a
/// local error or is in another call.
[[nodiscard]] std::optional<Parting> find_parting(const std::vector<RankValue>& rank_table,
                                                  const std::vector<Evidence>& evidence);
/// That line of a rank's text; "(none)" past its end.
[[nodiscard]] std::string parting_line(const Parting& parting, const AuditedCall& own);
/// Requires all_audited(rank_table). `evidence` is by lines of the rank table. nullopt: all ranks
/// run the same program, though not all know its collectives.
[[nodiscard]] std::optional<AuditVerdict> judge(const std::vector<RankValue>& rank_table,
                                                const std::vector<Evidence>& evidence,
                                                const std::optional<Parting>& parting);

}  // namespace lockstep::worker
