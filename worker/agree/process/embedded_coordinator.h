// The coordinator of a job that has none configured: rank 0 hosts it for the duration of the job,
// on a thread of its own, at loopback and with a secret of its own. The ranks of rank 0's host
// report to it; ranks of other hosts would need `lockstep coordinator`.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include <lockstep/coordinator/server/server.h>
#include <lockstep/worker/agree/process/log.h>
#include <lockstep/worker/agree/process/settings.h>

namespace lockstep::worker {

/// Listens, and serves until it is destroyed.
class EmbeddedCoordinator {
 public:
  /// Writes its address and secret to job_port_file(), for `lockstep status`. Errors: Environment
  /// (no socket, no thread, no directory).
  [[nodiscard]] static Result<std::unique_ptr<EmbeddedCoordinator>> start(const Settings& settings,
                                                                          const std::string& job,
                                                                          const Log& log);
  /// Waits until all ranks have disconnected, at most 5 s, then stops.
  ~EmbeddedCoordinator();
  EmbeddedCoordinator(const EmbeddedCoordinator&) = delete;
  EmbeddedCoordinator& operator=(const EmbeddedCoordinator&) = delete;

  [[nodiscard]] const coordinator::PortFile& at() const { return at_; }

 private:
  EmbeddedCoordinator() = default;
  std::unique_ptr<coordinator::Server> server_;
  coordinator::PortFile at_;
  std::string port_file_;
  std::thread thread_;
};

}  // namespace lockstep::worker
