// Branches on floats and on integers in 0-d tensors, and floats and ints as constants, on real
// ranks.
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "job_ranks.h"
#include <unistd.h>

#include <lockstep/worker/simulator/answers/replay.h>

namespace lockstep::worker::host_value_job_test {
namespace {

struct Scaled {
  Tensor x;
  SymFloat lr;
  template <class V>
  void fields(V& v) {
    v("x", x), v("lr", lr);
  }
};

struct Counted {
  Tensor n, x;
  template <class V>
  void fields(V& v) {
    v("n", n), v("x", x);
  }
};

struct Repeated {
  Tensor x;
  SymInt times;
  template <class V>
  void fields(V& v) {
    v("x", x), v("times", times);
  }
};

Tensor zero_dim(std::int64_t value) {
  Array array(DType::I64, {});
  *array.data_as<std::int64_t>() = value;
  return array;
}

class HostValueJob : public JobRanks {
 protected:
  static Y halved_above(const Scaled& in) {
    if (in.lr > 0.5) return Y{all_reduce(sum(in.x)) * (in.lr * 0.5)};
    return Y{all_reduce(sum(in.x)) * in.lr};
  }
  [[nodiscard]] Scaled batch(double lr) const { return {filled({4}, 1.0), lr}; }
  [[nodiscard]] double sum_of_ones() const { return 4.0 * size; }
};

TEST_F(HostValueJob, BranchOnAFloat_GoesItsWayOnAllRanks_AndIsReusedOnItsSide) {
  auto step = job->frame<Scaled, Y>("step", halved_above);
  const std::vector<std::pair<double, const char*>> calls{
      {0.75, "compiled"}, {0.9, "reused"}, {0.25, "compiled"}, {0.5, "reused"}, {4.0, "reused"}};
  for (const auto& [lr, how] : calls) {
    const auto out = step(batch(lr));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), sum_of_ones() * (lr > 0.5 ? lr * 0.5 : lr)) << lr;
    EXPECT_TRUE(contains(step.last_call(), how)) << lr << ": " << step.last_call();
  }
  EXPECT_TRUE(finish());
}

TEST_F(HostValueJob, RanksOnTwoSides_AreABranchDivergence_AndTheNextCallWorks) {
  if (size == 1) return;
  auto step = job->frame<Scaled, Y>("step", halved_above);
  const auto out = step(batch(last ? 0.25 : 0.75));
  ASSERT_FALSE(out);
  expect_joint(out.error());
  EXPECT_EQ(out.error().code, Code::BranchDivergence);
  for (const std::string& part :
       {std::string("host_value_job_test.cpp:"), std::string("(lr > 0.5)"), last_text()})
    EXPECT_TRUE(contains(out.error().text(), part)) << part << " in: " << out.error().text();
  ASSERT_TRUE(step(batch(0.75)));
  // Found by the look-up too, where there is an entry.
  const auto again = step(batch(last ? 0.25 : 0.75));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::BranchDivergence);
  EXPECT_TRUE(finish());
}

TEST_F(HostValueJob, RankThatThrowsWhereOthersAskForAFloat_IsTheErrorOfAll) {
  bool throws = true;
  auto step = job->frame<Scaled, Y>("step", [&](const Scaled& in) {
    if (throws && last) throw std::runtime_error("no more data");
    return halved_above(in);
  });
  const auto out = step(batch(0.75));
  ASSERT_FALSE(out);
  expect_joint(out.error());
  EXPECT_EQ(out.error().code, Code::TraceError);
  EXPECT_TRUE(contains(out.error().text(), "no more data") &&
              contains(out.error().text(), last_text()))
      << out.error().text();
  throws = false;
  const auto next = step(batch(0.75));
  ASSERT_TRUE(next) << next.error().text();
  EXPECT_EQ(only(next->y), sum_of_ones() * 0.375);
  EXPECT_TRUE(finish());
}

TEST_F(HostValueJob, RankThatAsksForAFloatAlone_IsAnErrorAtOnce) {
  if (size == 1) return;
  auto step = job->frame<Scaled, Y>(
      "step", [&](const Scaled& in) { return last ? halved_above(in) : Y{all_reduce(sum(in.x))}; });
  const auto out = step(batch(0.75));
  ASSERT_FALSE(out);
  expect_joint(out.error());
}

