// The address and secret of the coordinator that a process connects to: from the command line, the
// environment, or the port file of a coordinator.
#pragma once

#include <string>

#include <lockstep/coordinator/messages/port_file.h>
#include <lockstep/worker/agree/process/settings.h>

namespace lockstep::worker {

struct CoordinatorAddress {
  coordinator::Endpoint endpoint;
  coordinator::Secret secret;

  /// `where`: "127.0.0.1:4711"; a port file; or the name of a job on this host whose rank 0 hosts
  /// the coordinator. Empty: LOCKSTEP_COORDINATOR, else the only coordinator that listens on this
  /// host. The secret is from `token_file`, else LOCKSTEP_TOKEN, else LOCKSTEP_TOKEN_FILE, else the
  /// port file. For a bare address, the port file is the one that contains the address, if any.
  /// Errors: BadInput (an invalid address; several coordinators listen, which are named),
  /// Environment (no such file, or no coordinator listens), Version (no secret is known, or other
  /// users can read its file).
  [[nodiscard]] static Result<CoordinatorAddress> find(const Settings& settings,
                                                       const std::string& where,
                                                       const std::string& token_file);
};

/// The port file of `lockstep coordinator`, unless it is given another.
[[nodiscard]] std::string default_port_file(const Settings& settings);
/// The port file of the coordinator that the job's rank 0, process `pid`, hosts.
[[nodiscard]] std::string job_port_file(const Settings& settings, const std::string& job, int pid);

}  // namespace lockstep::worker
