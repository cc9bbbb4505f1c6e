// A decision as JSON, in the form of a dry run's result, for the callers of the C interface.
#pragma once

#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/agree/exchange/group_guard.h>

namespace lockstep::worker {

/// {"decisions": {"x": ["s0", 10], …}, "symbols": {"s0": {"source": …, "min": …, "hint": …}, …}}:
/// as in a dry run's result, on one line. "fields" follows if there are fields.
[[nodiscard]] std::string decision_json(const Decision& decision);
/// {"capacity": 512, "hosts": ["a", "b"], "key": {"hex": "00ff"}}: a union is a list.
[[nodiscard]] std::string fields_json(const Decision& decision);
/// [{"text": …, "of": …, "line": …}, …]: "of" is the text with the names of `namer`; group guards
/// also have "over" and "value".
[[nodiscard]] nlohmann::ordered_json guards_json(std::span<const shapes::Guard> guards,
                                                 std::span<const GroupGuard> group_guards,
                                                 const shapes::Namer& namer);

}  // namespace lockstep::worker
