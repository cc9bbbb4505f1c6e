// Virtual time for Chrome's and Perfetto's trace viewers: a track for each followed rank, a span
// for each wait, round, compile and step.
#pragma once

#include <string>

#include <lockstep/worker/simulator/cluster/result.h>

namespace lockstep::worker::simulator {

/// Greatest number of spans in a trace: some tens of megabytes.
inline constexpr std::size_t kMostTimeSpans = 300'000;

/// Times are microseconds of virtual time. Requires a result with timing. Equal results give equal
/// bytes.
[[nodiscard]] std::string time_trace(const DryRunResult& result);

}  // namespace lockstep::worker::simulator
