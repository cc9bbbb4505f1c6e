// The options of `lockstep worker`. They are parsed twice: by `lockstep`, and by
// lockstep_worker_program, the program that `lockstep` then becomes.
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
