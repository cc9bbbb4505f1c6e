// The workers of a controller as processes of their own, for tests that are the controller.
#pragma once

#include <memory>
#include <string>

#include "launch.h"
#include <sys/types.h>

#include <lockstep/worker/controller/controller.h>
#include <lockstep/worker/job.h>

namespace lockstep::worker::test {

/// `lockstep worker` on ranks under scripts/mpirun, or as plain processes that meet over TCP.
/// What is still there is killed with the object.
class WorkersProcess {
 public:
  struct Options {
    bool met = false;         // without MPI
    std::string environment;  // "NAME=value NAME=value"
    std::string arguments;    // of lockstep worker
  };
  explicit WorkersProcess(int workers) : WorkersProcess(workers, Options()) {}
  WorkersProcess(int workers, const Options& options);
  ~WorkersProcess();
  WorkersProcess(const WorkersProcess&) = delete;
  WorkersProcess& operator=(const WorkersProcess&) = delete;

  /// Waits until worker 0 listens.
  [[nodiscard]] std::string address_file() const;
  [[nodiscard]] std::unique_ptr<Controller> connect(const ControllerOptions& options = {}) const;
  /// The exit code of the launcher, once all have ended; -1: they have not within a minute.
  [[nodiscard]] int wait();
  /// What all have printed so far.
  [[nodiscard]] std::string output() const;
  /// The process id of a worker.
  [[nodiscard]] pid_t pid(int worker) const;
  [[nodiscard]] const Folder& folder() const { return folder_; }

 private:
  Folder folder_;
  pid_t launcher_ = -1;
};

}  // namespace lockstep::worker::test
