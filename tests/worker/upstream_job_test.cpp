// The rows of upstream's multi-rank tests that are about compiling and running, on real ranks:
// upstream_test.cpp has those about decisions.
#include <array>
#include <filesystem>

#include "compiler_ranks.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>

namespace lockstep::worker::upstream_job_test {
namespace {

class UpstreamJob : public CompilerRanks {
 protected:
  /// One call that compiles on all ranks, and one that does not.
  void expect_one_joint_compile() {
    auto step =
        job->frame<X, Y>("step", [](X in) { return Y{all_reduce(sum(in.x * in.x + 1.0))}; });
    for (int call = 0; call < 2; ++call) {
      const auto out = step({filled({3 + rank, 2}, 2)});
      ASSERT_TRUE(out) << out.error().text();
      EXPECT_EQ(step.last_compiled(), call == 0);
      EXPECT_EQ(only(out->y), 5.0 * 2 * (3 * size + size * (size - 1) / 2));
    }
    EXPECT_TRUE(finish());  // compares the compile counts and what ran
  }
};

// The batches are those of vector 7 of symbolic shapes: dim 0 is dynamic from the first compile.
using UpstreamRow01 = UpstreamJob;
TEST_F(UpstreamRow01, AutomaticDynamicTensor_LinearLayerOfChangingBatch_CompilesOnce) {
  auto step = job->frame<X, Y>("linear", [](X in) {
    const Tensor w = iota({in.x.size(1), 2}, 0);
    return Y{all_reduce(sum(matmul(in.x, cast(w, DType::F64))))};
  });
  const std::int64_t batches[2][3] = {{5, 8, 6}, {6, 6, 3}};
  for (int call = 0; call < 3; ++call) {
    const auto out = step({filled({batches[rank > 0][call], 10}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(step.last_compiled(), call == 0);
    const std::int64_t rows = batches[0][call] + (size - 1) * batches[1][call];
    EXPECT_EQ(only(out->y), 90.0 * static_cast<double>(rows));  // 0 + 1 + … + 9, twice
  }
  EXPECT_TRUE(finish());
}

using UpstreamRow04 = UpstreamJob;
TEST_F(UpstreamRow04, FrameWithoutOperations_BetweenTwoOthers_PairsWithItself) {
  auto before = job->frame<X, Y>("before", [](X in) { return Y{all_reduce(sum(in.x))}; });
  auto nothing = job->frame<X, Y>("nothing", [](X in) { return Y{in.x}; });
  auto after = job->frame<X, Y>("after", [](X in) { return Y{all_reduce(sum(in.x * 2.0))}; });
  const std::int64_t sizes[2][3] = {{5, 5, 6}, {3, 4, 5}};
  for (int call = 0; call < 3; ++call) {
    const X in{filled({sizes[rank > 0][call]}, 1)};
    const auto all = static_cast<double>(sizes[0][call] + (size - 1) * sizes[1][call]);
    const auto a = before(in), b = nothing(in), c = after(in);
    ASSERT_TRUE(a && b && c);
    EXPECT_EQ(only(a->y), all);
    EXPECT_EQ(b->y.array().sizes(), in.x.array().sizes());
    EXPECT_EQ(only(c->y), 2 * all);
    EXPECT_EQ(nothing.last_compiled(), call == 0);
  }
  EXPECT_TRUE(finish());
}

// Upstream shares out the tuning of kernels; here what is shared out is their compilation.
using UpstreamRow10 = UpstreamJob;
TEST_F(UpstreamRow10, MultiprocAutotune_EachUnitIsBuiltByOneRankAndRunByAll) {
  start_with_compiler(folder / "cache", std::chrono::seconds(60), 0);
  auto step = job->frame<X, Y>("products", [](X in) {
    Tensor y = sum(matmul(in.x, cast(iota({in.x.size(1), 32}, 0), DType::F64)));
    // Kernels of many shapes, so that there is more than one unit.
    for (std::int64_t n = 2; n < 40; ++n)
      y = y + sum(exp(cast(iota({in.x.size(1), n}, 1), DType::F64) * 0.0) * static_cast<double>(n));
    return Y{all_reduce(y)};
  });
  const auto out = step({filled({8, 16}, 1)});
  ASSERT_TRUE(out) << out.error().text();
  double expected = 8.0 * 32 * 120;
  for (std::int64_t n = 2; n < 40; ++n) expected += static_cast<double>(16 * n * n);
  EXPECT_EQ(only(out->y), expected * size);
  EXPECT_TRUE(step.last_compiled());
  const std::vector<int> who = built();
  EXPECT_FALSE(who.empty());
  EXPECT_EQ(static_cast<int>(who.size()), files_in(folder / "cache"));
  EXPECT_TRUE(finish());
}

using UpstreamRow11 = UpstreamJob;
TEST_F(UpstreamRow11, AsymmetricCompilation_FiveSecondsBeforeADeadlineOfThree_IsNoAlarm) {
  be_slow();
  start_with_compiler(folder / "cache", std::chrono::seconds(3), 5);
  expect_one_joint_compile();
  EXPECT_FALSE(built().empty());
}

using UpstreamRow12 = UpstreamJob;
TEST_F(UpstreamRow12, AsymmetricCompilationWithCache_OneRankMisses_TheOthersHit_IsNoAlarm) {
  start_with_compiler(folder / "cache", std::chrono::seconds(2), 4);
  expect_one_joint_compile();
  const std::size_t first = built().size();
  EXPECT_EQ(static_cast<int>(first), files_in(folder / "cache"));
  be_slow();
  // Every rank has a cache of its own now: rank 0 an empty one, the others a full one.
  const std::string own = folder / ("cache" + std::to_string(rank));
  if (rank > 0) {
    std::filesystem::copy(folder / "cache", own);
    std::filesystem::permissions(own, std::filesystem::perms::owner_all);
  }
  start_with_compiler(own, std::chrono::seconds(2), 4);
  expect_one_joint_compile();
  const std::vector<int> who = built();
  for (std::size_t i = first; i < who.size(); ++i) EXPECT_EQ(who[i], 0) << "a rank that hit";
}

struct Regression {
  Tensor x, y, w;
  template <class V>
  void fields(V& v) {
    v("x", x), v("y", y), v("w", w);
  }
};

struct Trained {
  Tensor w, loss;
  template <class V>
  void fields(V& v) {
    v("w", w), v("loss", loss);
  }
};

constexpr std::int64_t kFeatures = 3;

/// Row `row` of rank `rank` at `step`: any numbers that differ.
double feature(int rank, int step, std::int64_t row, std::int64_t i) {
  return static_cast<double>((rank * 7 + step * 5 + row * 3 + i * 11) % 13) / 13.0;
}
std::int64_t rows_of(int rank, int step) { return (rank * 2 + step * 3) % 5; }  // 0 and 1 too

// Upstream: that training under FSDP gives the eager results.
using UpstreamRow13 = UpstreamJob;
TEST_F(UpstreamRow13, Training_EqualsTheReferenceOnOneProcess_StepByStep) {
  auto step = job->frame<Regression, Trained>("train", [](Regression in) {
    const Tensor error = matmul(in.x, in.w) - in.y;
    const Tensor mine = sum(error * error);
    const Tensor gradient = grad(mine, {in.w})[0];
    return Trained{in.w - all_reduce(gradient) * 0.01, all_reduce(mine)};
  });
  const auto row_of = [](int r, int s, std::int64_t row) {
    std::array<double, kFeatures> x{};
    for (std::int64_t i = 0; i < kFeatures; ++i)
      x[static_cast<std::size_t>(i)] = feature(r, s, row, i);
    return x;
  };
  std::array<double, kFeatures> reference{0.5, -0.25, 0.125};
  Array weights(DType::F64, {kFeatures, 1});
  for (std::int64_t i = 0; i < kFeatures; ++i)
    weights.set(i, reference[static_cast<std::size_t>(i)]);
  Tensor w = weights;
  int compiles = 0;
  for (int s = 0; s < 12; ++s) {
    Array x(DType::F64, {rows_of(rank, s), kFeatures}), y(DType::F64, {rows_of(rank, s), 1});
    for (std::int64_t row = 0; row < rows_of(rank, s); ++row) {
      for (std::int64_t i = 0; i < kFeatures; ++i)
        x.set(row * kFeatures + i, feature(rank, s, row, i));
      y.set(row, feature(rank, s, row, 99));
    }
    const auto out = step({x, y, w});
    ASSERT_TRUE(out) << out.error().text();
    compiles += step.last_compiled();
    std::array<double, kFeatures> gradient{};
    double loss = 0;
    for (int r = 0; r < size; ++r)
      for (std::int64_t row = 0; row < rows_of(r, s); ++row) {
        const auto xs = row_of(r, s, row);
        double error = -feature(r, s, row, 99);
        for (std::size_t i = 0; i < kFeatures; ++i) error += xs[i] * reference[i];
        loss += error * error;
        for (std::size_t i = 0; i < kFeatures; ++i) gradient[i] += 2 * error * xs[i];
      }
    EXPECT_NEAR(only(out->loss), loss, 1e-12 * (1 + loss)) << "step " << s;
    w = out->w;
    for (std::size_t i = 0; i < kFeatures; ++i) {
      reference[i] -= 0.01 * gradient[i];
      EXPECT_NEAR(w.array().at(static_cast<std::int64_t>(i)), reference[i], 1e-12) << "step " << s;
    }
  }
  EXPECT_LE(compiles, 2);
  EXPECT_TRUE(finish());
}

using UpstreamMissing = UpstreamJob;
TEST_F(UpstreamMissing, DifferentNumbersOfCalls_AreAnErrorAtTheFirstThatLacksItsPeer) {
  auto step = job->frame<X, Y>("step", [](X in) { return Y{all_reduce(sum(in.x))}; });
  const X in{filled({3}, 1)};
  ASSERT_TRUE(step(in));
  // The last rank has one call fewer than the others and goes on to what comes after.
  const Result<void> mine = last ? job->settle() : [&]() -> Result<void> {
    const auto out = step(in);
    return out ? Result<void>() : out.error();
  }();
  ASSERT_FALSE(mine);
  EXPECT_EQ(mine.error().code, Code::FrameMismatch);
  EXPECT_TRUE(contains(mine.error().text(), "step")) << mine.error().text();
  EXPECT_TRUE(contains(mine.error().text(), last_text() + ": settle")) << mine.error().text();
  expect_joint(mine.error());
  const auto out = step(in);
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->y), 3 * size);
  EXPECT_TRUE(finish());
}

// Of three ranks the last is in no pair: upstream's exchange over the world would wait for it.
TEST_F(UpstreamMissing, SubGroup_CompilesForItselfWhileOthersDoNotCall) {
  const bool member = rank < 2;
  const auto pair = job->group("pair", member ? RankSet::range({0}, {1}) : RankSet{});
  ASSERT_TRUE(pair) << pair.error().text();
  auto part =
      job->frame<X, Y>("part", {.group = *pair}, [](X in) { return Y{all_reduce(sum(in.x))}; });
  auto whole = job->frame<X, Y>("whole", [](X in) { return Y{all_reduce(sum(in.x))}; });
  for (int call = 0; member && call < 3; ++call) {
    const auto out = part({filled({4 + rank + call}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 4 + 5 + 2 * call);
    EXPECT_EQ(part.last_compiled(), call == 0);
  }
  const auto out = whole({filled({2}, 1)});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->y), 2 * size);
  EXPECT_TRUE(finish());
}

TEST_F(UpstreamMissing, LimitOnOneRank_IsRefusedAtTheStart) {
  const DecisionConfig limited{.recompile_limit = last ? 3 : 8};
  const auto made = Job::attach(MPI_COMM_WORLD, {.decision = limited, .settings = quiet()});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::ConfigMismatch);
  EXPECT_EQ(made.error().source, "recompile_limit");
  ASSERT_EQ(made.error().groups.size(), 2U);
  EXPECT_EQ(made.error().groups[1], (RankValue{RankSet::of({size - 1}), "3"}));
  expect_joint(made.error());
}

}  // namespace
}  // namespace lockstep::worker::upstream_job_test
