// A decision as JSON, written as a dry run's result has it, for the callers of the C interface.
#pragma once

#include <string>

#include <lockstep/worker/exchange/decision.h>

namespace lockstep::worker {

/// {"decisions": {"x": ["s0", 10], …}, "symbols": {"s0": {"source": …, "min": …, "hint": …}, …}}:
/// as in a dry run's result, on one line.
[[nodiscard]] std::string decision_json(const Decision& decision);

}  // namespace lockstep::worker
