// The workers of a controller as a job of their own: what `lockstep worker` runs on every rank.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/worker/process/settings.h>

namespace lockstep::worker {

struct WorkerOptions {
  std::string listen = "127.0.0.1:0";  // of worker 0; port 0: any that is free
  std::string address_file;            // empty: workers.address in the cache directory
  /// How long the workers wait for a controller, at the start and where one has left.
  Duration patience = std::chrono::seconds(60);
};

/// Where worker 0 leaves its address unless it is told otherwise.
[[nodiscard]] std::string default_workers_file(const Settings& settings);

/// Joins the job and does what a controller says until it has finished. Worker 0 calls `ready` with
/// a line for users once it listens. Returns the exit code of the process; what is wrong has been
/// printed.
[[nodiscard]] int run_worker(const WorkerOptions& options, const Settings& settings,
                             const std::function<void(const std::string& line)>& ready);

}  // namespace lockstep::worker
