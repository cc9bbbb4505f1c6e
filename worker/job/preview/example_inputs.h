// Inputs with other sizes than the program's own, for a run that only tests whether it succeeds.
#pragma once

#include <optional>
#include <span>

#include <lockstep/worker/agree/exchange/observation.h>
#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/language/inputs.h>

namespace lockstep::worker {

/// The elements of a tensor whose sizes differ from the given ones.
enum class Elements : std::uint8_t {
  Given,  // the given elements, repeated
  Zero,
};

/// Inputs with the sizes and ints of `observation`; floats and bools as given. Elements that are
/// not in the host's memory become zeros. nullopt: an input has more than 2^24 elements.
[[nodiscard]] std::optional<Inputs> example_inputs(const Observation& observation,
                                                   std::span<const InputValue> given,
                                                   Elements elements);

}  // namespace lockstep::worker
