// The program that `lockstep worker` becomes (job_program.h).
//
// usage: lockstep_worker_program, with the options of lockstep worker
#include <cstdlib>
#include <string>

#include <CLI/CLI.hpp>

#include <lockstep/worker/cli/programs/worker_options.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/controller/workers/workers.h>

int main(int argc, char** argv) {
  using namespace lockstep;
  using namespace lockstep::worker::cli;
  CLI::App app("Does what a controller says.", "lockstep_worker_program");
  WorkerWords words;
  declare_options(app, words);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return complain(std::string(error.what()) + "; see lockstep worker --help.", kUsage);
  }
  auto settings = worker::Settings::from_environment();
  if (!settings) return complain(settings.error());
  if (std::getenv("LOCKSTEP_LOG") == nullptr) settings->log = {"off"};
  const worker::WorkerOptions options{
      .listen = words.listen,
      .address_file = words.address_file,
      .patience = std::chrono::nanoseconds(static_cast<std::int64_t>(words.wait * 1e9))};
  return worker::run_worker(options, *settings,
                            [](const std::string& line) { (void)print_result(line + "\n", kOk); });
}
