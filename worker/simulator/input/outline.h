// The classes of equal ranks of a whole scenario: by its explicit calls, and by the generated ones
// that some ranks stay away from.
#pragma once

#include <vector>

#include <lockstep/worker/simulator/input/partition.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// By their lowest ranks. Where ranks draw for themselves, those of a class differ in what they
/// draw.
[[nodiscard]] std::vector<RankClass> classes_of(const Scenario& scenario);

}  // namespace lockstep::worker::simulator
