// A training step of the text example with lines packed one behind the other, beside the same step
// with lines padded to the longest of the rank. Both see the same batches, one after the other.
//
// usage: scripts/mpirun -n RANKS packed_bench [--batches N] [--lines N] [--dtype f32|f64] [--out
// FILE]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "../../examples/moe_text/start.h"
#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <mpi.h>

namespace {

using namespace moe_text;  // NOLINT: a bench reads like a user's program
using lockstep::bench::Pair;

/// Training by one of the two ways.
template <class Lines>
class Side {
 public:
  Side(Job& job, const std::string& name, const Text& text, int lines, DType dtype)
      : job_(job),
        text_(text),
        lines_(lines),
        frame_(job.frame<StepInputOf<Lines>, StepOutput>(
            name, [&job](StepInputOf<Lines> in) { return step(in, job.size()); })) {
    in_.parameters = initial(Shape(), dtype, job.rank(), job.size());
    in_.first_moment = zeros_of(in_.parameters), in_.second_moment = zeros_of(in_.parameters);
    in_.rate = 1e-3;
  }
  /// Reads the next batch, which is not timed.
  void prepare() {
    in_.batch =
        batch_of<Lines>(text_.train, static_cast<std::size_t>(steps_++ * lines_), lines_, job_);
  }
  void run() {
    auto out = frame_(in_);
    if (!out) std::fprintf(stderr, "%s\n", out.error().text().c_str()), std::exit(1);
    in_.parameters = out->parameters, in_.first_moment = out->first_moment,
    in_.second_moment = out->second_moment;
  }

 private:
  Job& job_;
  const Text& text_;
  int lines_, steps_ = 0;
  CompiledFrame<StepInputOf<Lines>, StepOutput> frame_;
  StepInputOf<Lines> in_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int batches = 60, lines = 64;
  std::string dtype = "f32", out;
  CLI::App app("Packed and padded training steps");
  app.add_option("--batches", batches, "Steps of each side");
  app.add_option("--lines", lines, "Lines per batch, over all ranks");
  app.add_option("--dtype", dtype, "f32 or f64");
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
    const DType type = dtype == "f64" ? DType::F64 : DType::F32;
    Side<Batch> padded(**job, "padded", text, lines, type);
    Side<PackedBatch> packed(**job, "packed", text, lines, type);
    for (int warm = 0; warm < 8; ++warm)
      padded.prepare(), padded.run(), packed.prepare(), packed.run();
    Pair pair{.name = "step of moe_text, packed over padded, " + dtype,
              .floor = [&] { padded.run(); },
              .ours = [&] { packed.run(); },
              .prepare_floor = [&] { padded.prepare(); },
              .prepare_ours = [&] { packed.prepare(); }};
    written = lockstep::bench::run_pairs("packed_bench", {pair}, batches, out);
    if (auto ended = (*job)->finish(); !ended) return Job::report(ended.error());
  }
  MPI_Finalize();
  return written ? 0 : 1;
}
