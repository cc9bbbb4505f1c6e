// The workers of a controller as a job of their own: run by `lockstep worker` on every rank.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/worker/agree/process/settings.h>

namespace lockstep::worker {

struct WorkerOptions {
  std::string listen = "127.0.0.1:0";  // worker 0's address; port 0: any free port
  std::string address_file;            // empty: workers.address in the cache directory
  /// Time that the workers wait for a controller, at the start and after one has left.
  Duration patience = std::chrono::seconds(60);
};

/// Default path of worker 0's address file.
[[nodiscard]] std::string default_workers_file(const Settings& settings);

/// Joins the job and does a controller's commands until it ends the job. Worker 0 calls `ready`
/// with a line for users once it listens. Prints errors. Returns the exit code of the process.
[[nodiscard]] int run_worker(const WorkerOptions& options, const Settings& settings,
                             const std::function<void(const std::string& line)>& ready);

}  // namespace lockstep::worker
