// Inputs of other sizes than those that a program gave, for a run that only has to show whether it
// goes well.
#pragma once

#include <optional>
#include <span>

#include <lockstep/worker/exchange/observation.h>
#include <lockstep/worker/language/inputs.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

/// What elements are made of.
enum class Elements : std::uint8_t {
  Given,  // those that were given, from the first on, again and again
  Zero,   // zeros where sizes differ
};

/// Inputs with the sizes and ints of `observation`; floats and bools as given. Elements that are
/// not in the host's memory count as zeros. nullopt: more than 2^24 elements in one of them.
[[nodiscard]] std::optional<Inputs> example_inputs(const Observation& observation,
                                                   std::span<const InputValue> given,
                                                   Elements elements);

}  // namespace lockstep::worker
