// The times of a dry run, for programs and for people. Equal results give equal bytes. Requires a
// result with timing.
#pragma once

#include <string>

#include <lockstep/worker/simulator/cluster/result.h>

namespace lockstep::worker::simulator {

/// The value of the key "cost" of a result's JSON (result.md).
[[nodiscard]] std::string cost_json(const DryRunResult& result);

/// Returns lines for the table's foot: the network, the run's times and their parts, the slowest
/// ranks.
[[nodiscard]] std::string cost_summary(const DryRunResult& result);

/// Returns a header line and a line per call; RFC 4180. Times are nanoseconds.
[[nodiscard]] std::string calls_csv(const DryRunResult& result);

/// "1.50 us", "23.0 ms": three digits.
[[nodiscard]] std::string duration_text(std::int64_t ns);

}  // namespace lockstep::worker::simulator
