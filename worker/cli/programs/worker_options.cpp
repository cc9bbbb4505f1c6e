#include <CLI/CLI.hpp>

#include <lockstep/worker/cli/programs/worker_options.h>

namespace lockstep::worker::cli {

void declare_options(CLI::App& app, WorkerWords& words) {
  app.add_option("--listen", words.listen,
                 "where worker 0 listens: numeric address and port; port 0: any that is free")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option("--address-file", words.address_file,
                 "where worker 0 leaves its address, and its secret if no other file holds it")
      ->type_name("FILE")
      ->default_str("workers.address in the cache directory");
  app.add_option("--wait", words.wait,
                 "how long the workers wait for a controller, at the start and once one has left")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 1e7))
      ->capture_default_str();
}

}  // namespace lockstep::worker::cli
