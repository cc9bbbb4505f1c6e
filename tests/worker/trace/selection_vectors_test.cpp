// The numbered vectors of symbolic shapes that are about values known only when the graph runs:
// read back, counted, split by, and hidden by a mark.
#include <algorithm>
#include <cmath>

#include "compiled_graph.h"
#include "tracing.h"

#include <lockstep/worker/tensor/language/selection_ops.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker::selection_vectors_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;
using test::setup;

Graph must(Result<Graph> graph) {
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? *graph : Graph{};
}

/// What went wrong in the trace.
std::string refusal(const Result<Graph>& graph) {
  EXPECT_FALSE(graph.has_value());
  return graph ? std::string() : graph.error().message;
}

Graph traced(const DecisionBuilder& decision, const std::function<void(Trace&)>& body) {
  return must(trace(setup(decision.get()), body));
}

std::vector<std::string> lines_of(const Graph& graph) {
  std::vector<std::string> out;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) out.push_back(graph.node_text(id));
  return out;
}

bool has_assert(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& n) { return n.op == Op::Assert; });
}

DecisionBuilder only(DType dtype, const std::vector<test::Dim>& dims) {
  return DecisionBuilder().tensor("x", dtype, dims);
}

shapes::Range range_of(const SymInt& value) { return value.trace()->env().range(value.expr()); }

TEST(ShapeVectors, Vector_29_ItemTwice_IsOneSymbolOfAnyInteger) {
  (void)traced(only(DType::I64, {3}), [](Trace& t) {
    const Tensor total = sum(t.tensor_input(0));
    const SymInt a = item(total), b = item(total);
    EXPECT_EQ(a.text(), "u0");
    EXPECT_EQ(a.expr(), b.expr());
    EXPECT_EQ(range_of(a), shapes::Range{});
    EXPECT_EQ(t.env().symbols().size(), 1U);
  });
}

TEST(ShapeVectors, Vector_31_ItemOfABool_IsZeroOrOneSeenAsOne) {
  const auto decision = only(DType::F32, {dynamic(5, 0)});
  std::uint32_t line = 0;
  const auto branches = trace(setup(decision.get()), [&](Trace& t) {
    line = __LINE__ + 1;
    const SymBool some = item_bool(any(t.tensor_input(0) > 0.0));
    EXPECT_EQ(some.predicate(), shapes::equal(shapes::Expr::symbol({true, 0}), 1));
    if (some) t.output("y", t.tensor_input(0));
  });
  const std::string text = refusal(branches);
  EXPECT_NE(text.find("item()"), std::string::npos) << text;
  EXPECT_NE(text.find("selection_vectors_test.cpp:" + std::to_string(line)), std::string::npos)
      << text;
  const Graph graph = traced(decision, [](Trace& t) {
    const Tensor flag = any(t.tensor_input(0) > 0.0);
    const SymInt u = item(flag);
    EXPECT_EQ(range_of(u), (shapes::Range{0, 1}));
    EXPECT_TRUE(statically_true(u <= 1));
    check(item_bool(flag), "something is positive");
    EXPECT_TRUE(item_bool(flag)) << "checked, so known";
    EXPECT_EQ(item(flag).text(), "1");
    t.output("y", t.tensor_input(0));
  });
  EXPECT_TRUE(graph.guards.empty());
  const std::vector<double> good{-1, 2}, bad{-1, -2};
  EXPECT_TRUE(run_interpreted(graph, {{"x", Array::of(DType::F32, {2}, good)}}));
  const auto failed = run_interpreted(graph, {{"x", Array::of(DType::F32, {2}, bad)}});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, Code::RuntimeAssert);
  EXPECT_NE(failed.error().message.find("something is positive"), std::string::npos);
}

