// The part of the status document about calls: compiled graphs, reasons, ranks and times. Included
// by status_document.cpp only.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <lockstep/coordinator/documents/status_document.h>
#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

/// Maximum number of calls shown, the latest. Older calls are only in the counts of their frames.
inline constexpr std::size_t kShownCalls = 100;

/// Adds "frames", "calls", "graphs", "counters", "waiting", "configuration".
void add_calls(nlohmann::ordered_json& out, const WatchedJob& job, Instant now, Detail detail);

}  // namespace lockstep::coordinator
