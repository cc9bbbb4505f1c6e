// Where and with which secret the processes of a job meet that no launcher started
// (LOCKSTEP_RENDEZVOUS).
#pragma once

#include <optional>
#include <string>

#include <lockstep/collectives/tcp.h>
#include <lockstep/worker/settings.h>

namespace lockstep::worker {

/// nullopt: the settings name no rendezvous. The secret is LOCKSTEP_TOKEN, or what
/// LOCKSTEP_TOKEN_FILE holds; where there is neither and the rendezvous is on loopback, one of this
/// user's, made in the cache directory at first use. `build` tells builds of the program apart.
/// Errors: BadInput (no address), Version (no secret though other machines reach the address, or
/// its file is others' to read), Environment.
[[nodiscard]] Result<std::optional<collectives::TcpOptions>> meeting_of(const Settings& settings,
                                                                        std::string build);

}  // namespace lockstep::worker