TEST(ShapeVectors, Vector_32_Nonzero_IsAsManyAsThereAreElementsAtMost) {
  const Graph fixed = traced(only(DType::F32, {3, 4}), [](Trace& t) {
    const Tensor at = nonzero(t.tensor_input(0));
    EXPECT_EQ(meta_text({at.dtype(), {at.size(0).expr(), at.size(1).expr()}}), "i64[u0, 2]");
    EXPECT_EQ(range_of(at.size(0)), (shapes::Range{0, 12}));
    EXPECT_EQ(t.env().record({true, 0}).source, "nonzero().size(0)");
    t.output("y", at);
  });
  EXPECT_FALSE(has_assert(fixed)) << fixed.text();
  const std::vector<std::string> lines = lines_of(fixed);
  EXPECT_TRUE(std::ranges::any_of(lines, [](const std::string& line) {
    return line.find("u0 = item(") == 0 && line.find("\"nonzero().size(0)\"") != std::string::npos;
  })) << fixed.text();

  const Graph empty = traced(only(DType::F32, {dynamic(5, 0), 0}), [](Trace& t) {
    const Tensor at = nonzero(t.tensor_input(0));
    EXPECT_EQ(at.size(0).text(), "0");
    EXPECT_TRUE(
        std::ranges::none_of(t.env().symbols(), [](const auto& s) { return s.symbol.unbacked; }));
    t.output("y", at);
  });
  EXPECT_TRUE(empty.joint_nodes().empty());
  const auto nothing = run_interpreted(empty, {{"x", Array(DType::F32, {7, 0})}});
  ASSERT_TRUE(nothing.has_value());
  EXPECT_EQ((*nothing)[0].sizes(), (std::vector<std::int64_t>{0, 2}));

  (void)traced(only(DType::F32, {dynamic(5)}), [](Trace& t) {
    const Tensor x = t.tensor_input(0);
    EXPECT_EQ(range_of(nonzero(x).size(0)), (shapes::Range{0, shapes::Range::kMax}));
    check(x.size(0) <= 100);
    EXPECT_EQ(range_of(nonzero(x > 1.0).size(0)), (shapes::Range{0, 100}));
  });
}

TEST(ShapeVectors, Vector_32_Count_IsAtMostTheSizeThatItCounts) {
  const Graph graph = traced(only(DType::F32, {dynamic(5), dynamic(4)}), [](Trace& t) {
    const Tensor x = t.tensor_input(0), at = nonzero(x), rows = nonzero(sum(x, {1}));
    check(at.size(0) <= x.size(0) * x.size(1));
    check(rows.size(0) <= x.size(0));
    EXPECT_TRUE(statically_true(rows.size(0) < x.size(0) + 1));
    EXPECT_FALSE(statically_true(rows.size(0) < x.size(0)));
    EXPECT_TRUE(t.env().guards().empty());
    t.output("y", at);
  });
  EXPECT_FALSE(has_assert(graph)) << graph.text();
}

TEST(ShapeVectors, Vector_33_SelectionThatMayBeEmpty_TakesTheGeneralPath) {
  const auto decision = only(DType::F32, {dynamic(5)});
  const auto branches = trace(setup(decision.get()), [](Trace& t) {
    const Tensor x = t.tensor_input(0), y = x[x > 0.0];
    if (y.numel() == 0) t.output("y", y);
  });
  EXPECT_NE(refusal(branches).find("x[mask].size(0)"), std::string::npos) << refusal(branches);
  const Graph graph = traced(decision, [](Trace& t) {
    const Tensor x = t.tensor_input(0), y = x[x > 0.0];
    EXPECT_EQ(y.size(0).text(), "u0");
    EXPECT_FALSE(guard_or_false(y.numel() == 0));
    EXPECT_TRUE(guard_or_true(y.numel() == 0));
    t.output("sum", sum(y));
    t.output("mean", mean(y));
    t.output("top", amax(y));
  });
  EXPECT_FALSE(has_assert(graph)) << graph.text();
  EXPECT_TRUE(graph.guards.empty());
  const std::vector<double> none{-1, -2, -3};
  const auto out = run_interpreted(graph, {{"x", Array::of(DType::F32, {3}, none)}});
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ((*out)[0].at(0), 0);
  EXPECT_TRUE(std::isnan((*out)[1].at(0)));
  EXPECT_EQ((*out)[2].at(0), -INFINITY);
}

TEST(ShapeVectors, Vector_34_CheckOnACount_FailsWhenTheGraphRuns) {
  const Graph graph = traced(only(DType::F64, {dynamic(4), dynamic(4)}), [](Trace& t) {
    const SymInt n = nonzero(t.tensor_input(0)).size(0);
    check(n % 4 == 0);
    EXPECT_TRUE(statically_true((2 * n) % 8 == 0)) << "known from here on";
    t.output("y", t.tensor_input(0));
  });
  const auto executable = compile(graph);
  ASSERT_NE(executable, nullptr);
  const std::vector<double> ones(25, 0.5);
  EXPECT_TRUE(
      run_compiled(*executable, {{"x", Array::of(DType::F64, {4, 4}, std::span(ones).first(16))}}));
  const Inputs odd{{"x", Array::of(DType::F64, {5, 5}, ones)}};
  const auto failed = run_compiled(*executable, odd);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, Code::RuntimeAssert);
  EXPECT_NE(failed.error().message.find("Mod(u0 (nonzero().size(0) at selection_vectors_test.cpp:"),
            std::string::npos)
      << failed.error().text();
  EXPECT_TRUE(agree(*executable, odd, 0));
}

