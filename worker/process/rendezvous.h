// Where and with which secret the processes of a job meet over TCP: where LOCKSTEP_RENDEZVOUS says,
// or where those that torchrun, or in a build without MPI any launcher, has started on one host
// find each other.
#pragma once

#include <optional>
#include <string>

#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/worker/process/launcher.h>
#include <lockstep/worker/process/settings.h>

namespace lockstep::worker {

/// nullopt: nothing names a rendezvous. An address or a file; with an address the secret is
/// LOCKSTEP_TOKEN, or what LOCKSTEP_TOKEN_FILE holds; where there is neither and the rendezvous is
/// on loopback, one of this user's, made in the cache directory at first use. `build` tells builds
/// of the program apart. Errors: BadInput (no address), Version (no secret though other machines
/// reach the address, or its file is others' to read), Environment.
[[nodiscard]] Result<std::optional<collectives::TcpOptions>> rendezvous_of(const Settings& settings,
                                                                           std::string build);

/// The same for what `launcher` has started, where no MPI joins it: ranks of one host meet by a
/// file in the cache directory that is named after the launch. Errors: Environment where they are
/// not on one host, with what to set.
[[nodiscard]] Result<std::optional<collectives::TcpOptions>> launched_rendezvous(
    const Settings& settings, const std::optional<Launcher>& launcher, std::string build);

}  // namespace lockstep::worker
