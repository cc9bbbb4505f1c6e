// The timelines of all jobs in the format of Chrome's and Perfetto's trace viewers: a process for
// each job, a track for each rank that is followed.
#pragma once

#include <string>

#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

/// Maximum number of spans in one document. Jobs that began later take precedence.
inline constexpr std::size_t kMostTraceSpans = 65'536;

/// Times are microseconds since `began`.
[[nodiscard]] std::string trace_document(const Service& service, Instant began, Instant now);

}  // namespace lockstep::coordinator
