// Masks whose count nobody needs: what is rewritten is the same as the plain way, waits for
// nothing, and lets nothing through of what was not chosen.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "on_ranks.h"
#include "tracing.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/index_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::mask_rewrite_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// m bool [s0], v f64 [s0], x f64 [s0, 3].
using Body = std::function<void(Trace&, const Tensor& m, const Tensor& v, const Tensor& x)>;

Graph traced(const Body& body, bool plain = false) {
  const DecisionBuilder decision = DecisionBuilder()
                                       .tensor("m", DType::Bool, {dynamic(5, 0)})
                                       .tensor("v", DType::F64, {dynamic(5, 0)})
                                       .tensor("x", DType::F64, {dynamic(5, 0), 3});
  TraceSetup setup = test::setup(decision.get());
  setup.peers_may_differ = plain;
  Result<Graph> graph = trace(
      setup, [&](Trace& t) { body(t, t.tensor_input(0), t.tensor_input(1), t.tensor_input(2)); });
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? *graph : Graph{};
}

std::int64_t waits(const Graph& graph) {
  return std::ranges::count_if(
      graph.nodes, [](const Node& node) { return op_row(node.op).kind == OpClass::HostSync; });
}

Inputs inputs(const std::vector<std::int64_t>& mask, const std::vector<double>& v,
              const std::vector<double>& x) {
  const auto n = static_cast<std::int64_t>(mask.size());
  Array m(DType::Bool, {n});
  for (std::int64_t i = 0; i < n; ++i)
    m.set(i, static_cast<double>(mask[static_cast<std::size_t>(i)]));
  return {{"m", m}, {"v", Array::of(DType::F64, {n}, v)}, {"x", Array::of(DType::F64, {n, 3}, x)}};
}

Inputs random_inputs(std::mt19937_64& random, std::int64_t n) {
  return {{"m", random_array(random, DType::Bool, {n})},
          {"v", random_array(random, DType::F64, {n})},
          {"x", random_array(random, DType::F64, {n, 3})}};
}

/// Without a wait it gives what it gives with one, interpreted and compiled.
void expect_same_without_wait(const Body& body, double bound = 1e-12) {
  const Graph graph = traced(body), plain = traced(body, true);
  ASSERT_EQ(waits(graph), 0) << fmt::to_string(fmt::join(graph.read_backs, "\n")) << graph.text();
  ASSERT_GT(waits(plain), 0);
  const auto executable = compile(graph);
  ASSERT_NE(executable, nullptr);
  std::mt19937_64 random(71);
  for (const std::int64_t n : {0, 1, 2, 5, 13, 70})
    for (int k = 0; k < 4; ++k) {
      const Inputs given = random_inputs(random, n);
      const auto expected = run_interpreted(plain, given);
      ASSERT_TRUE(expected) << expected.error().text();
      const auto got = run_interpreted(graph, given);
      ASSERT_TRUE(got) << got.error().text();
      EXPECT_TRUE(same(*got, *expected, bound)) << graph.text();
      EXPECT_TRUE(agree(*executable, given, bound));
    }
}

TEST(MaskRewrite, Totals_AreThoseOfTheChosen) {
  expect_same_without_wait([](Trace& t, const Tensor& m, const Tensor& v, const Tensor& x) {
    const Tensor rows = x[m], each = v[m];
    t.output("sum", sum(rows));
    t.output("columns", sum(rows * unsqueeze(each, 1), {0}));
    t.output("prod", prod(each));
    t.output("most", amax(rows, {0}));
    t.output("least", amin(each * 2.0));
    t.output("mean", mean(rows));
    t.output("count", scalar(t, each.size(0)));
  });
}

TEST(MaskRewrite, RowsByThemselves_StayRows) {
  expect_same_without_wait([](Trace& t, const Tensor& m, const Tensor&, const Tensor& x) {
    const Tensor rows = x[m];
    const Tensor shares = exp(rows - amax(rows, {1}, Keep::Keep));
    const Tensor soft = shares / sum(shares, {1}, Keep::Keep);
    t.output("entropy", -sum(soft * log(soft)));
    t.output("part", sum(cat({slice(soft, 1, 0, 2), pad(soft, 1, 1, 0)}, 1), {0}));
    t.output("turned", sum(flip(rows, {1}), {0}));
    t.output("wide", sum(reshape(rows, {rows.size(0), 1, 3}), {0}));
  });
}

