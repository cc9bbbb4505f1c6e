// What goes wrong when ranks compile different programs. Rank r's batch has 3 + r rows, and the
// step makes one more collective if a batch has more than 4 rows.
//
//   mpirun -n 4 divergence                             ends at once: BRANCH_DIVERGENCE, exit code 3
//   LOCKSTEP_COORDINATION=off mpirun -n 4 divergence   collectives pair with the wrong partner: a
//                                                      wrong sum, then stuck; the watchdog ends it,
//                                                      exit code 4
//   mpirun -n 4 divergence --group-any                 the group decides the branch: all ranks take
//                                                      the same side, and the job goes on
#include <cstdio>
#include <cstring>
#include <vector>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;

struct Input {
  Tensor x;  // [rows, 8]
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};

struct Output {
  Tensor total;
  template <class V>
  void fields(V& v) {
    v("total", total);
  }
};

int main(int argc, char** argv) {
  const bool ask_group = argc > 1 && std::strcmp(argv[1], "--group-any") == 0;
  if (argc > 1 && !ask_group) {
    std::fprintf(stderr, "divergence: unknown argument %s; it takes --group-any or nothing.\n",
                 argv[1]);
    return 2;
  }
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());

  auto step = (*job)->frame<Input, Output>("step", [&](Input in) {
    Tensor y = in.x * in.x;
    const SymBool large = in.x.size(0) > 4;
    if (ask_group ? group_any(large) : static_cast<bool>(large))
      y = y - all_reduce(amax(y));  // on some ranks only, unless the group decides
    return Output{all_reduce(sum(y))};
  });

  for (int call = 0; call < 3; ++call) {
    const std::int64_t rows = 3 + (*job)->rank();
    const std::vector<double> ones(static_cast<std::size_t>(rows * 8), 1.0);
    const auto out = step(Input{Array::of(lockstep::DType::F64, {rows, 8}, ones)});
    if (!out) return (*job)->fail(out.error());
    if ((*job)->rank() == 0) std::printf("call %d: total %g\n", call, out->total.array().at(0));
  }
  const auto ended = (*job)->finish();
  return ended ? 0 : (*job)->fail(ended.error());
}
