// The part of the status document that tells of calls: what was compiled and why, by which ranks,
// and what all of it took. Included by status_document.cpp only.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <lockstep/coordinator/documents/status_document.h>
#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

/// The calls told last; older ones are in the counts of their frames.
inline constexpr std::size_t kShownCalls = 100;

/// Adds "frames", "calls", "graphs", "counters", "waiting", "configuration".
void add_calls(nlohmann::ordered_json& out, const WatchedJob& job, Instant now, Detail detail);

}  // namespace lockstep::coordinator
