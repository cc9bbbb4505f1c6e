#include <CLI/CLI.hpp>

#include <lockstep/worker/cli/programs/run_options.h>

namespace lockstep::worker::cli {

void declare_options(CLI::App& app, RunOptions& options) {
  app.add_option("FILE", options.file, "a saved program; {rank} in a path is the rank's number")
      ->type_name("FILE.lsp")
      ->required();
  app.add_option("--inputs", options.inputs,
                 "the inputs by name; ints, floats and bools are 0-d tensors")
      ->type_name("FILE.safetensors");
  app.add_option("--outputs", options.outputs,
                 "where the outputs go; without {rank} in it, rank 0's")
      ->type_name("FILE.safetensors");
  app.add_option("--pack", options.pack,
                 "write the program with its compiled objects, which needs no compiler then")
      ->type_name("FILE.lsp");
  app.add_option("--group", options.groups,
                 "a group that the program names, as sets of ranks; may be given several times")
      ->type_name("NAME=0-1/2-3");
  app.add_flag("--other-ranks", options.other_ranks,
               "run it on another number of ranks than saved it: its function did not use that "
               "number, and its graphs have no collectives");
  app.add_flag("--json", options.json, "print one JSON document of the outputs");
}

}  // namespace lockstep::worker::cli
