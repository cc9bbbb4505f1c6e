// What a dry run took, for programs and for people. Equal results give equal bytes. Requires a
// result with timing.
#pragma once

#include <string>

#include <lockstep/worker/simulator/cluster/result.h>

namespace lockstep::worker::simulator {

/// The value of the key "cost" of a result's JSON (README.md, "The cost model").
[[nodiscard]] std::string cost_json(const DryRunResult& result);

/// Lines for the table's foot: the network, the run's times, where they went, the slowest ranks.
[[nodiscard]] std::string cost_summary(const DryRunResult& result);

/// A line per call with a header line; RFC 4180. Times are nanoseconds.
[[nodiscard]] std::string calls_csv(const DryRunResult& result);

/// "1.5 us", "23 ms": three digits.
[[nodiscard]] std::string duration_text(std::int64_t ns);

}  // namespace lockstep::worker::simulator
