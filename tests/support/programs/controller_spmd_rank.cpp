// A rank that trains as in tests/worker/controller/training_step.h, without a controller. Rank 0
// prints the losses, with all digits.
//
// usage: controller_spmd_rank [FILE]     FILE: where rank 0 saves the program
#include <cstdio>

#include "worker/controller/training_step.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  using namespace lockstep::worker;
  auto job = Job::init(nullptr, nullptr, {.summary = false});
  if (!job) return Job::report(job.error());
  auto step = (*job)->frame<test::StepIn, test::StepOut>("step", test::training_step);
  return (*job)->run([&]() -> Result<void> {
    std::vector<test::Layer> layers = test::first_layers();
    for (int s = 0; s < test::kSteps; ++s) {
      const int rank = (*job)->rank();
      auto out = step({test::x_of(rank, s), test::y_of(rank, s), std::move(layers),
                       test::rate_of(s), s, s % 4 != 3});
      if (!out) return out.error();
      layers = std::move(out->layers);
      if (rank == 0) std::printf("loss %a\n", out->loss.array().at(0));
    }
    if (argc > 1 && (*job)->rank() == 0) return step.save(argv[1]);
    return {};
  });
}
