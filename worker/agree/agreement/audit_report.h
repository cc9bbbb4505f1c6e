// Turns the rank table of audited calls and the evidence of their inputs into a verdict. Pure, and
// equal on all ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/agree/agreement/audit.h>
#include <lockstep/worker/agree/agreement/audit_evidence.h>

namespace lockstep::worker {

/// One rank's line of the rank table: the report that every kind of round sends, followed by what
/// the rank is about to run.
[[nodiscard]] std::string audit_line(const RoundKey& key, const AuditedCall& own);

/// True if every rank is in some audited call. If not, diagnose() makes the error.
[[nodiscard]] bool all_audited(const std::vector<RankValue>& rank_table);

struct AuditVerdict {
  Status status;
  bool stops = false;   // true: an error; false: a finding
  std::string content;  // identifies a finding; holds no call numbers or sizes
};
/// Adds to a rank's evidence the parts of its texts that are sent.
void describe(Evidence& evidence, const AuditedCall& own);
/// Finds the first line in which the ranks' texts differ; leaves FirstDifference::texts empty.
/// Compares the texts of collectives if the collectives differ, else those of programs. nullopt: no
/// line differs, there are no texts, or a rank has a local error or is in another call.
[[nodiscard]] std::optional<FirstDifference> find_parting(const std::vector<RankValue>& rank_table,
                                                          const std::vector<Evidence>& evidence);
/// The line of this rank's text at `parting`; "(none)" past the end of the text.
[[nodiscard]] std::string parting_line(const FirstDifference& parting, const AuditedCall& own);
/// The verdict on audited calls. Requires all_audited(rank_table). `evidence`: of the lines of the
/// rank table. nullopt: all ranks run the same program, though not all know its collectives.
[[nodiscard]] std::optional<AuditVerdict> judge(const std::vector<RankValue>& rank_table,
                                                const std::vector<Evidence>& evidence,
                                                const std::optional<FirstDifference>& parting);

}  // namespace lockstep::worker
