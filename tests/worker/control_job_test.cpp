// Branches and loops on real ranks: who goes which way where bodies hold collectives, and that
// ranks whose ways are their own still run one graph.
#include <deque>

#include "job_ranks.h"
#include <fmt/format.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/control_flow.h>
#include <lockstep/worker/tensor/language/collective_ops.h>

namespace lockstep::worker::control_job_test {
namespace {

using collectives::Reduce;
using Several = std::vector<Tensor>;

class ControlJob : public JobRanks {
 protected:
  CompiledFrame<X, Y>& frame(const std::function<Y(X)>& body, const FrameOptions& options = {}) {
    steps.push_back(job->frame<X, Y>("step" + std::to_string(steps.size()), options, body));
    return steps.back();
  }
  [[nodiscard]] double sum_of_ranks() const { return size * (size + 1) / 2.0; }
  static void expect_all(const Result<Y>& out, double want) {
    ASSERT_TRUE(out) << out.error().text();
    const Array y = out->y.array();
    for (std::int64_t i = 0; i < y.elements(); ++i) EXPECT_EQ(y.at(i), want) << "element " << i;
  }
  /// One error for all, that names the ranks and both lines.
  void expect_ways_differ(const Result<Y>& out, const std::string& what) const {
    ASSERT_FALSE(out.has_value()) << "ranks went different ways";
    const Status& error = out.error();
    EXPECT_EQ(error.code, Code::ConstraintViolation) << error.text();
    for (const std::string& part :
         {what + " at control_job_test.cpp:", std::string("all_reduce at control_job_test.cpp:"),
          last_text(), std::string("rank 0")})
      EXPECT_TRUE(contains(error.text(), part)) << part << " is not in " << error.text();
    expect_joint(error);
  }
  std::deque<CompiledFrame<X, Y>> steps;
};

/// The sum over all ranks where x sums to more than 10, else x.
Several summed_if(const Tensor& way, const Tensor& x) {
  return cond(
      way, [](const Several& in) { return Several{all_reduce(in[0])}; },
      [](const Several& in) { return in; }, {x});
}

TEST_F(ControlJob, ACollectiveInABranch_WhoseWayIsProvenToBeCommon) {
  auto& step = frame([](X in) {
    const Tensor most = all_reduce(sum(in.x), Reduce::Max);
    return Y{summed_if(most > 10.0, in.x)[0]};
  });
  for (const std::int64_t rows : {3, 5, 0, 1, 2}) {
    expect_all(step({filled({rows, 2}, 1 + rank)}),
               rows * 2 * size > 10 ? sum_of_ranks() : 1 + rank);
  }
  EXPECT_TRUE(finish());
}

TEST_F(ControlJob, AWayThatIsTheSame_ButNotProven) {
  auto& step = frame([](X in) { return Y{summed_if(sum(in.x) > 10.0, in.x)[0]}; });
  for (int k = 0; k < 3; ++k) {
    expect_all(step({filled({3, 2}, 9)}), 9.0 * size);
    expect_all(step({filled({3, 2}, 1)}), 1);
  }
  EXPECT_TRUE(finish());
}

TEST_F(ControlJob, WaysThatDiffer_BeforeACollective_AreOneError) {
  if (size < 2) return;
  auto& step = frame([](X in) { return Y{summed_if(sum(in.x) > 10.0, in.x)[0]}; });
  expect_all(step({filled({3, 2}, 9)}), 9.0 * size);
  expect_ways_differ(step({filled({3, 2}, last ? 9 : 1)}), "cond");
  expect_all(step({filled({3, 2}, 9)}), 9.0 * size);
  EXPECT_TRUE(finish());
}

TEST_F(ControlJob, AWayOfEachRanksOwn_IsOneGraph) {
  auto& step = frame([](X in) {
    const Several y = cond(
        sum(in.x) > 10.0, [](const Several& x) { return Several{x[0] * x[0]}; },
        [](const Several& x) { return Several{x[0] * 5.0}; }, {in.x});
    return Y{all_reduce(y[0]) + grad(sum(y[0]), {in.x})[0]};
  });
  const double mine = last ? 9 : 1;
  for (int k = 0; k < 2; ++k)
    expect_all(step({filled({3, 2}, mine)}), 81 + 5.0 * (size - 1) + (last ? 18 : 5));
  EXPECT_TRUE(finish()) << "graphs differ";
}

TEST_F(ControlJob, TripsOfEachRanksOwn) {
  auto& step = frame([](X in) {
    return Y{
        all_reduce(while_loop([](const Several& c) { return sum(c[0]) < 100.0; },
                              [](const Several& c) { return Several{c[0] * 2.0}; }, {in.x})[0])};
  });
  double total = 0;
  for (int r = 0; r < size; ++r) {
    double x = 1 + r;
    while (x * 2 < 100) x *= 2;
    total += x;
  }
  expect_all(step({filled({2}, 1 + rank)}), total);
  EXPECT_TRUE(finish());
}

TEST_F(ControlJob, ALoopWithACollective_GoesOnTogether) {
  auto& step = frame([](X in) {
    return Y{while_loop([](const Several& c) { return sum(c[0]) < 100.0; },
                        [](const Several& c) { return Several{all_reduce(c[0]) * 2.0}; },
                        {in.x})[0]};
  });
  double x = 1;
  while (x * 2 < 100) x *= 2 * size;
  expect_all(step({filled({2}, 1)}), x);
  if (size > 1) expect_ways_differ(step({filled({2}, last ? 1000 : 1)}), "while_loop");
  expect_all(step({filled({2}, 1)}), x);
  EXPECT_TRUE(finish());
}

TEST_F(ControlJob, AScanWithACollective_NeedsAsManyRowsOnAllRanks) {
  auto& step = frame([](X in) {
    return Y{scan(
                 [](const Several& c, const Several& row) {
                   return Scanned{{c[0] + all_reduce(row[0])}, {}};
                 },
                 {sum(in.x, {0}) * 0.0}, {in.x})
                 .carry[0]};
  });
  for (const std::int64_t rows : {3, 5, 0, 1, 2})
    expect_all(step({filled({rows, 2}, 1 + rank)}), rows * sum_of_ranks());
  if (size > 1) {
    const Result<Y> out = step({filled({last ? 4 : 3, 2}, 1)});
    ASSERT_FALSE(out.has_value());
    EXPECT_EQ(out.error().code, Code::ConstraintViolation) << out.error().text();
    EXPECT_TRUE(contains(out.error().text(), "x.size(0)")) << out.error().text();
    EXPECT_TRUE(contains(out.error().text(), "control_job_test.cpp:")) << out.error().text();
    expect_joint(out.error());
  }
  EXPECT_TRUE(finish());
}

/// x, and indices of its rows.
struct Picked {
  Tensor at, x;
  template <class V>
  void fields(V& v) {
    v("at", at), v("x", x);
  }
};

TEST_F(ControlJob, AFailureInABody_IsOneErrorForAll) {
  for (const bool together : {false, true}) {
    auto step = job->frame<Picked, Y>(together ? "together" : "apart", {}, [=](Picked in) {
      const Several rows = cond(
          all_reduce(sum(in.at)) > -100,
          [=](const Several& x) {
            const Tensor row = index_select(x[0], 0, x[1]);
            return Several{together ? all_reduce(row) : row};
          },
          [](const Several& x) { return Several{x[0]}; }, {in.x, in.at});
      return Y{all_reduce(sum(rows[0]))};
    });
    const auto call = [&](std::int64_t at) { return step({integers({0, at}), filled({2, 2}, 1)}); };
    expect_all(call(1), 4.0 * size * (together ? size : 1));
    const Result<Y> out = call(last ? 7 : 1);
    ASSERT_FALSE(out.has_value());
    EXPECT_EQ(out.error().code, Code::RuntimeAssert) << out.error().text();
    for (const std::string& part :
         {std::string("index_select"), std::string("control_job_test.cpp:"), std::string("7"),
          last_text()})
      EXPECT_TRUE(contains(out.error().text(), part)) << part << ": " << out.error().text();
    expect_joint(out.error());
    expect_all(call(1), 4.0 * size * (together ? size : 1));
  }
  EXPECT_TRUE(finish());
}

TEST_F(ControlJob, RanksWithDifferentBodies_AreToldBeforeAnythingRuns) {
  if (size < 2) return;
  auto& step = frame([this](X in) {
    const double factor = last ? 3 : 2;
    return Y{cond(
        sum(in.x) > 0.0, [=](const Several& x) { return Several{x[0] * factor}; },
        [](const Several& x) { return x; }, {in.x})[0]};
  });
  const Result<Y> out = step({filled({2}, 1)});
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code, Code::GraphDivergence) << out.error().text();
  EXPECT_TRUE(contains(out.error().text(), "control_job_test.cpp:")) << out.error().text();
  expect_joint(out.error());
}

TEST_F(ControlJob, ACallWithACollective_AndItsGradient) {
  auto& step = frame([](X in) {
    const TracedFunction f =
        allow_in_graph([](const Several& x) { return Several{all_reduce(x[0] * x[0]) * 0.5}; });
    const Tensor y = f({in.x})[0];
    // Each rank's x is in the sum of every rank.
    return Y{y + grad(sum(y), {in.x})[0]};
  });
  double squares = 0;
  for (int r = 0; r < size; ++r) squares += (1 + r) * (1 + r);
  for (int k = 0; k < 2; ++k)
    expect_all(step({filled({3, 2}, 1 + rank)}), squares / 2 + size * (1.0 + rank));
  if (size > 1) {
    const Result<Y> out = step({filled({last ? 4 : 3, 2}, 1)});
    ASSERT_FALSE(out.has_value());
    EXPECT_EQ(out.error().code, Code::ConstraintViolation) << out.error().text();
    EXPECT_TRUE(contains(out.error().text(), "control_job_test.cpp:")) << out.error().text();
    expect_joint(out.error());
  }
  EXPECT_TRUE(finish());
}

TEST_F(ControlJob, AnIndexOutOfRangeInACall_IsOneErrorForAll) {
  for (const bool together : {false, true}) {
    auto step = job->frame<Picked, Y>(together ? "together" : "apart", {}, [=](Picked in) {
      const TracedFunction row = allow_in_graph([=](const Several& x) {
        const Tensor found = index_select(x[0], 0, x[1]);
        return Several{together ? all_reduce(found) : found};
      });
      return Y{all_reduce(sum(row({in.x, in.at})[0]))};
    });
    const auto call = [&](std::int64_t at) { return step({integers({0, at}), filled({2, 2}, 1)}); };
    expect_all(call(1), 4.0 * size * (together ? size : 1));
    const Result<Y> out = call(last ? 7 : 1);
    ASSERT_FALSE(out.has_value());
    EXPECT_EQ(out.error().code, Code::RuntimeAssert) << out.error().text();
    for (const std::string& part :
         {std::string("index_select"), std::string("control_job_test.cpp:"), std::string("7"),
          last_text()})
      EXPECT_TRUE(contains(out.error().text(), part)) << part << ": " << out.error().text();
    expect_joint(out.error());
    expect_all(call(1), 4.0 * size * (together ? size : 1));
  }
  EXPECT_TRUE(finish());
}

/// Of so many rows that two halves are all of them: what the shape rule says, and no prover knows.
TEST_F(ControlJob, AShapeRuleThatFailsOnOneRank_IsOneErrorForAll) {
  auto& step = frame([](X in) {
    const TracedFunction halves = allow_in_graph(
        [](const Several& x) {
          const SymInt half = x[0].size(0) / 2;
          return Several{cat({slice(x[0], 0, 0, half), slice(x[0], 0, half, half)}, 0)};
        },
        [](auto inputs) { return std::vector{inputs[0]}; });
    return Y{all_reduce(sum(halves({in.x})[0]))};
  });
  expect_all(step({filled({4}, 1)}), 4.0 * size);
  expect_all(step({filled({6 + 2 * rank}, 1)}), 6.0 * size + size * (size - 1));
  const Result<Y> out = step({filled({last ? 7 : 6}, 1)});
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code, Code::RuntimeAssert) << out.error().text();
  for (const std::string& part :
       {std::string("allow_in_graph: result 0 is f64["), std::string("the shape rule says f64["),
        std::string("control_job_test.cpp:"), last_text()})
    EXPECT_TRUE(contains(out.error().text(), part)) << part << ": " << out.error().text();
  expect_joint(out.error());
  expect_all(step({filled({8}, 1)}), 8.0 * size);
  EXPECT_TRUE(finish());
}

