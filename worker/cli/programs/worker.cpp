// lockstep worker
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/worker/cli/programs/job_program.h>
#include <lockstep/worker/cli/programs/worker_options.h>
#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

int become_a_worker(const WorkerWords& words) {
  std::vector<std::string> out{"--listen", words.listen, "--wait", fmt::format("{}", words.wait)};
  if (!words.address_file.empty()) out.insert(out.end(), {"--address-file", words.address_file});
  return become_program("lockstep_worker_program", out);
}

}  // namespace

std::function<int()> declare_worker(CLI::App& app) {
  auto words = std::make_shared<WorkerWords>();
  declare_options(app, *words);
  describe(
      app,
      {.usage = {"lockstep worker [OPTIONS]", "mpirun -n N lockstep worker [OPTIONS]"},
       .text =
           "Joins the job of a controller's workers and does what the controller says, "
           "until it has finished. Worker 0 prints where it listens. The controller is a "
           "program of its own (lockstep/worker/controller/controller.h, or lockstep.Controller "
           "in Python). Nothing else is logged unless LOCKSTEP_LOG says so.",
       .codes = {{kDiverged, "a worker has failed, or no controller came in time"},
                 {4, "time-out or stuck"},
                 {5, "a worker is lost"},
                 {6, "workers of different builds; open to other machines without a secret"}},
       .examples = {"mpirun -n 4 lockstep worker --address-file workers.address",
                    "lockstep worker --listen 127.0.0.1:4700 --wait 600"}});
  return [words] { return become_a_worker(*words); };
}

}  // namespace lockstep::worker::cli
