// What kernels are written for. The graph, its plan and the arithmetic of one element are the same
// for all; only the text around them differs.
#pragma once

#include <cstdint>

namespace lockstep::worker {

enum class Target : std::uint8_t { Host, Cuda };

}  // namespace lockstep::worker
