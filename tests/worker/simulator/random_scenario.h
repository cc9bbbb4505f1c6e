// Random small scenarios that reach every rule of formats.md: narrow ranges of values, so that
// calls meet again, differ, supersede, hit limits and go wrong in every way.
#pragma once

#include <cstdint>
#include <string>

#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// A pure function of the seed.
[[nodiscard]] Scenario random_scenario(std::uint64_t seed);

/// The scenario as a file would write it, for messages of failing tests and for the parser.
[[nodiscard]] std::string scenario_text(const Scenario& scenario);

}  // namespace lockstep::worker::simulator