TEST_F(ControlJob, CallsOfDifferentBodies_AreToldBeforeAnythingRuns) {
  if (size < 2) return;
  auto& step = frame([this](X in) {
    const double factor = last ? 3 : 2;
    return Y{all_reduce(
        allow_in_graph([=](const Several& x) { return Several{x[0] * factor}; })({in.x})[0])};
  });
  const Result<Y> out = step({filled({2}, 1)});
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code, Code::GraphDivergence) << out.error().text();
  EXPECT_TRUE(contains(out.error().text(), "control_job_test.cpp:")) << out.error().text();
  EXPECT_TRUE(contains(out.error().text(), "call")) << out.error().text();
  expect_joint(out.error());
}

TEST_F(ControlJob, GraphsThatMayDiffer_StillGoTogether) {
  auto& step = frame(
      [this](X in) {
        // The last rank computes something else in its branch.
        return Y{cond(
            sum(in.x) > 10.0,
            [&](const Several& x) { return Several{all_reduce(last ? x[0] * 2.0 : x[0])}; },
            [](const Several& x) { return x; }, {in.x})[0]};
      },
      {.consistency = Consistency::SameCollectives});
  expect_all(step({filled({3, 2}, 9)}), 9.0 * (size + 1));
  expect_all(step({filled({3, 2}, 1)}), 1);
  if (size > 1) expect_ways_differ(step({filled({3, 2}, last ? 9 : 1)}), "cond");
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::control_job_test
