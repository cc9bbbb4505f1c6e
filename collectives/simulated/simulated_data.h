// The data side of the simulated network: what all ranks brought to one collective, checked against
// each other and carried out in memory. Used by simulated.cpp and fake.cpp only.
#pragma once

#include <span>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// Whether the collectives of all ranks, in rank order, fit together. Errors: Internal, naming who
/// brought what.
[[nodiscard]] Result<void> fit_together(std::span<const Collective> of_rank);

/// Fills every rank's receive buffer. Reductions go in rank order. Requires fit_together.
void carry_out(std::span<const Collective> of_rank);

/// Fills the receive buffer of one rank with the reduction of `copies` of its first `rows` rows to
/// send, one after the other.
void reduce_copies(const Collective& collective, int copies);

}  // namespace lockstep::collectives
