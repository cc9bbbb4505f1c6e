// The data plane of the simulated network: checks the collectives of all ranks against each other
// and carries them out in memory. Used by simulated_network.cpp and fake.cpp only.
#pragma once

#include <span>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// Checks that the collectives of all ranks, in rank order, fit together. Errors: Internal, with
/// each rank's collective.
[[nodiscard]] Result<void> fit_together(std::span<const Collective> of_rank);

/// Fills every rank's receive buffer. Reductions go in rank order. Requires that fit_together() has
/// passed.
void carry_out(std::span<const Collective> of_rank);

/// Fills the receive buffer of `collective` with the reduction of `copies` copies of the first
/// `rows` rows of its send buffer.
void reduce_copies(const Collective& collective, int copies);

}  // namespace lockstep::collectives
