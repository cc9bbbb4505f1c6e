// When a job is ended from outside: pure functions of what is wrong with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <lockstep/coordinator/service/diagnosis.h>
#include <lockstep/coordinator/speech/message.h>

namespace lockstep::coordinator {

/// What ends the job: the first finding to act on that holds it up. A rank that is gone or silent
/// holds it up where others have waited for it as long as it takes to act; a job in which nobody
/// waits is never ended. RankLost where a connection was closed, else Stuck.
[[nodiscard]] std::optional<Verdict> verdict_on(const std::vector<Finding>& findings,
                                                const std::vector<Operation>& operations,
                                                const Progress& progress, const Rules& rules,
                                                Instant now);

}  // namespace lockstep::coordinator