TEST_F(HostValueJob, IntegerInAnInput_IsASizeOfEachRanksOwn) {
  auto step = job->frame<Counted, Y>("step", [](const Counted& in) {
    const SymInt n = item(in.n);
    if (n < 1) return Y{all_reduce(sum(in.x)) * 0.0};
    return Y{all_reduce(sum(slice(in.x, 0, 0, n)))};
  });
  for (int call = 0; call < 4; ++call) {
    const auto rows = [&](int r) { return 1 + (r + call) % 4; };
    double expected = 0;
    for (int r = 0; r < size; ++r) expected += rows(r);
    const auto out = step(Counted{zero_dim(rows(rank)), filled({5}, 1.0)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), expected);
    EXPECT_TRUE(contains(step.last_call(), call == 0 ? "compiled" : "reused")) << step.last_call();
  }
  // More than there is, on one rank: the slice's check, told to all.
  const auto out = step(Counted{zero_dim(last ? 6 : 1), filled({5}, 1.0)});
  ASSERT_FALSE(out);
  expect_joint(out.error());
  EXPECT_TRUE(contains(out.error().text(), "n.item()")) << out.error().text();
  EXPECT_TRUE(finish());
}

TEST_F(HostValueJob, PrefetchedBranch_IsAPromise) {
  auto step = job->frame<Scaled, Y>("step", halved_above);
  ASSERT_TRUE(step(batch(0.75)));
  step.prefetch(batch(0.75));
  const auto same_side = step(batch(2.0));
  ASSERT_TRUE(same_side) << same_side.error().text();
  EXPECT_EQ(only(same_side->y), sum_of_ones());
  // A promised miss takes the values of the call that is made.
  step.prefetch(batch(0.25));
  const auto fresh = step(batch(0.25));
  ASSERT_TRUE(fresh) << fresh.error().text();
  EXPECT_EQ(only(fresh->y), sum_of_ones() * 0.25);
  EXPECT_TRUE(finish());
}

TEST_F(HostValueJob, PrefetchedBranch_ThatIsBroken_IsSaid) {
  if (size > 1) return;  // it ends a job of several
  auto step = job->frame<Scaled, Y>("step", halved_above);
  ASSERT_TRUE(step(batch(0.75)));
  step.prefetch(batch(0.75));
  const auto out = step(batch(0.25));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::BadInput);
  EXPECT_TRUE(contains(out.error().text(), "(lr > 0.5)")) << out.error().text();
}

TEST_F(HostValueJob, RecordedJob_IsReplayedByteForByte) {
  // All ranks are children of one launcher, so they agree on the name.
  const std::string record =
      testing::TempDir() + "lockstep-host-values-" + std::to_string(getppid());
  Settings settings = quiet();
  settings.record_dir = record;
  start({}, settings);
  auto step = job->frame<Scaled, Y>("step", halved_above);
  auto counted = job->frame<Counted, Y>("counted", [](const Counted& in) {
    if (item(in.n) > 3) return Y{sum(in.x)};
    return Y{sum(in.x) * 2.0};
  });
  for (const double lr : {0.75, 0.25, 0.9, 0.25}) {
    ASSERT_TRUE(step(batch(lr)));
    ASSERT_TRUE(counted(Counted{zero_dim(lr > 0.5 ? 4 : 2), filled({5}, 1.0)}));
  }
  (void)step(batch(last ? 0.25 : 0.75));  // an error, but in a job of one
  ASSERT_TRUE(finish());
  job.reset();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) return;
  const auto ranks = simulator::read_record(record);
  ASSERT_TRUE(ranks) << ranks.error().text();
  const auto again = simulator::replay(*ranks);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_FALSE(again->difference) << again->difference->text();
  EXPECT_EQ(again->result.calls.size(), 9U);
  std::filesystem::remove_all(record);
}