TEST(MaskRewrite, UpdatesUnderTheMask_AreWhere) {
  expect_same_without_wait(
      [](Trace& t, const Tensor& m, const Tensor& v, const Tensor& x) {
        t.output("put", masked_put(v, m, v[m] * 2.0 + 1.0));
        t.output("rows", index_put(x, {m}, -x[m]));
      },
      0);
}

TEST(MaskRewrite, MaskOfMasked_GoesToo) {
  expect_same_without_wait([](Trace& t, const Tensor& m, const Tensor& v, const Tensor&) {
    const Tensor some = v[m];
    const Tensor fewer = some[some > 0.0];
    t.output("sum", sum(log1p(fewer)));
    t.output("mean", sum(some) / (cast(scalar(t, fewer.size(0)), DType::F64) + 1.0));
  });
}

TEST(MaskRewrite, WhatWasNotChosen_IsSeenByNoValueAndNoGradient) {
  const Graph graph = traced([](Trace& t, const Tensor& m, const Tensor& v, const Tensor&) {
    const Tensor chosen = v[m];
    const Tensor loss = sum(log(chosen) + sqrt(chosen) + 1.0 / chosen);
    t.output("loss", loss);
    t.output("grad", grad(loss, {v})[0]);
  });
  ASSERT_EQ(waits(graph), 0) << fmt::to_string(fmt::join(graph.read_backs, "\n")) << graph.text();
  const auto executable = compile(graph);
  ASSERT_NE(executable, nullptr);
  const std::vector<double> v{4, 0, -1, kNan, 0.25, -INFINITY};
  const Inputs given = inputs({1, 0, 0, 0, 1, 0}, v, std::vector<double>(18, 0.0));
  double loss = 0;
  std::vector<double> gradient(6, 0.0);
  for (const std::size_t i : {0, 4}) {
    loss += std::log(v[i]) + std::sqrt(v[i]) + 1 / v[i];
    gradient[i] = 1 / v[i] + 0.5 / std::sqrt(v[i]) - 1 / (v[i] * v[i]);
  }
  const auto got = run_interpreted(graph, given);
  ASSERT_TRUE(got) << got.error().text();
  EXPECT_TRUE(same(
      *got,
      {Array::of(DType::F64, {}, std::vector<double>{loss}), Array::of(DType::F64, {6}, gradient)},
      1e-12));
  EXPECT_TRUE(agree(*executable, given, 1e-12));
}

/// Where the mask is false data of which no log, root or reciprocal is a number.
const std::vector<double> kUnsafe{4, 0, -1, kNan, 0.25, -INFINITY};
const std::vector<std::int64_t> kSafe{1, 0, 0, 0, 1, 0};

TEST(MaskRewrite, PutOfWhatIsNotSafeElsewhere_KeepsTheRest) {
  const Graph graph = traced([](Trace& t, const Tensor& m, const Tensor& v, const Tensor&) {
    const Tensor put = masked_put(v, m, log(v[m]) + sqrt(v[m]) + 1.0 / v[m]);
    t.output("a", put);
    t.output("b", grad(sum(put), {v})[0]);
  });
  ASSERT_EQ(waits(graph), 0) << graph.text();
  const auto executable = compile(graph);
  ASSERT_NE(executable, nullptr);
  std::vector<double> put = kUnsafe, gradient(6, 1.0);
  for (const std::size_t i : {0, 4}) {
    const double v = kUnsafe[i];
    put[i] = std::log(v) + std::sqrt(v) + 1 / v;
    gradient[i] = 1 / v + 0.5 / std::sqrt(v) - 1 / (v * v);
  }
  const Inputs given = inputs(kSafe, kUnsafe, std::vector<double>(18, 0.0));
  const auto got = run_interpreted(graph, given);
  ASSERT_TRUE(got) << got.error().text();
  EXPECT_TRUE(
      same(*got, {Array::of(DType::F64, {6}, put), Array::of(DType::F64, {6}, gradient)}, 1e-12));
  EXPECT_TRUE(agree(*executable, given, 1e-12));
}

