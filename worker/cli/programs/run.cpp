// lockstep run FILE.lsp --inputs X.safetensors --outputs Y.safetensors
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <lockstep/worker/cli/programs/job_program.h>
#include <lockstep/worker/cli/programs/run_options.h>
#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

int become_a_job(const RunOptions& options) {
  std::vector<std::string> words;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  add("--inputs", options.inputs), add("--outputs", options.outputs), add("--pack", options.pack);
  for (const std::string& group : options.groups) add("--group", group);
  if (options.other_ranks) words.emplace_back("--other-ranks");
  if (options.json) words.emplace_back("--json");
  words.insert(words.end(), {"--", options.file});
  return become_program("lockstep_program", words);
}

}  // namespace

std::function<int()> declare_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  declare_options(app, *options);
  describe(
      app,
      {.usage = {"lockstep run [OPTIONS] FILE.lsp", "mpirun -n N lockstep run [OPTIONS] FILE.lsp"},
       .text = "Runs one call of a saved program, on as many ranks as saved it. Rank 0 prints the "
               "outputs that it has: names, dtypes, sizes, and values without sizes. Each rank "
               "reads all files itself, and all have the same inputs unless {rank} stands in the "
               "path. Nothing is logged unless LOCKSTEP_LOG says so. Programs with own ops or host "
               "calls take a program that brings them "
               "(Job::load).",
       .codes = {{kUsage, "wrong usage, files or inputs; sizes that no entry serves"},
                 {kDiverged, "the ranks differ, or a check of the program fails"},
                 {4, "time-out or stuck"},
                 {5, "a rank is lost"},
                 {6, "ranks of different builds"}},
       .examples = {"lockstep run step.lsp --inputs x.safetensors --outputs y.safetensors",
                    "mpirun -n 4 lockstep run step.lsp --inputs x.{rank}.safetensors --outputs "
                    "y.{rank}.safetensors"}});
  return [options] { return become_a_job(*options); };
}

}  // namespace lockstep::worker::cli
