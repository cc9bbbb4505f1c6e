// Ranks that make a call of a scenario, and their inputs, for answers about a finished run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {

/// Receives ranks with the same inputs. The arguments are valid during the visit.
using InputsVisitor =
    std::function<void(const std::string& frame, const RankSet& ranks, const Observation& seen)>;

/// Visits all ranks that make call `index`, those with equal inputs together. If ranks draw their
/// own inputs, visits about `at_most` runs of neighbours with equal inputs, evenly spread.
void visit_inputs(const Scenario& scenario, std::size_t index, const InputsVisitor& visit,
                  std::int32_t at_most = INT32_MAX);

/// Frame that the lowest present rank calls; "" if no rank is present. CallResult::frame may be
/// another: it is the frame written on the call, which a group may override.
[[nodiscard]] std::string frame_called(const Scenario& scenario, std::size_t index);

/// True if ranks may draw different inputs in call `index`.
[[nodiscard]] bool ranks_draw_differently(const Scenario& scenario, std::size_t index);

}  // namespace lockstep::worker::simulator