TEST(MaskRewrite, WhatWasNotChosen_IsReplacedBeforeAnyOpSeesIt) {
  const Graph graph = traced([](Trace& t, const Tensor& m, const Tensor& v, const Tensor&) {
    const Tensor loss = sum(log(v[m]) + sqrt(v[m]) + 1.0 / v[m]);
    t.output("loss", loss);
    t.output("grad", grad(loss, {v})[0]);
  });
  const auto is_safe = [&](NodeId id) {
    const Node& node = graph.nodes[id];
    if (node.op != Op::Where) return false;
    const Node& other = graph.nodes[node.inputs[2]];
    return graph.nodes[node.inputs[0]].text == "m" && graph.nodes[node.inputs[1]].text == "v" &&
           other.op == Op::Full && other.number == 1;
  };
  int seen = 0;
  for (const Node& node : graph.nodes)
    for (const NodeId input : node.inputs)
      if (graph.nodes[input].text == "v") {
        EXPECT_EQ(node.op, Op::Where) << graph.text();
      } else if (is_safe(input)) {
        ++seen;
      }
  EXPECT_GE(seen, 3) << "log, sqrt and div";
  // And so no op is given what it has no value for.
  const auto raised = [](const Graph& run) {
    int flags = 0;
    run_alone([&](collectives::Communicator& communicator, RunHost& host) {
      std::feclearexcept(FE_ALL_EXCEPT);
      const Inputs given = inputs(kSafe, kUnsafe, std::vector<double>(18, 0.0));
      EXPECT_TRUE(interpret(run, given, communicator, host));
      flags = std::fetestexcept(FE_INVALID | FE_DIVBYZERO);
    });
    return flags;
  };
  EXPECT_EQ(raised(graph), 0);
  EXPECT_NE(raised(traced([](Trace& t, const Tensor&, const Tensor& v, const Tensor&) {
              t.output("y", log(v));
            })),
            0)
      << "it would have been seen";
}

TEST(MaskRewrite, CountsThatAreNeeded_StayAndTheLineIsSaid) {
  const auto stays = [](const std::string& part, const Body& body) {
    const Graph graph = traced(body);
    EXPECT_EQ(waits(graph), 1) << graph.text();
    ASSERT_EQ(graph.read_backs.size(), 1U);
    EXPECT_NE(graph.read_backs[0].find("is read back: " + part), std::string::npos)
        << graph.read_backs[0];
    EXPECT_NE(graph.read_backs[0].find("mask_rewrite_test.cpp:"), std::string::npos)
        << graph.read_backs[0];
  };
  const auto rows = [](const Tensor& m, const Tensor& x) { return x[m]; };
  stays("the output y", [&](Trace& t, const Tensor& m, const Tensor&, const Tensor& x) {
    t.output("y", rows(m, x));
  });
  stays("cumsum", [&](Trace& t, const Tensor& m, const Tensor& v, const Tensor&) {
    t.output("y", sum(cumsum(rows(m, v))));
  });
  stays("matmul", [&](Trace& t, const Tensor& m, const Tensor&, const Tensor& x) {
    t.output("y", sum(matmul(rows(m, x), transpose(x, 0, 1))));
  });
  stays("argmax", [&](Trace& t, const Tensor& m, const Tensor& v, const Tensor&) {
    t.output("y", argmax(rows(m, v), 0));
  });
  stays("a check", [&](Trace& t, const Tensor& m, const Tensor& v, const Tensor&) {
    const Tensor some = rows(m, v);
    check(some.size(0) <= 7, "few");
    t.output("y", sum(some));
  });
  stays("iota", [&](Trace& t, const Tensor& m, const Tensor& v, const Tensor&) {
    const Tensor some = rows(m, v);
    t.output("y", sum(some * cast(iota(some.sizes(), 0), DType::F64)));
  });
}

