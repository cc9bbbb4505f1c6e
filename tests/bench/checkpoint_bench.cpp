// Training steps of the text example with a checkpoint every so many steps, beside the same steps
// without. A batch is that many steps; the save falls on its first, is written during the others,
// and is waited for at the end, so that no batch pays for another's.
//
// usage: scripts/mpirun -n RANKS checkpoint_bench [--batches N] [--every N] [--lines N] [--out
// FILE]
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "../../examples/moe_text/start.h"
#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <mpi.h>

namespace {

using namespace moe_text;  // NOLINT: a bench reads like a user's program
using lockstep::bench::Pair;

/// Training on one batch of text again and again, so that every step takes as long.
class Training {
 public:
  Training(Job& job, const std::string& name, const Text& text, int lines)
      : job_(job), frame_(job.frame<StepInput, StepOutput>(name, [&job](StepInput in) {
          return step(in, job.size());
        })) {
    in_.parameters = initial(Shape(), DType::F32, job.rank(), job.size());
    in_.first_moment = zeros_of(in_.parameters), in_.second_moment = zeros_of(in_.parameters);
    in_.rate = 1e-4;
    in_.batch = batch_of<Batch>(text.train, 0, lines, job);
  }
  void run() {
    auto out = frame_(in_);
    if (!out) std::fprintf(stderr, "%s\n", out.error().text().c_str()), std::exit(1);
    in_.parameters = out->parameters, in_.first_moment = out->first_moment,
    in_.second_moment = out->second_moment;
    ++state_.step;
  }
  /// `every`: steps of a batch, whose last one waits for the save.
  void save(Checkpoints& checkpoints, int every) {
    auto saved = checkpoints.save(state_.step, state_);
    if (saved && (state_.step + 1) % every == 0)
      if (auto ended = checkpoints.finish(); !ended) saved = ended.error();
    if (!saved) std::fprintf(stderr, "%s\n", saved.error().text().c_str()), std::exit(1);
  }

 private:
  Job& job_;
  CompiledFrame<StepInput, StepOutput> frame_;
  StepInput in_;
  TrainingState state_{in_.parameters, in_.first_moment, in_.second_moment,
                       Experts{Shape().experts / job_.size() * job_.rank(), Shape().experts}};
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int batches = 20, every = 50, lines = 32;
  std::string out, folder = "/tmp/lockstep-checkpoint-bench";
  CLI::App app("Training steps with checkpoints and without");
  app.add_option("--batches", batches, "Batches of each side");
  app.add_option("--every", every, "Steps of a batch, with one save");
  app.add_option("--lines", lines, "Lines per step, over all ranks");
  app.add_option("--folder", folder, "Where checkpoints go");
  app.add_option("--out", out, "JSON file");
  CLI11_PARSE(app, argc, argv);
  Text text;
  std::string error;
  if (!read_text({usual_text()}, text, error))
    return std::fprintf(stderr, "%s\n", error.c_str()), 1;
  bool written = false;
  {
    auto job = Job::attach(MPI_COMM_WORLD, {.summary = false});
    if (!job) return Job::report(job.error());
    Training plain(**job, "plain", text, lines), saving(**job, "saving", text, lines);
    Checkpoints checkpoints(**job, folder, {.every = every, .keep = 1});
    const auto step_without = [&] { plain.run(); };
    const auto step_with = [&] { saving.run(), saving.save(checkpoints, every); };
    // Compiles both; the first step of every batch is one to save at.
    for (int s = 1; s < every; ++s) step_without(), step_with();
    Pair pair{.name = "step of moe_text, with a checkpoint every " + std::to_string(every) +
                      " over without",
              .calls = every,
              .floor = step_without,
              .ours = step_with,
              .target = 1.05};
    written = lockstep::bench::run_pairs("checkpoint_bench", {pair}, batches, out);
    if (auto ended = checkpoints.finish(); !ended) return Job::report(ended.error());
    if (checkpoints.last_failure())
      return std::fprintf(stderr, "%s\n", checkpoints.last_failure()->text().c_str()), 1;
    if (auto ended = (*job)->finish(); !ended) return Job::report(ended.error());
    if ((*job)->rank() == 0) std::filesystem::remove_all(folder);
  }
  MPI_Finalize();
  return written ? 0 : 1;
}
