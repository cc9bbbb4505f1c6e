// Where a job's processes meet over TCP, and with which secret. The place is LOCKSTEP_RENDEZVOUS.
// If that is not set, processes on one host meet by a file if torchrun, or in a build without MPI
// any launcher, has started them.
#pragma once

#include <optional>
#include <string>

#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/worker/agree/process/launcher.h>
#include <lockstep/worker/agree/process/settings.h>

namespace lockstep::worker {

/// The rendezvous that the settings name, an address or a file; nullopt: none. The secret of an
/// address is LOCKSTEP_TOKEN, else that in LOCKSTEP_TOKEN_FILE, else, on loopback, a secret of this
/// user, made in the cache directory at first use. `build` identifies the build of the program.
/// Errors: BadInput (an invalid address, no rank or world size), Version (no secret though other
/// machines reach the address, or other users can read its file), Environment.
[[nodiscard]] Result<std::optional<collectives::TcpOptions>> rendezvous_of(const Settings& settings,
                                                                           std::string build);

/// The rendezvous of processes that `launcher` has started and no MPI joins: ranks of one host meet
/// by a file in the cache directory that is named after the launch. nullopt: a single process.
/// Errors: Environment if the processes are not on one host; it names the variable to set.
[[nodiscard]] Result<std::optional<collectives::TcpOptions>> launched_rendezvous(
    const Settings& settings, const std::optional<Launcher>& launcher, std::string build);

}  // namespace lockstep::worker
