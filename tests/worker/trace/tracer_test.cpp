#include <regex>

#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker::tracer_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;
using test::setup;

/// One step of a two-layer perceptron: loss and new weights.
void mlp_step(Trace& t) {
  const Tensor w1 = t.tensor_input(t.source("w1")), w2 = t.tensor_input(t.source("w2"));
  const Tensor x = t.tensor_input(t.source("x"));
  const SymFloat lr = t.float_input(t.source("lr"));
  const Tensor y = matmul(relu(matmul(x, w1)), w2);
  const Tensor loss = sum(y * y) / x.size(0);
  const std::vector<Tensor> g = grad(loss, {w1, w2});
  t.output("loss", loss);
  t.output("w1", w1 - lr * all_reduce(g[0]));
  t.output("w2", w2 - lr * all_reduce(g[1]));
}

Decision mlp_decision(std::int64_t hint = 5, std::int64_t min = 2) {
  return DecisionBuilder()
      .number("lr")
      .tensor("w1", DType::F32, {4, 8})
      .tensor("w2", DType::F32, {8, 3})
      .tensor("x", DType::F32, {dynamic(hint, min), 4})
      .get();
}

Graph must(Result<Graph> graph) {
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? *graph : Graph{};
}
std::string error_of(const Result<Graph>& graph) {
  EXPECT_FALSE(graph.has_value());
  if (graph) return "";
  EXPECT_EQ(graph.error().code, Code::TraceError) << graph.error().text();
  return graph.error().message;
}

/// Without the lines at the ends.
std::string without_lines(const std::string& text) {
  return std::regex_replace(text, std::regex("   # .*"), "");
}

TEST(Tracer, MlpStep_Text_IsAsWritten) {
  const Decision decision = mlp_decision();
  EXPECT_EQ(without_lines(must(trace(setup(decision, 2), mlp_step)).text()), R"(graph step
  s0 = x.size(0)
  %0: f64[] = input("lr")
  %1: f32[4, 8] = input("w1")
  %2: f32[8, 3] = input("w2")
  %3: f32[s0, 4] = input("x")
  %4: f32[s0, 8] = matmul(%3, %1)
  %5: f32[s0, 8] = relu(%4)
  %6: f32[s0, 3] = matmul(%5, %2)
  %7: f32[s0, 3] = mul(%6, %6)
  %8: f32[] = sum(%7, {0, 1})
  %9: i64[] = scalar([s0])
  %10: f32[] = cast(%9)
  %11: f32[] = div(%8, %10)
  %12: f32[] = full(1)
  %13: f32[] = div(%12, %10)
  %14: f32[1, 1] = reshape(%13)
  %15: f32[s0, 3] = expand(%14)
  %16: f32[s0, 3] = mul(%15, %6)
  %17: f32[s0, 3] = add(%16, %16)
  %18: f32[3, 8] = permute(%2, {1, 0})
  %19: f32[s0, 8] = matmul(%17, %18)
  %20: f32[8, s0] = permute(%5, {1, 0})
  %21: f32[8, 3] = matmul(%20, %17)
  %22: f32[s0, 8] = full(0)
  %23: bool[s0, 8] = le(%5, %22)
  %24: f32[s0, 8] = where(%23, %22, %19)
  %25: f32[4, s0] = permute(%3, {1, 0})
  %26: f32[4, 8] = matmul(%25, %24)
  %27: f32[4, 8] = all_reduce(%26, {0})
  %28: f32[] = cast(%0)
  %29: f32[1, 1] = reshape(%28)
  %30: f32[4, 8] = expand(%29)
  %31: f32[4, 8] = mul(%30, %27)
  %32: f32[4, 8] = sub(%1, %31)
  %33: f32[8, 3] = all_reduce(%21, {0})
  %34: f32[8, 3] = expand(%29)
  %35: f32[8, 3] = mul(%34, %33)
  %36: f32[8, 3] = sub(%2, %35)
  loss = %11
  w1 = %32
  w2 = %36
)");
}

Result<Graph> trace_x(const std::vector<test::Dim>& dims,
                      const std::function<void(Trace&, Tensor)>& body) {
  const Decision decision = DecisionBuilder().tensor("x", DType::F32, dims).get();
  return trace(setup(decision), [&](Trace& t) { body(t, t.tensor_input(0)); });
}