TEST(MaskRewrite, RowsOfAnother_AreNotTaken) {
  // As many rows as the mask has, but by another symbol, so nobody knows it.
  const DecisionBuilder decision = DecisionBuilder()
                                       .tensor("m", DType::Bool, {dynamic(5, 0)})
                                       .tensor("v", DType::F64, {dynamic(9, 0)});
  const Result<Graph> graph = trace(test::setup(decision.get()), [](Trace& t) {
    const Tensor at = squeeze(nonzero(t.tensor_input(0)), 1);
    t.output("y", sum(index_select(t.tensor_input(1), at)));
  });
  ASSERT_TRUE(graph) << graph.error().text();
  EXPECT_EQ(waits(*graph), 1) << graph->text();
}

/// Some elementwise step, a mask, or a total, by chance. Outputs "a.." add up in the same order
/// with the count and without.
class RandomBody {
 public:
  explicit RandomBody(std::uint64_t seed) : seed_(seed) {}
  void operator()(Trace& t, const Tensor& m, const Tensor& v, const Tensor& x) const {
    std::mt19937_64 random(seed_);
    std::vector<Tensor> rows{x[m], unsqueeze(v[m], 1) * 0.5, x[m] + 2.0};
    std::vector<Tensor> totals{sum(rows[0])}, exact;
    Tensor deeper = v[m];
    for (int k = 0; k < 12; ++k) {
      const Tensor a = rows[random() % rows.size()], b = rows[random() % rows.size()];
      switch (random() % 9) {
        case 0:
          rows.push_back(a * b * 0.5 + 0.25);
          break;
        case 1:
          rows.push_back(tanh(a) - abs(b));
          break;
        case 2:
          rows.push_back(where(a > b, a, b * 0.5));
          break;
        case 3:
          rows.push_back(amax(a, {1}, Keep::Keep) * b);
          break;
        case 4:
          totals.push_back(sum(mean(a, {1})));
          break;
        case 5:
          exact.push_back(amin(b * 2.0));
          break;
        case 6:
          exact.push_back(amax(a - b));
          break;
        case 7:
          exact.push_back(index_put(x, {m}, expand(a, {a.size(0), 3})));
          totals.push_back(sum(exact.back() * 0.125));
          break;
        default:
          deeper = deeper[deeper > -1.0] * 0.75;
          totals.push_back(sum(deeper * deeper));
      }
    }
    Tensor loss = full(t, {}, 0.0, DType::F64);
    for (std::size_t i = 0; i < totals.size(); ++i) {
      t.output("y" + std::to_string(100 + i), totals[i]);
      if (i % 2 == 0) loss = loss + totals[i];
    }
    for (const Tensor& y : exact)
      if (y.ndim() == 0) loss = loss + y * 0.25;
    const std::vector<Tensor> gradients = grad(loss, {v, x});
    exact.insert(exact.end(), gradients.begin(), gradients.end());
    for (std::size_t i = 0; i < exact.size(); ++i)
      t.output("a" + std::to_string(100 + i), exact[i]);
  }

 private:
  std::uint64_t seed_;
};

TEST(MaskRewrite, RandomGraphs_AsWithTheCount) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomBody body(seed);
    const Graph graph = traced(body), plain = traced(body, true);
    EXPECT_EQ(waits(graph), 0) << fmt::to_string(fmt::join(graph.read_backs, "\n"));
    EXPECT_TRUE(graph.verify()) << graph.text();
    OnRanks everywhere(graph, 1);
    std::mt19937_64 random(seed);
    for (const std::int64_t n : {0, 1, 2, 5, 31}) {
      const Inputs given = random_inputs(random, n);
      const auto expected = run_interpreted(plain, given), got = run_interpreted(graph, given);
      ASSERT_TRUE(expected) << expected.error().text();
      ASSERT_TRUE(got) << got.error().text();
      ASSERT_EQ(got->size(), graph.outputs.size());
      for (std::size_t i = 0; i < got->size(); ++i) {
        const std::string& name = graph.outputs[i].name;
        EXPECT_TRUE(same({(*got)[i]}, {(*expected)[i]}, name[0] == 'a' ? 0 : 1e-12))
            << name << ", n " << n;
      }
      if (seed % 16 == 0) (void)everywhere.everywhere({given});
    }
  }
}

}  // namespace
}  // namespace lockstep::worker::mask_rewrite_test