TEST_F(HostValueJob, SpecializedFloat_IsAConstant_AndAnotherValueAnotherEntry) {
  start({.specialize_float = true});
  bool constant = false;
  auto step = job->frame<Scaled, Y>("step", [&](const Scaled& in) {
    constant = !in.lr.traced();
    return Y{all_reduce(sum(in.x)) * in.lr};
  });
  const std::vector<std::pair<double, const char*>> calls{
      {0.75, "compiled"}, {0.75, "reused"}, {0.25, "compiled"}, {0.75, "reused"}};
  for (const auto& [lr, how] : calls) {
    const auto out = step(batch(lr));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), sum_of_ones() * lr);
    EXPECT_TRUE(contains(step.last_call(), how)) << lr << ": " << step.last_call();
  }
  EXPECT_TRUE(constant);
  EXPECT_TRUE(finish());
}

TEST_F(HostValueJob, SpecializedFloatThatDiffersBetweenRanks_IsAnErrorThatSaysSo) {
  if (size == 1) return;
  start({.specialize_float = true});
  auto step = job->frame<Scaled, Y>(
      "step", [](const Scaled& in) { return Y{all_reduce(sum(in.x)) * in.lr}; });
  const auto out = step(batch(last ? 0.25 : 0.75));
  ASSERT_FALSE(out);
  expect_joint(out.error());
  EXPECT_EQ(out.error().code, Code::BranchDivergence);
  EXPECT_TRUE(contains(out.error().text(), "specialize_float") &&
              contains(out.error().text(), "(lr == 0.75)"))
      << out.error().text();
  EXPECT_TRUE(finish());
}

TEST_F(HostValueJob, Ints_BecomeSymbols_UnlessTheyAreSpecialized) {
  for (const bool specialize : {false, true}) {
    start({.specialize_int = specialize});
    auto step = job->frame<Repeated, Y>("step", [](const Repeated& in) {
      return Y{all_reduce(sum(in.x)) * cast(scalar(in.times), DType::F64)};
    });
    const auto call = [&](std::int64_t times) {
      const auto out = step(Repeated{filled({4}, 1.0), times});
      EXPECT_TRUE(out) << out.error().text();
      if (out) {
        EXPECT_EQ(only(out->y), 4.0 * size * static_cast<double>(times));
      }
      return step.last_call();
    };
    EXPECT_TRUE(contains(call(3), "compiled"));
    EXPECT_TRUE(contains(call(5), "compiled"));
    EXPECT_TRUE(contains(call(3), "reused"));
    EXPECT_TRUE(contains(call(7), specialize ? "compiled" : "reused")) << specialize;
    EXPECT_TRUE(finish());
  }
}

TEST_F(HostValueJob, SpecializedIntThatDiffersBetweenRanks_IsASymbolOfThatEntry) {
  if (size == 1) return;
  start({.specialize_int = true});
  auto step = job->frame<Repeated, Y>("step", [](const Repeated& in) {
    return Y{all_reduce(sum(in.x) * cast(scalar(in.times), DType::F64))};
  });
  const auto differing = step(Repeated{filled({4}, 1.0), 1 + rank});
  ASSERT_TRUE(differing) << differing.error().text();
  double expected = 0;
  for (int r = 0; r < size; ++r) expected += 4.0 * (1 + r);
  EXPECT_EQ(only(differing->y), expected);
  // The one with fewest symbols runs; a constant one is made where a call misses only.
  const auto equal = step(Repeated{filled({4}, 1.0), 9});
  ASSERT_TRUE(equal) << equal.error().text();
  EXPECT_EQ(only(equal->y), 36.0 * size);
  EXPECT_TRUE(finish());
}

TEST_F(HostValueJob, OneRankThatSpecializesAndOthersThatDoNot_AreAConfigMismatch) {
  if (size == 1) return;
  job.reset();
  const auto made =
      Job::attach(MPI_COMM_WORLD,
                  {.decision = {.specialize_float = last}, .settings = quiet(), .summary = false});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::ConfigMismatch) << made.error().text();
  EXPECT_TRUE(contains(made.error().text(), "specialize_float")) << made.error().text();
}

}  // namespace
}  // namespace lockstep::worker::host_value_job_test