TEST(ShapeVectors, Vector_35_SplitByReadSizes_IsCheckedBeforeTheSplit) {
  const Graph graph =
      traced(DecisionBuilder().tensor("sizes", DType::I64, {2}).tensor("x", DType::F64, {7312}),
             [](Trace& t) {
               const std::vector<SymInt> sizes = tolist(t.tensor_input(0));
               const auto parts = split(t.tensor_input(1), sizes, 0);
               EXPECT_EQ(parts[0].size(0).text(), "u0");
               EXPECT_EQ(parts[1].size(0).text(), "u1");
               t.output("a", parts[0]);
               t.output("b", parts[1]);
             });
  std::vector<std::string> lines;
  for (const std::string& line : lines_of(graph))
    lines.push_back(line.substr(0, line.find(", \"")));
  ASSERT_GE(lines.size(), 7U);
  EXPECT_EQ(lines[2], "u0, u1 = tolist(%0)");
  EXPECT_EQ(lines[3], "assert(u0 >= 0") << graph.text();
  EXPECT_EQ(lines[4], "assert(u1 >= 0") << graph.text();
  EXPECT_EQ(lines[5], "assert(u0 + u1 == 7312") << graph.text();
  EXPECT_EQ(lines[6], "%6: f64[u0] = slice(%1, [0], {0})") << graph.text();
  EXPECT_EQ(std::ranges::count_if(graph.nodes, [](const Node& n) { return n.op == Op::Assert; }),
            3);
  const auto executable = compile(graph);
  ASSERT_NE(executable, nullptr);
  std::mt19937_64 random(35);
  const Array x = random_array(random, DType::F64, {7312});
  const auto sized = [&](std::int64_t a, std::int64_t b) {
    return Inputs{{"sizes", integers({2}, {a, b})}, {"x", x}};
  };
  for (const std::int64_t a : {420, 0, 7312}) {
    const auto parts = run_compiled(*executable, sized(a, 7312 - a));
    ASSERT_TRUE(parts) << parts.error().text();
    EXPECT_EQ((*parts)[0].sizes()[0], a);
    EXPECT_TRUE(agree(*executable, sized(a, 7312 - a), 0));
  }
  for (const auto& [a, b] : {std::pair{420, 7000}, {-1, 7313}, {7313, -1}}) {
    const auto failed = run_compiled(*executable, sized(a, b));
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().code, Code::RuntimeAssert) << failed.error().text();
    EXPECT_TRUE(agree(*executable, sized(a, b), 0));
  }
}

TEST(ShapeVectors, Vector_48_DimMarkedUnbacked_HidesItsValue) {
  const auto decision = only(DType::F32, {test::Dim(1, 0, true), 2});
  const auto branches = trace(setup(decision.get()), [](Trace& t) {
    if (t.tensor_input(0).size(0) == 1) t.output("y", t.tensor_input(0));
  });
  EXPECT_NE(refusal(branches).find("x.size(0)"), std::string::npos) << refusal(branches);
  const Graph graph = traced(decision, [](Trace& t) {
    const Tensor x = t.tensor_input(0);
    EXPECT_FALSE(guard_or_false(x.size(0) == 1));
    EXPECT_EQ(range_of(x.size(0)), (shapes::Range{0, shapes::Range::kMax}));
    t.output("y", x * 2.0);
    t.output("kept", x[x > 0.0]);
  });
  EXPECT_TRUE(graph.guards.empty());
  EXPECT_FALSE(has_assert(graph)) << graph.text();
  const auto executable = compile(graph);
  ASSERT_NE(executable, nullptr);
  std::mt19937_64 random(48);
  for (const std::int64_t n : {0, 1, 2, 5, 13})
    EXPECT_TRUE(agree(*executable, {{"x", random_array(random, DType::F32, {n, 2})}}, 0)) << n;
}

TEST(ShapeVectors, UniqueOfSomething_IsSomething) {
  (void)traced(DecisionBuilder()
                   .tensor("a", DType::F32, {4})
                   .tensor("b", DType::F32, {dynamic(5)})
                   .tensor("c", DType::F32, {dynamic(5, 0)}),
               [](Trace& t) {
                 const auto count = [&](std::size_t i) {
                   return unique(t.tensor_input(i)).values.size(0);
                 };
                 EXPECT_EQ(range_of(count(0)), (shapes::Range{1, 4}));
                 EXPECT_EQ(range_of(count(1)).lower, 1);
                 EXPECT_EQ(range_of(count(2)).lower, 0);
               });
}

}  // namespace
}  // namespace lockstep::worker::selection_vectors_test
