// The options of `lockstep worker`: parsed by the command, which then becomes the program
// lockstep_worker_program, and parsed again by that.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace lockstep::worker::cli {

struct WorkerWords {
  std::string listen = "127.0.0.1:0", address_file;
  double wait = 60;
};

void declare_options(CLI::App& app, WorkerWords& words);

}  // namespace lockstep::worker::cli
