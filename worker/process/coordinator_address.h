// Which coordinator a process speaks to, and with which secret: from a word of the command line,
// the environment, or the port file that a coordinator leaves.
#pragma once

#include <string>

#include <lockstep/coordinator/speech/port_file.h>
#include <lockstep/worker/process/settings.h>

namespace lockstep::worker {

struct CoordinatorAddress {
  coordinator::Endpoint endpoint;
  coordinator::Secret secret;

  /// `where`: "127.0.0.1:4711"; a port file; or the name of a job that runs on this host and whose
  /// rank 0 hosts the coordinator. Empty: LOCKSTEP_COORDINATOR, else the only one that listens on
  /// this host. The secret is that of `token_file`, else of LOCKSTEP_TOKEN, else of
  /// LOCKSTEP_TOKEN_FILE, else of the port file; a bare address also has that of a port file where
  /// it is the address in it. Errors:
  /// BadInput (no address; several listen, which are named), Environment (no such file, nobody
  /// listens), Version (no secret is known, or its file is others' to read).
  [[nodiscard]] static Result<CoordinatorAddress> find(const Settings& settings,
                                                       const std::string& where,
                                                       const std::string& token_file);
};

/// Where a coordinator leaves its address unless it is told otherwise.
[[nodiscard]] std::string default_port_file(const Settings& settings);
/// Where the one that the job's rank 0, process `pid`, hosts does so.
[[nodiscard]] std::string job_port_file(const Settings& settings, const std::string& job, int pid);

}  // namespace lockstep::worker
