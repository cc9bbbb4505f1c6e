// The options of `lockstep run`. They are parsed twice: by `lockstep`, and by lockstep_program, the
// program that `lockstep` then becomes.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::worker::cli {

struct RunOptions {
  std::string file, inputs, outputs, pack;
  std::vector<std::string> groups;  // "tensor=0-1/2-3"
  bool other_ranks = false, json = false;
};

void declare_options(CLI::App& app, RunOptions& options);

}  // namespace lockstep::worker::cli
