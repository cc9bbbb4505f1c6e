// The start-up round: before anything else, all ranks compare their configuration. No setting turns
// this off, since it looks for settings that differ between ranks.
#pragma once

#include <string_view>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// Collective. `configuration` is lines of "key=value" (build id, settings), each key once. If all
/// agree, this is one vote. Fails with the same error on all ranks: ConfigMismatch, whose source is
/// the first key (in byte order) that differs, with its values by ranks. A key that a rank lacks
/// counts as "(not set)". Other errors: those of Communicator::poll().
[[nodiscard]] Result<void> startup_round(Communicator& group, std::string_view configuration);

}  // namespace lockstep::collectives
