// Inputs of a recorded job from which virtual ranks draw theirs: whole inputs of one rank in one
// call, so that what holds within a rank holds for who draws them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/worker/exchange/observation.h>

namespace lockstep::worker::simulator {

/// Immutable. The inputs have one list of sources.
struct InputPool {
  /// Of all calls of a frame with that list; pools share them.
  std::shared_ptr<const std::vector<Observation>> inputs;
  std::vector<std::uint32_t> recorded;  // which of them: one for each time that it was recorded
  std::vector<std::uint32_t> distinct;  // the same, each once, ascending
  Observation least, greatest;          // the values of all of these

  /// By 64 random bits.
  [[nodiscard]] std::uint32_t at(std::uint64_t random) const {
    return recorded[static_cast<std::size_t>(random % recorded.size())];
  }
};

}  // namespace lockstep::worker::simulator
