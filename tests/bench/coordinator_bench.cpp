// What it costs a job's steps that a coordinator watches them: the same frame in a job whose rank 0
// hosts one, and in a job that has none. Two steps: next to nothing, and a small training step.
//
// usage: scripts/mpirun -n RANKS coordinator_bench [--batches N] [--out FILE]
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <mpi.h>

#include <lockstep/worker/job.h>

namespace {

using namespace lockstep;
using namespace lockstep::worker;

struct Input {
  Tensor x, w;
  template <class V>
  void fields(V& v) {
    v("x", x);
    v("w", w);
  }
};

struct Output {
  Tensor total;
  template <class V>
  void fields(V& v) {
    v("total", total);
  }
};

/// One job at a time, with or without a coordinator, and its frame.
class Watched {
 public:
  explicit Watched(std::int64_t width)
      : x_(DType::F32, {64, width}), w_(DType::F32, {width, width}) {
    for (Array* array : {&x_, &w_})
      for (std::int64_t i = 0; i < array->elements(); ++i) array->set(i, 1e-3 * (i % 7));
  }

  void become(bool watched) {
    if (step_ && watched_ == watched) return;
    watched_ = watched;
    step_.reset();
    if (job_ && !job_->finish()) std::abort();
    job_.reset();
    JobOptions options;
    options.settings = Settings::from_environment().value();
    options.settings->coordinator = watched ? "" : kNoCoordinator;
    options.summary = false;
    job_ = Job::attach(MPI_COMM_WORLD, options).value();
    step_ = job_->frame<Input, Output>("train_step", [](Input in) {
      Tensor h = in.x;
      for (int layer = 0; layer < 4; ++layer) h = tanh(matmul(h, in.w));
      return Output{all_reduce(sum(h * h))};
    });
    for (int warm = 0; warm < 20; ++warm) step();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the publishers have joined
  }
  void step() {
    if (!(*step_)({Tensor(x_), Tensor(w_)})) std::abort();
  }
  void end() {
    step_.reset();
    if (job_ && !job_->finish()) std::abort();
    job_.reset();
  }

 private:
  Array x_, w_;
  bool watched_ = false;
  std::unique_ptr<Job> job_;
  std::optional<CompiledFrame<Input, Output>> step_;
};

}  // namespace

int main(int argc, char** argv) {
  int batches = 21;
  std::string out;
  CLI::App app("What it costs a job that a coordinator watches it");
  app.add_option("--batches", batches, "Batches of each side")->check(CLI::Range(3, 10000));
  app.add_option("--out", out, "JSON file");
  CLI11_PARSE(app, argc, argv);

  MPI_Init(&argc, &argv);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool written = false;
  {
    Watched next_to_nothing(8), small(256);
    // A process speaks for one job at a time.
    const auto pair = [&](const char* name, int calls, Watched& job, Watched& other) {
      const auto become = [&job, &other](bool watched) {
        return [&job, &other, watched] {
          other.end();
          job.become(watched);
        };
      };
      return bench::Pair{.name = name,
                         .calls = calls,
                         .floor = [&job] { job.step(); },
                         .ours = [&job] { job.step(); },
                         .target = size == 4 ? 1.02 : 0,
                         .prepare_floor = become(false),
                         .prepare_ours = become(true)};
    };
    written = bench::run_pairs("coordinator_bench",
                               {pair("watched/step_of_8", 4000, next_to_nothing, small),
                                pair("watched/step_of_256", 200, small, next_to_nothing)},
                               batches, out);
    next_to_nothing.end(), small.end();
  }
  MPI_Finalize();
  return written ? 0 : 7;
}
