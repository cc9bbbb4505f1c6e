// Decides when the coordinator ends a job. A pure function of its findings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <lockstep/coordinator/messages/message.h>
#include <lockstep/coordinator/service/diagnosis.h>

namespace lockstep::coordinator {

/// The verdict that ends the job, made from the first finding to act on that blocks the job. A lost
/// or silent rank blocks the job if others have waited for it for the time after which such a
/// finding is acted on (Rules). A job in which no rank waits is never ended. The code is RankLost
/// for a closed connection, else Stuck. nullopt: the job goes on.
[[nodiscard]] std::optional<JobVerdict> job_verdict(const std::vector<Finding>& findings,
                                                    const std::vector<Operation>& operations,
                                                    const Progress& progress, const Rules& rules,
                                                    Instant now);

}  // namespace lockstep::coordinator
