// A decision as JSON, in the manner of the dry-run result: for those who read it outside of this
// process.
#pragma once

#include <string>

#include <lockstep/worker/exchange/decision.h>

namespace lockstep::worker {

/// {"decisions": {"x": ["s0", 10], …}, "symbols": {"s0": {"source": …, "min": …, "hint": …}, …}}:
/// as in the dry-run result (formats, version 1), on one line.
[[nodiscard]] std::string decision_json(const Decision& decision);

}  // namespace lockstep::worker
