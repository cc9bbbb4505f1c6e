// Failure modes of distributed training as they were reported elsewhere, by the numbers of the list
// in agreement/README.md: those that take real ranks with data collectives.
#include <string>
#include <vector>

#include "compiler_ranks.h"

namespace {
int reductions = 0;  // that reached MPI
}

// Sums of few floats are gathered.
extern "C" int MPI_Allgather(const void* send, int sends, MPI_Datatype sent, void* receive,
                             int receives, MPI_Datatype received, MPI_Comm comm) {
  ++reductions;
  return PMPI_Allgather(send, sends, sent, receive, receives, received, comm);
}

namespace lockstep::worker::failure_mode_job_test {
namespace {

class FailureModeJob : public CompilerRanks {
 protected:
  /// The call fails alike on all ranks, with the last rank apart from the others, and before any
  /// data collective was entered.
  template <class Frame>
  Status expect_told_apart(Frame& step, const X& in, Code code) {
    const int before = reductions;
    const auto out = step(in);
    EXPECT_EQ(reductions, before) << "a data collective ran before the error";
    if (out) {
      ADD_FAILURE() << "went well";
      return {};
    }
    const Status error = out.error();
    EXPECT_EQ(error.code, code) << error.text();
    EXPECT_EQ(error.groups.size(), 2U) << error.text();
    if (error.groups.empty()) return error;
    EXPECT_EQ(error.groups.back().ranks, RankSet::of({size - 1})) << error.text();
    expect_joint(error);
    return error;
  }
};

using FailureMode01 = FailureModeJob;
TEST_F(FailureMode01, RanksThatTraceOtherPrograms_AreNamedWithTheLine) {
  int line = 0;
  auto step = job->frame<X, Y>("step", [&](X in) {
    line = __LINE__ + 1;
    const Tensor y = last ? sqrt(in.x) : exp(in.x);
    return Y{all_reduce(sum(y))};
  });
  const Status error = expect_told_apart(step, {filled({4}, 1)}, Code::GraphDivergence);
  EXPECT_TRUE(contains(error.text(), "failure_mode_job_test.cpp:" + std::to_string(line)))
      << error.text();
  EXPECT_TRUE(contains(error.text(), "sqrt") && contains(error.text(), "exp")) << error.text();
}

using FailureMode07 = FailureModeJob;
TEST_F(FailureMode07, OtherNumbersInTheSameProgram_AreFoundBeforeTheFirstCollective) {
  bool differs = true;
  auto step = job->frame<X, Y>(
      "step", [&](X in) { return Y{all_reduce(sum(in.x * (differs && last ? 3.0 : 2.0)))}; });
  expect_told_apart(step, {filled({4}, 1)}, Code::GraphDivergence);
  differs = false;
  const int before = reductions;
  const auto out = step({filled({4}, 1)});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(reductions, before + 1);
  EXPECT_EQ(only(out->y), 8 * size);
}

using FailureMode08 = FailureModeJob;
TEST_F(FailureMode08, CollectivesInAnotherOrder_AreFoundUnderEitherConsistency) {
  for (const Consistency consistency : {Consistency::SameGraph, Consistency::SameCollectives}) {
    start({.consistency = consistency});
    auto step = job->frame<X, Y>("step", [this](X in) {
      if (!last) {
        const Tensor total = all_reduce(sum(in.x));
        return Y{total + sum(all_gather(in.x))};
      }
      const Tensor gathered = sum(all_gather(in.x));
      return Y{all_reduce(sum(in.x)) + gathered};
    });
    expect_told_apart(step, {filled({4}, 1)}, Code::GraphDivergence);
  }
}

using FailureMode10 = FailureModeJob;
TEST_F(FailureMode10, RankWithoutWork_CallsWithAnEmptyBatchAndStaysInStep) {
  auto step = job->frame<X, Y>("step", [](X in) { return Y{all_reduce(sum(in.x))}; });
  int compiles = 0;
  for (int call = 0; call < 6; ++call) {
    const bool idle = last && call % 2 == 1;
    const auto out = step({filled({idle ? 0 : 3, 2}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 6.0 * (call % 2 == 1 ? size - 1 : size));
    compiles += step.last_compiled();
  }
  EXPECT_LE(compiles, 2);
  EXPECT_TRUE(finish());
}

using FailureMode20 = FailureModeJob;
TEST_F(FailureMode20, CollectiveThatOneRankAloneHas_IsNamedWithItsLine) {
  int line = 0;
  auto step = job->frame<X, Y>("step", [&](X in) {
    Tensor y = sum(in.x);
    line = __LINE__ + 1;
    if (last) y = all_reduce(y);
    return Y{all_reduce(y * 2.0)};
  });
  const Status error = expect_told_apart(step, {filled({4}, 1)}, Code::GraphDivergence);
  EXPECT_TRUE(contains(error.text(), "failure_mode_job_test.cpp:" + std::to_string(line)))
      << error.text();
}

using FailureMode24 = FailureModeJob;
TEST_F(FailureMode24, Artifacts_ServeAnyRankOfAnyGroup) {
  start_with_compiler(folder / "cache", std::chrono::seconds(60), 0);
  const auto body = [](X in) { return Y{sum(in.x * in.x + 3.0)}; };
  auto step = job->frame<X, Y>("step", body);
  ASSERT_TRUE(step({filled({4}, 1)}));
  EXPECT_TRUE(finish());
  const std::size_t before = built().size();
  EXPECT_GT(before, 0U);
  // The same in groups of other sizes, where ranks have other numbers.
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, last, -rank, &part);
  Settings settings = quiet();
  settings.cache_dir = folder / "cache";
  settings.compiler = folder / "compiler";
  {
    auto made = Job::attach(part, {.settings = settings, .summary = false});
    ASSERT_TRUE(made) << made.error().text();
    auto again = (*made)->frame<X, Y>("step", body);
    const auto out = again({filled({4}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 16);
    EXPECT_TRUE((*made)->finish());
  }
  MPI_Comm_free(&part);
  EXPECT_EQ(built().size(), before);
}

}  // namespace
}  // namespace lockstep::worker::failure_mode_job_test
