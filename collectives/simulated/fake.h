// The fake backend: one process that poses as rank r of N. Every other rank is taken to contribute
// just what this one does. For looking at one rank's program without a job; nothing is exchanged,
// and its name says so.
#pragma once

#include <memory>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// Errors: BadInput if `self` is not a rank of a group of `size`.
[[nodiscard]] Result<std::unique_ptr<Communicator>> fake_communicator(Rank self, int size);

}  // namespace lockstep::collectives
