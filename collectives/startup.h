// The start-up round: before anything else, all ranks compare their configuration. Unconditional:
// no setting turns it off, for a setting that differs between ranks is what it looks for.
#pragma once

#include <string_view>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// Collective. `configuration` is lines of "key=value" (build id, settings), each key once. Costs
/// one vote where all agree. Errors, the same on all ranks: ConfigMismatch with the first key (byte
/// order) that differs as source, and its values by ranks; a key that a rank lacks counts as
/// "(not set)". Others as Communicator::poll.
[[nodiscard]] Result<void> startup_round(Communicator& group, std::string_view configuration);

}  // namespace lockstep::collectives
