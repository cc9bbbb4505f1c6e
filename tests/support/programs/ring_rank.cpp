// Three ranks, and a group for every two of them, for ring_test.cpp. After one call in each group,
// in one order, every rank enters another group than the rank that waits for it. With an argument
// rank 1 leaves instead.
#include <cstdio>
#include <stdexcept>
#include <vector>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::RankSet;
using lockstep::Result;

namespace {

struct Batch {
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};

using Step = CompiledFrame<Batch, Batch>;

Batch batch() {
  const std::vector<double> ones(4, 1.0);
  return {Array::of(lockstep::DType::F64, {4}, ones)};
}

Result<void> run(Job& job, bool leaves) {
  const int rank = job.rank();
  std::vector<Group> groups;
  std::vector<Step> steps;
  for (int first = 0; first < 3; ++first) {
    RankSet pair = RankSet::of({first});
    pair.insert(RankSet::of({(first + 1) % 3}));
    const char* names[] = {"ab", "bc", "ca"};
    auto group = job.group(names[first], pair.contains({rank}) ? pair : RankSet{});
    if (!group) return group.error();
    groups.push_back(*group);
    steps.push_back(job.frame<Batch, Batch>(std::string("step_") + names[first], {.group = *group},
                                            [](Batch in) { return Batch{all_reduce(in.x)}; }));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (groups[i].empty()) continue;
    if (auto out = steps[i](batch()); !out) return out.error();
  }
  if (auto settled = job.settle(); !settled) return settled;
  std::fprintf(stderr, "enters\n");  // on the stream of the report, so that both stay in order
  if (leaves && rank == 1) throw std::runtime_error("the data loader found no file");
  const auto out = steps[static_cast<std::size_t>(rank)](batch());
  return out ? Result<void>{} : Result<void>{out.error()};
}

}  // namespace

int main(int argc, char** argv) {
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  return (*job)->run([&] { return run(**job, argc > 1); });
}
