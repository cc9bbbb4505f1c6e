// Who makes a call of a scenario, and with which inputs, for those who look at a run afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// What ranks that are together see. Good during the visit.
using InputsVisitor =
    std::function<void(const std::string& frame, const RankSet& ranks, const Observation& seen)>;

/// Visits everybody who makes call `index`: ranks that are equal there together, or neighbours that
/// draw together. `at_most`: of ranks that draw for themselves about so many, evenly spread.
void visit_inputs(const Scenario& scenario, std::size_t index, const InputsVisitor& visit,
                  std::int32_t at_most = INT32_MAX);

/// The frame that the lowest rank present calls; "" where nobody is. A result's frame is that of
/// the call as it was written, which every group may override.
[[nodiscard]] std::string frame_called(const Scenario& scenario, std::size_t index);

/// In call `index` ranks draw for themselves.
[[nodiscard]] bool drawn_apart(const Scenario& scenario, std::size_t index);

}  // namespace lockstep::worker::simulator
