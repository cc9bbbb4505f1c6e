// A rank of a job that trains a small state and saves checkpoints, for tests that stop it.
//
// usage: checkpoint_rank DIR STEPS EVERY [STAGE RANK SIGNAL | - - -] [STOP_STEP]
//   At STAGE (stage.h) of a save after the first, rank RANK ends itself with SIGNAL; 0: _exit(41).
//   At STOP_STEP, all ranks are killed by rank 0's own end.
// Rank 0 prints "resumed from N" and the state after each step, all digits.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <unistd.h>

#include <lockstep/worker/checkpoints.h>

using namespace lockstep;
using namespace lockstep::worker;

namespace {

struct In {
  Tensor x, w;
  template <class V>
  void fields(V& v) {
    v("x", x), v("w", w);
  }
};
struct Out {
  Tensor x, w;
  template <class V>
  void fields(V& v) {
    v("x", x), v("w", w);
  }
};

/// x has 24 rows over all ranks; w is shared. `step` and `first` are the place in the data.
struct State {
  Tensor x, w;
  std::int64_t step = 0, first = 0;
  Key key{7};
  template <class V>
  void fields(V& v) {
    v("x", sharded(x, 0, first, 24)), v("w", w), v("step", step), v("key", key);
  }
};

State initial(int rank, int size) {
  State state;
  state.first = 24 * rank / size;
  const std::int64_t rows = 24 * (rank + 1) / size - state.first;
  Array x(DType::F64, {rows, 4});
  for (std::int64_t i = 0; i < x.elements(); ++i)
    x.set(i, 0.25 * static_cast<double>(state.first * 4 + i));
  state.x = x;
  state.w = Array::of(DType::F64, {4}, std::vector<double>{1, 2, 3, 4});
  return state;
}

struct Fault {
  std::string stage;
  int rank = -1, signal = 0;
  void strike(CheckpointStage at, int mine) const {
    if (kStages[at].name != stage || mine != rank) return;
    if (signal != 0) ::raise(signal);
    ::_exit(41);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argv[1];
  const std::int64_t steps = std::atoll(argv[2]), every = std::atoll(argv[3]);
  Fault fault;
  if (argc > 6 && std::strcmp(argv[4], "-") != 0)
    fault = {argv[4], std::atoi(argv[5]), std::atoi(argv[6])};
  const std::int64_t stop = argc > 7 ? std::atoll(argv[7]) : -1;
  auto joined = Job::init(&argc, &argv);
  if (!joined) return Job::report(joined.error());
  Job& job = **joined;
  auto step = job.frame<In, Out>("step", [](In in) {
    const Tensor total = all_reduce(sum(in.x * in.w, {0}));
    return Out{in.x * 0.9 + in.w * 0.1, in.w + 0.001 * total};
  });
  return job.run([&]() -> Result<void> {
    State state = initial(job.rank(), job.size());
    bool armed = false;
    CheckpointOptions options{.every = every};
    options.at_stage = [&](CheckpointStage at) {
      if (armed) fault.strike(at, job.rank());
    };
    Checkpoints checkpoints(job, folder, options);
    const auto found = checkpoints.restore(state);
    if (!found) return found.error();
    if (job.rank() == 0) {
      std::printf("resumed from %lld\n", static_cast<long long>(*found ? (*found)->step : 0));
      std::fflush(stdout);
    }
    while (state.step < steps) {
      auto out = step({state.x, state.w});
      if (!out) return out.error();
      state.x = out->x, state.w = out->w;
      ++state.step;
      if (job.rank() == 0) {
        std::printf("step %lld: %.17g %.17g\n", static_cast<long long>(state.step),
                    out->w.array().at(0), out->w.array().at(3));
        std::fflush(stdout);
      }
      if (state.step == stop && job.rank() == 0) ::raise(SIGKILL);
      if (auto saved = checkpoints.save(state.step, state); !saved) return saved.error();
      armed = armed || checkpoints.last_committed().has_value();
    }
    if (auto ended = checkpoints.finish(); !ended) return ended;
    if (job.rank() == 0 && checkpoints.last_failure())
      std::printf("failed: %s\n", checkpoints.last_failure()->text().c_str());
    return {};
  });
}
