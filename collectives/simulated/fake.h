// The fake backend: one process that poses as rank r of N. Every other rank mirrors this rank: it
// is assumed to do and contribute exactly what this rank does. For looking at one rank's program
// without a job. Nothing is exchanged, and the backend's name says so.
#pragma once

#include <memory>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// A round combines N equal contributions, in a time that grows with log N. A table of ranks names
/// only this rank. A reduction combines N equal buffers, in the time of one; an all_gather gives N
/// copies; a broadcast gives this rank's own buffer; an all_to_all gives the block for this rank N
/// times. `size` is at most INT32_MAX. Errors: BadInput if `self` is not a rank of a group of
/// `size`.
[[nodiscard]] Result<std::unique_ptr<Communicator>> fake_communicator(Rank self, int size);

}  // namespace lockstep::collectives