TEST(Tracer, BranchOnSize_RecordsUsersLine) {
  std::uint32_t line = 0;
  const Graph graph = must(trace_x({dynamic(7), 4}, [&](Trace& t, Tensor x) {
    line = __LINE__ + 1;
    if (x.size(0) > 5)
      t.output("y", x + 1.0);
    else
      t.output("y", x);
  }));
  ASSERT_EQ(graph.guards.size(), 1U);
  EXPECT_EQ(graph.guards[0].where, (shapes::Location{"tracer_test.cpp", line}));
  EXPECT_EQ(graph.guards[0].predicate, shapes::greater(shapes::Expr::symbol({false, 0}), 5));
}

TEST(Tracer, BranchOnSize_AllForms_RecordTheirOwnLines) {
  std::vector<std::uint32_t> lines;
  const Graph graph = must(trace_x({dynamic(7), dynamic(9)}, [&](Trace& t, Tensor x) {
    const SymInt a = x.size(0), b = x.size(1);
    lines.push_back(__LINE__ + 1);
    if (5 < a) lines.push_back(__LINE__ + 1);
    if (a != b) lines.push_back(__LINE__ + 1);
    if (!(a * 2 == b)) lines.push_back(__LINE__ + 1);
    while (a + b > 100) break;
    t.output("y", x);
  }));
  ASSERT_EQ(graph.guards.size(), lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(graph.guards[i].where.line, lines[i]) << i;
}

TEST(Tracer, ToInt_PinsBySpecialisingGuard) {
  std::uint32_t line = 0;
  const Graph graph = must(trace_x({dynamic(7), 4}, [&](Trace& t, Tensor x) {
    line = __LINE__ + 1;
    const std::int64_t n = x.size(0).to_int();
    EXPECT_EQ(n, 7);
    t.output("y", x + static_cast<double>(n));
  }));
  ASSERT_EQ(graph.guards.size(), 1U);
  EXPECT_EQ(graph.guards[0].where.line, line);
  EXPECT_EQ(meta_text(graph.nodes[0].meta), "f32[7, 4]") << "what was learnt reaches earlier nodes";
}

TEST(Tracer, Nodes_KnowTheUsersLine) {
  std::vector<std::uint32_t> lines;
  const Graph graph = must(trace_x({4, 4}, [&](Trace& t, Tensor x) {
    lines.push_back(__LINE__ + 1);
    Tensor y = relu(x);
    lines.push_back(__LINE__ + 1);
    y = y * 2.0;  // two nodes: the number and the product
    lines.push_back(__LINE__ + 1);
    y = softmax(y, -1);
    t.output("y", y);
  }));
  EXPECT_EQ(graph.nodes[1].where.line, lines[0]);
  EXPECT_EQ(graph.nodes[2].where.line, lines[1]);
  EXPECT_EQ(graph.nodes[3].where.line, lines[1]);
  for (std::size_t i = 4; i < graph.nodes.size(); ++i)
    EXPECT_EQ(graph.nodes[i].where.line, lines[2]) << i;
}

TEST(Tracer, BranchOnUnbackedValue_IsRefused) {
  const Result<Graph> graph = trace_x({4}, [](Trace& t, Tensor x) {
    const SymInt n = item(cast(sum(x), DType::I64));
    if (n > 3) t.output("y", x);
  });
  EXPECT_NE(error_of(graph).find("tracer_test.cpp:"), std::string::npos) << error_of(graph);
}

TEST(Tracer, BranchOnTensorData_SaysWhatToDo) {
  std::uint32_t line = 0;
  const Result<Graph> graph = trace_x({4}, [&](Trace& t, Tensor x) {
    line = __LINE__ + 1;
    if (sum(x) > 3.0) t.output("y", x);
  });
  const std::string error = error_of(graph);
  EXPECT_NE(error.find("tracer_test.cpp:" + std::to_string(line)), std::string::npos) << error;
  EXPECT_NE(error.find("where()"), std::string::npos) << error;
}

TEST(Tracer, BranchOnFloatInput_IsRefused) {
  const Decision decision = DecisionBuilder().number("lr").get();
  const Result<Graph> graph = trace(setup(decision), [](Trace& t) {
    if (t.float_input(0) > 0.1) t.output("lr", t.float_input(0).tensor());
  });
  EXPECT_NE(error_of(graph).find("branch on the data"), std::string::npos) << error_of(graph);
}

TEST(Tracer, WhatTheFunctionThrows_BecomesAStatus) {
  EXPECT_NE(error_of(trace_x({4}, [](Trace&, Tensor) { throw std::runtime_error("no such file"); }))
                .find("no such file"),
            std::string::npos);
  EXPECT_NE(error_of(trace_x({4}, [](Trace&, Tensor) { throw 3; })).find("not a std::exception"),
            std::string::npos);
  EXPECT_NE(error_of(trace_x({4}, [](Trace&, Tensor) { check(SymInt(2) > 3, "too few"); }))
                .find("too few"),
            std::string::npos);
  EXPECT_NE(error_of(trace_x({dynamic(5)},
                             [](Trace&, Tensor x) {
                               SymInt n = x.size(0);
                               for (int i = 0; i < 8; ++i) n = n * (std::int64_t{1} << 40);
                             }))
                .find("64 bits"),
            std::string::npos);
}

TEST(Tracer, TensorOfAnotherTrace_IsRefused) {
  Tensor kept;
  (void)must(trace_x({4}, [&](Trace&, Tensor x) { kept = x + 1.0; }));
  EXPECT_NE(
      error_of(trace_x({4}, [&](Trace&, Tensor x) { (void)(x + kept); })).find("another trace"),
      std::string::npos);
  EXPECT_NE(error_of(trace_x({4}, [&](Trace&, Tensor) { (void)(kept + kept); })).find("frame step"),
            std::string::npos);
}

TEST(Tracer, ConcreteTensorInTrace_IsRefused) {
  const Tensor weights(Array::zeros(DType::F32, {4}));
  EXPECT_NE(
      error_of(trace_x({4}, [&](Trace&, Tensor x) { (void)(x * weights); })).find("as an input"),
      std::string::npos);
}

TEST(Tracer, Rank_IsARuntimeInput) {
  const Graph graph = must(trace_x({4}, [](Trace& t, Tensor x) {
    t.output("y", x + cast(t.rank(), DType::F32));
    t.output("z", x * cast(t.rank(), DType::F32));
  }));
  ASSERT_GE(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.node_text(1), "%1: i64[] = input(\"job.rank\")");
}

TEST(Tracer, ToList_IsMemoisedAndAssertsFollowTheirBinder) {
  const Graph graph = must(trace_x({dynamic(5), 3}, [](Trace& t, Tensor x) {
    const Tensor counts = cast(sum(x, {0}), DType::I64);
    const std::vector<SymInt> a = tolist(counts), b = tolist(counts);
    EXPECT_EQ(a[2].expr(), b[2].expr());
    const Tensor later = x * 2.0;
    check(a[0] >= 1, "someone has work");
    check(x.size(0) <= 1000, "fits");
    t.output("y", later);
  }));
  std::vector<std::string> texts;
  for (NodeId i = 0; i < graph.nodes.size(); ++i) texts.push_back(graph.node_text(i));
  EXPECT_EQ(texts[1].substr(0, 6), "assert") << graph.text();
  EXPECT_EQ(texts[4], "u0, u1, u2 = tolist(%3)") << graph.text();
  EXPECT_EQ(texts[5].substr(0, 6), "assert") << graph.text();
  EXPECT_TRUE(graph.guards.empty());
}

TEST(Tracer, UnbackedInputDim_IsBoundByTheInput) {
  const Decision decision =
      DecisionBuilder().tensor("x", DType::F32, {test::Dim(5, 0, true), dynamic(4)}).get();
  const Graph graph =
      must(trace(setup(decision), [](Trace& t) { t.output("y", t.tensor_input(0) + 1.0); }));
  ASSERT_EQ(graph.symbols.size(), 2U);
  EXPECT_EQ(graph.symbols[0].symbol.name(), "u0");
  EXPECT_EQ(graph.symbols[1].symbol.name(), "s0");
  EXPECT_NE(error_of(trace(setup(decision),
                           [](Trace& t) {
                             if (t.tensor_input(0).size(0) > 3) t.output("y", t.tensor_input(0));
                           })),
            "");
}

class FixedAnswer final : public TraceHost {
 public:
  explicit FixedAnswer(bool answer) : answer_(answer) {}
  Result<bool> group_any(bool mine, const shapes::Predicate& predicate) override {
    predicates.push_back(predicate.text());
    asked.push_back(mine);
    return answer_;
  }
  Result<std::int64_t> broadcast_from_lowest(std::int64_t mine) override { return mine; }
  std::vector<bool> asked;
  std::vector<std::string> predicates;

 private:
  bool answer_;
};

TEST(Tracer, GroupQuestion_TakesTheGroupsAnswerAndRecordsIt) {
  const Decision decision = DecisionBuilder().tensor("x", DType::F32, {dynamic(6)}).get();
  FixedAnswer yes(true), no(false);
  bool any = false, all = true;
  const auto body = [&](Trace& t) {
    const Tensor x = t.tensor_input(0);
    any = group_any(x.size(0) > 8);
    all = group_all(x.size(0) > 4);
    t.output("y", x);
  };
  const Graph with_yes = must(trace(setup(decision, 2, &yes), body));
  EXPECT_TRUE(any) << "another rank said so";
  EXPECT_FALSE(all) << "on some rank it does not hold";
  EXPECT_EQ(yes.asked, (std::vector<bool>{false, false})) << "hint 6: not above 8; not(6 > 4)";
  EXPECT_EQ(yes.predicates, (std::vector<std::string>{"s0 >= 9", "s0 <= 4"})) << "what any has";
  const Graph with_no = must(trace(setup(decision, 2, &no), body));
  EXPECT_FALSE(any);
  EXPECT_TRUE(all);
  ASSERT_EQ(with_no.group_guards.size(), 2U);
  EXPECT_EQ(with_no.group_guards[0].over, GroupGuard::Over::Any);
  EXPECT_TRUE(with_no.group_guards[1].value);
  EXPECT_TRUE(with_no.guards.empty());
  EXPECT_NE(with_no.fingerprint(), with_yes.fingerprint());
}

TEST(Tracer, GroupQuestion_LooksAtThisRanksSizes) {
  const Decision decision = DecisionBuilder().tensor("x", DType::F32, {dynamic(6)}).get();
  Observation mine;
  mine.list = std::make_shared<const SourceList>(
      std::vector<SourceSpec>{{"x", Kind::Tensor, DType::F32, 1}});
  mine.values = {11};
  FixedAnswer no(false);
  TraceSetup with_sizes = setup(decision, 2, &no);
  with_sizes.observation = &mine;
  (void)trace(with_sizes, [](Trace& t) { (void)group_any(t.tensor_input(0).size(0) > 8); });
  EXPECT_EQ(no.asked, std::vector<bool>{true});
}

TEST(Tracer, GroupThatFails_EndsTheTraceWithItsStatus) {
  class Broken final : public TraceHost {
    Result<bool> group_any(bool, const shapes::Predicate&) override {
      return Status{Code::RankLost, "rank 1 is gone", {}, {}};
    }
    Result<std::int64_t> broadcast_from_lowest(std::int64_t) override {
      return Status{Code::RankLost, "rank 1 is gone", {}, {}};
    }
  } broken;
  const Decision decision = DecisionBuilder().tensor("x", DType::F32, {dynamic(6)}).get();
  const auto graph = trace(setup(decision, 2, &broken),
                           [](Trace& t) { (void)group_any(t.tensor_input(0).size(0) > 8); });
  ASSERT_FALSE(graph.has_value());
  EXPECT_EQ(graph.error().code, Code::RankLost);
}

TEST(Tracer, SameFunctionTwice_GivesTheSameGraph) {
  const Decision decision = mlp_decision();
  EXPECT_EQ(must(trace(setup(decision, 2), mlp_step)).text(),
            must(trace(setup(decision, 2), mlp_step)).text());
}

TEST(Tracer, HintsWithoutBranches_DoNotReachTheGraph) {
  const Decision small = mlp_decision(2, 0), large = mlp_decision(1000, 0);
  EXPECT_EQ(must(trace(setup(small), mlp_step)).fingerprint(),
            must(trace(setup(large), mlp_step)).fingerprint());
}

TEST(Tracer, FloatInput_TakesTheDtypeItMeets) {
  const Decision decision = DecisionBuilder().number("lr").tensor("x", DType::F32, {4}).get();
  const Graph graph = must(trace(setup(decision), [](Trace& t) {
    const SymFloat lr = t.float_input(0);
    t.output("y", -(lr * 0.5 + 1.0) * t.tensor_input(1));
  }));
  EXPECT_EQ(graph.nodes[graph.outputs[0].node].meta.dtype, DType::F32);
}

TEST(Tracer, WhatNothingNeeds_IsLeftOut_ButCollectivesStay) {
  const Graph graph = must(trace_x({4, 4}, [](Trace& t, Tensor x) {
    (void)softmax(x, 0);
    (void)all_reduce(x * 3.0);
    t.output("y", x + x);
  }));
  std::vector<Op> ops;
  for (const Node& node : graph.nodes) ops.push_back(node.op);
  EXPECT_EQ(ops, (std::vector<Op>{Op::Input, Op::Full, Op::Mul, Op::AllReduce, Op::Add}));
}

TEST(Tracer, OutputFromOutside_IsNamed) {
  EXPECT_NE(error_of(trace_x({4}, [](Trace& t, Tensor) { t.output("loss", Tensor()); }))
                .find("output loss"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::worker::tracer_test
