// Virtual time as Chrome's and Perfetto's trace viewers show it: a track for each rank that was
// followed, a span for each thing that took time.
#pragma once

#include <string>

#include <lockstep/worker/simulator/cluster/result.h>

namespace lockstep::worker::simulator {

/// The most spans that a trace holds: some tens of megabytes.
inline constexpr std::size_t kMostTimeSpans = 300'000;

/// Times are microseconds of virtual time. Requires a result with timing. Equal results give equal
/// bytes.
[[nodiscard]] std::string time_trace(const DryRunResult& result);

}  // namespace lockstep::worker::simulator
