// What users meet when they write: broadcasting, sizes that do not fit, dtypes, integers, gradients
// that do not exist. Messages name the line and say what to do.
#include <regex>

#include "tracing.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker::language_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;

/// f32 inputs x [s0, 4], y [s1, 4], z [1, 4], w [3, 4]; i64 n.
Result<Graph> traced(const std::function<void(Trace&)>& body, int group_size = 2) {
  static const Decision decision = DecisionBuilder()
                                       .integer("n", dynamic(6))
                                       .tensor("w", DType::F32, {3, 4})
                                       .tensor("x", DType::F32, {dynamic(5, 0), 4})
                                       .tensor("y", DType::F32, {dynamic(5, 0), 4})
                                       .tensor("z", DType::F32, {1, 4})
                                       .get();
  return trace(test::setup(decision, group_size), body);
}
Tensor in(Trace& t, std::string_view name) { return t.tensor_input(t.source(name)); }

std::vector<std::string> assert_texts(const Graph& graph) {
  std::vector<std::string> texts;
  for (const Node& node : graph.nodes)
    if (node.op == Op::Assert) texts.push_back(node.asserts[0].predicate.text());
  return texts;
}

/// The body must fail at the line before `line`, with words matching `words`.
void refused(const std::function<void(Trace&)>& body, const std::string& words) {
  const Result<Graph> graph = traced(body);
  ASSERT_FALSE(graph.has_value()) << "should be refused: " << words;
  EXPECT_EQ(graph.error().code, Code::TraceError) << graph.error().text();
  EXPECT_TRUE(std::regex_search(graph.error().message,
                                std::regex("language_test.cpp:[0-9]+: .*(" + words + ")")))
      << graph.error().message;
}

TEST(Language, SymbolAgainstConstantOne_Broadcasts) {
  const Result<Graph> graph = traced([](Trace& t) { t.output("a", in(t, "x") + in(t, "z")); });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_TRUE(assert_texts(*graph).empty());
  EXPECT_EQ(meta_text(graph->nodes[graph->outputs[0].node].meta), "f32[s1, 4]");
}

TEST(Language, SymbolAgainstSymbol_IsCheckedNotBroadcast) {
  const Result<Graph> graph = traced([](Trace& t) { t.output("a", in(t, "x") + in(t, "y")); });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_EQ(assert_texts(*graph), std::vector<std::string>{"s1 == s2"});
  EXPECT_TRUE(graph->guards.empty());
  for (const Node& node : graph->nodes) EXPECT_NE(node.op, Op::Expand);
}

TEST(Language, SizesThatCannotFit_AreRefused) {
  refused([](Trace& t) { (void)(in(t, "w") + slice(in(t, "w"), 0, 0, 2)); },
          "sizes 3 and 2 do not fit");
  refused([](Trace& t) { (void)matmul(in(t, "w"), in(t, "w")); }, "sizes 4 and 3 do not fit");
  refused([](Trace& t) { (void)reshape(in(t, "w"), {5, 2}); }, "holds 12 elements, not 10");
  refused([](Trace& t) { (void)reshape(in(t, "w"), {-1, -1}); }, "only one size may be -1");
  refused([](Trace& t) { (void)expand(in(t, "w"), {6, 4}); }, "does not expand to 6");
  refused([](Trace& t) { (void)slice(in(t, "w"), 1, 3, 2); }, "do not lie in dim 1");
  refused([](Trace& t) { (void)pad(in(t, "w"), 1, -1, 2); }, "negative");
  refused(
      [](Trace& t) {
        (void)cat({in(t, "w"), cast(in(t, "w"), DType::F64)}, 0);
      },
      "dtypes differ");
  refused([](Trace& t) { (void)sum(in(t, "w"), {0, -2}); }, "named twice");
  refused([](Trace& t) { (void)sum(in(t, "w"), {2}); }, "no dim 2");
  refused([](Trace& t) { (void)squeeze(in(t, "x"), 0); }, "not the constant 1");
  refused([](Trace& t) { (void)permute(in(t, "w"), {0, 0}); }, "no order");
}

/// What a TRACE_ERROR says of `body`, which is given the float lr and x [s0].
std::string error_in_trace(const std::function<void(SymFloat, Tensor)>& body) {
  static const Decision decision =
      DecisionBuilder().number("lr").tensor("x", DType::F32, {dynamic(3)}).get();
  const Result<Graph> graph = trace(test::setup(decision), [&](Trace& t) {
    body(t.float_input(0), t.tensor_input(1));
    t.output("y", t.tensor_input(1));
  });
  if (graph) return "";
  EXPECT_EQ(graph.error().code, Code::TraceError) << graph.error().text();
  return graph.error().message;
}

std::string place(unsigned line) { return fmt::format("language_test.cpp:{}: ", line); }

/// Must throw, with this line and `words`.
void refused_at(unsigned line, const std::string& words, const std::function<void()>& body) {
  try {
    body();
    ADD_FAILURE() << "line " << line << " should be refused: " << words;
  } catch (const TraceUsageError& error) {
    EXPECT_EQ(std::string(error.what()).find(place(line)), 0U) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

// Regression: value() was 0, and array().at(0) a crash.
TEST(Language, DataReadInATrace_IsATraceErrorWithTheLineAndWhatToDo) {
  unsigned line = 0;
  std::string error = error_in_trace([&](const SymFloat& lr, const Tensor&) {
    line = __LINE__ + 1;
    EXPECT_NE(lr.value(), lr.value()) << "a number";
  });
  EXPECT_NE(error.find(place(line) + "value() of a float"), std::string::npos) << error;
  EXPECT_NE(error.find("compute with the float itself"), std::string::npos) << error;
  error = error_in_trace([&](const SymFloat& lr, const Tensor&) {
    line = __LINE__ + 1;
    EXPECT_NE((lr * 2.0 + 1.0).value(), 1) << "a number";
  });
  EXPECT_NE(error.find(place(line) + "value() of a float"), std::string::npos) << error;
  error = error_in_trace([&](const SymFloat&, const Tensor& x) {
    line = __LINE__ + 1;
    EXPECT_EQ(x.array().elements(), 3) << "an array";
  });
  EXPECT_NE(error.find(place(line) + "array() of a tensor"), std::string::npos) << error;
  EXPECT_NE(error.find("return it and read it"), std::string::npos) << error;
  error = error_in_trace([&](const SymFloat&, Tensor x) {
    line = __LINE__ + 1;
    mark_dynamic(x, 0);
  });
  EXPECT_NE(error.find(place(line) + "a mark on a tensor in the traced"), std::string::npos)
      << error;
}

TEST(Language, DataReadOutsideOfATrace_IsThere) {
  const std::vector<double> values{1, 2};
  EXPECT_EQ(Tensor(Array::of(DType::F32, {2}, values)).array().at(1), 2);
  EXPECT_EQ((SymFloat(0.5) * SymFloat(3)).value(), 1.5);
}

// Regression: these read freed memory, or gave the sizes of the call that was traced.
TEST(Language, HandlesThatOutliveTheirTrace_AreRefusedWithTheLine) {
  for (const bool fails : {false, true}) {
    SymFloat lr;
    Tensor x;
    SymInt n, six;
    const std::string error = error_in_trace([&](const SymFloat& f, const Tensor& t) {
      lr = f, x = t, n = t.size(0), six = n + 3;
      if (fails) throw std::runtime_error("stop");
    });
    EXPECT_EQ(error.empty(), !fails);
    const std::string ended = "of frame step is used after its trace has ended; return it";
    refused_at(__LINE__, "a float " + ended, [&] { (void)lr.value(); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)x.array(); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)x.dtype(); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)x.ndim(); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)x.size(0); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)x.sizes(); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)x.numel(); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)exp(x); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)(x + 1.0); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)(lr > 1.0); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)cast(x, DType::F32); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)transpose(x, 0, 0); });
    refused_at(__LINE__, "a tensor " + ended, [&] { (void)tolist(x); });
    refused_at(__LINE__, "an integer " + ended, [&] { (void)six.to_int(); });
    refused_at(__LINE__, "an integer " + ended, [&] { (void)isqrt(n); });
    refused_at(__LINE__, "an integer " + ended, [&] { (void)peek(n, 1); });
    refused_at(__LINE__, "an integer " + ended, [&] { (void)static_cast<bool>(n > 2); });
    refused_at(__LINE__, "an integer " + ended, [&] { (void)guard_or_true(n > 2); });
    refused_at(__LINE__, "an integer " + ended, [&] { (void)statically_true(n > 2); });
    refused_at(__LINE__, "an integer " + ended, [&] { (void)group_any(n > 2); });
    refused_at(__LINE__, "an integer " + ended, [&] { (void)group_all(n > 2); });
    refused_at(__LINE__, "an integer " + ended, [&] { check(n > 2); });
    refused_at(__LINE__, "an integer " + ended, [&] { (void)zeros({n}, DType::F32); });
    EXPECT_THROW((void)static_cast<bool>(x), TraceUsageError);
  }
}

// Regression: a size of another trace was taken as it stood, as a symbol of this one.
TEST(Language, IntegersKeptFromAnotherTrace_AreRefusedWithTheLine) {
  SymInt n, three;  // a symbol, and a constant of its trace
  EXPECT_EQ(
      error_in_trace([&](const SymFloat&, const Tensor& x) { n = x.size(0), three = n - n + 3; }),
      "");
  const std::string ended = "an integer of frame step is used after its trace has ended; return it";
  const std::string error = error_in_trace([&](const SymFloat&, const Tensor& x) {
    const Tensor i = cast(x, DType::I64), zero = slice(i, 0, 0, 1);
    const SymInt own = x.size(0);
    refused_at(__LINE__, ended, [&] { (void)reshape(x, {n}); });
    refused_at(__LINE__, ended, [&] { (void)reshape(x, {three, -1}); });
    refused_at(__LINE__, ended, [&] { (void)expand(x, {n, -1}); });
    refused_at(__LINE__, ended, [&] { (void)slice(x, 0, n, 1); });
    refused_at(__LINE__, ended, [&] { (void)slice(x, 0, 0, n - 1); });
    refused_at(__LINE__, ended, [&] { (void)pad(x, 0, 0, n); });
    refused_at(__LINE__, ended, [&] { (void)split(x, {own, n}, 0); });
    refused_at(__LINE__, ended, [&] { (void)full({own, n}, 1, DType::F32); });
    refused_at(__LINE__, ended, [&] { (void)full(*x.trace(), {n}, 1, DType::F32); });
    refused_at(__LINE__, ended, [&] { (void)zeros(*x.trace(), {three}, DType::F32); });
    refused_at(__LINE__, ended, [&] { (void)iota({own, n}, 1); });
    refused_at(__LINE__, ended, [&] { (void)arange(*x.trace(), n); });
    refused_at(__LINE__, ended, [&] { (void)scalar(*x.trace(), n); });
    refused_at(__LINE__, ended, [&] { (void)(x * n); });
    refused_at(__LINE__, ended, [&] { (void)(x / three); });
    refused_at(__LINE__, ended, [&] { (void)clamp(x, 0, three); });
    refused_at(__LINE__, ended, [&] { (void)(0.5 * three); });
    refused_at(__LINE__, ended, [&] { (void)index_add(n, i, x); });
    refused_at(__LINE__, ended, [&] { (void)segment_ids(i, n); });
    refused_at(__LINE__, ended, [&] { (void)one_hot(i, n, DType::F32); });
    refused_at(__LINE__, ended, [&] { (void)repeat_interleave(x, n, 0); });
    refused_at(__LINE__, ended, [&] { (void)repeat_interleave(zero, Sizes{n}, 0); });
    refused_at(__LINE__, ended, [&] { (void)all_to_all_single(x, {n}, {own}); });
    refused_at(__LINE__, ended, [&] { (void)all_to_all_single(x, {own}, {n}); });
    refused_at(__LINE__, "integers of two traces meet", [&] { (void)(own + n); });
    refused_at(__LINE__, "integers of two traces meet", [&] { (void)(own == n); });
    // A number that was asked for is one.
    EXPECT_EQ(full(*x.trace(), {3}, 1, DType::F32).size(0).text(), "3");
  });
  EXPECT_EQ(error, "");
}

// Regression: these named no line.
TEST(Language, FloatsKeptFromAnotherTrace_AreRefusedWithTheLineOfTheOperator) {
  SymFloat kept;
  EXPECT_EQ(error_in_trace([&](const SymFloat& lr, const Tensor&) { kept = lr; }), "");
  const std::string error = error_in_trace([&](const SymFloat& lr, const Tensor& x) {
    const std::string words = "a tensor of another trace is used in frame step";
    refused_at(__LINE__, words, [&] { (void)(lr + kept); });
    refused_at(__LINE__, words, [&] { (void)(lr - kept); });
    refused_at(__LINE__, words, [&] { (void)(lr * kept); });
    refused_at(__LINE__, words, [&] { (void)(lr / kept); });
    refused_at(__LINE__, words, [&] { (void)(x * kept); });
    const std::string ended = "a tensor of frame step is used after its trace has ended";
    refused_at(__LINE__, ended, [&] { (void)(kept * 2.0); });
    refused_at(__LINE__, ended, [&] { (void)(2 - kept); });
    refused_at(__LINE__, ended, [&] { (void)(kept / kept); });
    // What is computed keeps its line, and is a float still: it takes the tensor's dtype.
    const SymFloat rate = 1 - lr * 0.5 / (lr + 2) + lr * lr;
    EXPECT_EQ((x * rate).dtype(), DType::F32);
    EXPECT_EQ(x.trace()->node(rate.tensor().node()).where.text() + ": ", place(__LINE__ - 2));
  });
  EXPECT_EQ(error, "");
}

TEST(Language, DtypesThatDiffer_AreRefused) {
  refused([](Trace& t) { (void)(in(t, "w") + cast(in(t, "w"), DType::F64)); },
          "cast\\(\\) one of them");
  refused([](Trace& t) { (void)(cast(in(t, "w"), DType::I64) * 0.5); }, "cast\\(\\) the tensor");
  refused([](Trace& t) { (void)softplus(cast(in(t, "w"), DType::I64)); }, "cast first");
  refused([](Trace& t) { (void)(in(t, "w") & in(t, "w")); }, "takes integers");
  refused([](Trace& t) { (void)where(in(t, "w"), in(t, "w"), 1.0); }, "must be a bool tensor");
  refused([](Trace& t) { (void)((in(t, "w") < 1.0) % true); }, "takes numbers");
  refused([](Trace& t) { (void)tolist(in(t, "w")); }, "takes i64");
  refused(
      [](Trace& t) {
        (void)zeros(t, {2}, DType::Bool);
        (void)full(t, {2}, 256, DType::U8);
      },
      "not a value of u8");
  refused([](Trace& t) { (void)(cast(in(t, "w"), DType::I64) + (std::int64_t{1} << 53)); },
          "not exact");
}

TEST(Language, NothingOfTheTrace_IsRefusedWithTheWayOut) {
  refused([](Trace&) { (void)zeros({2, 3}, DType::F32); }, "pass the Trace");
  refused([](Trace&) { (void)relu(Tensor()); }, "compiled frame");
  refused([](Trace& t) { (void)(in(t, "w") + Tensor()); }, "an empty tensor");
}

TEST(Language, CollectivesOnRowsThatDoNotFit_AreRefused) {
  refused([](Trace& t) { (void)all_to_all_single(in(t, "x")); },
          "pass splits to all_to_all_single");
  refused([](Trace& t) { (void)send_recv(in(t, "x"), {{Rank{0}, Rank{2}}}); }, "no rank 2");
  refused(
      [](Trace& t) {
        (void)send_recv(in(t, "x"), {{Rank{0}, Rank{1}}, {Rank{0}, Rank{0}}});
      },
      "rank 0 sends twice");
  refused(
      [](Trace& t) {
        (void)all_to_all_single(in(t, "w"), {1, 2}, {1, 2});
      },
      "cannot match on every rank");
  refused(
      [](Trace& t) {
        (void)all_to_all_single(in(t, "w"), {1, 1, 1}, {1, 2});
      },
      "for a group of 2");
  refused([](Trace& t) { (void)reduce_scatter(in(t, "w")); }, "cannot be shared");
  refused([](Trace& t) { (void)broadcast(in(t, "w"), Rank{2}); }, "no rank 2");
}

TEST(Language, ReshapeWithMinusOne_CancelsSymbolically) {
  const Result<Graph> graph = traced([](Trace& t) {
    const Tensor x = in(t, "x");
    EXPECT_EQ(reshape(x, {-1, 2}).size(0).text(), "2*s1");
    EXPECT_EQ(reshape(x, {2, -1, 2}).size(1).text(), "s1");
    EXPECT_EQ(reshape(x, {x.size(0), -1}).size(1).text(), "4");
    EXPECT_EQ(reshape(x, {-1}).size(0).text(), "4*s1");
    t.output("x", reshape(x, {-1}));
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_TRUE(graph->guards.empty());
  EXPECT_TRUE(assert_texts(*graph).empty()) << graph->text();
}

TEST(Language, Integers_CalculateAsTheyShould) {
  const SymInt seven = 7;
  EXPECT_EQ((seven / 2).to_int(), 3);
  EXPECT_EQ((-seven / 2).to_int(), -4);
  EXPECT_EQ((-seven % 4).to_int(), 1);
  EXPECT_EQ(min(seven, 3).to_int(), 3);
  EXPECT_EQ(max(3, seven).to_int(), 7);
  EXPECT_TRUE(static_cast<bool>(seven + 1 > 7));
  EXPECT_TRUE(statically_true(seven == 7));
  EXPECT_THROW((void)(seven / 0), TraceUsageError);
  const Result<Graph> graph = traced([](Trace& t) {
    const SymInt n = t.int_input(t.source("n")), rows = in(t, "x").size(0);
    EXPECT_EQ((2 * rows + n - 1).text(), (n + rows + rows - 1).text());
    EXPECT_TRUE(statically_true(rows >= 0));
    EXPECT_FALSE(statically_true(rows >= 1));
    EXPECT_FALSE(statically_true(n >= 0)) << "an int may be negative";
    t.output("n", scalar(n));
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_TRUE(graph->guards.empty());
}

TEST(Language, Check_IsAnAssertNotAGuard_AndTeaches) {
  const Result<Graph> graph = traced([](Trace& t) {
    const SymInt n = t.int_input(t.source("n"));
    check(n <= 8, "too many steps");
    check(n <= 9, "known by then");
    if (n > 8) ADD_FAILURE();
    t.output("n", scalar(n));
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_TRUE(graph->guards.empty());
  ASSERT_EQ(assert_texts(*graph).size(), 1U);
}

TEST(Autodiff, WhatHasNoGradient_IsRefusedClearly) {
  refused([](Trace& t) { (void)grad(sum(broadcast(in(t, "w"), Rank{0})), {in(t, "w")}); },
          "broadcast has no gradient; detach");
  refused(
      [](Trace& t) {
        (void)grad(sum(all_reduce(in(t, "w"), collectives::Reduce::Max)), {in(t, "w")});
      },
      "no gradient; detach");
  refused([](Trace& t) { (void)grad(in(t, "w"), {in(t, "w")}); }, "0-d floating-point loss");
  refused([](Trace& t) { (void)grad(sum(in(t, "w")), {cast(in(t, "w"), DType::I64)}); },
          "only floating-point");
}

TEST(Autodiff, IndependentInput_HasGradientZero) {
  const Result<Graph> graph = traced([](Trace& t) {
    const std::vector<Tensor> g = grad(sum(in(t, "w")), {in(t, "x"), in(t, "w"), in(t, "w")});
    t.output("x", g[0]);
    EXPECT_EQ(g[1].node(), g[2].node());
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_EQ(graph->nodes[graph->outputs[0].node].op, Op::Full);
  EXPECT_EQ(meta_text(graph->nodes[graph->outputs[0].node].meta), "f32[s1, 4]");
}

TEST(Autodiff, DetachedValue_PassesNoGradient) {
  const Result<Graph> graph = traced([](Trace& t) {
    const Tensor w = in(t, "w");
    const Tensor g = grad(sum(detach(w * w) * w), {w})[0];
    t.output("g", g);
    EXPECT_EQ(g.trace()->node(g.node()).op, Op::Mul) << "one contribution only";
  });
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
}

TEST(Autodiff, Cast_TakesTheGradientBackToItsDtype) {
  const Result<Graph> graph = traced([](Trace& t) {
    const Tensor w = in(t, "w");
    const Tensor g = grad(sum(cast(w, DType::F64) * 3.0), {w})[0];
    EXPECT_EQ(g.dtype(), DType::F32);
    t.output("g", g);
  });
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
}

TEST(Autodiff, AllToAll_GoesBackWithTheSameCountsSwapped) {
  const Decision decision = DecisionBuilder()
                                .tensor("counts", DType::I64, {2})
                                .tensor("x", DType::F32, {dynamic(5), 4})
                                .get();
  const Result<Graph> graph = trace(test::setup(decision, 2), [](Trace& t) {
    const Tensor x = in(t, "x");
    const std::vector<SymInt> send = tolist(in(t, "counts"));
    const std::vector<SymInt> receive = tolist(all_to_all_single(in(t, "counts")));
    const Tensor y = all_to_all_single(x, receive, send);
    t.output("dx", grad(sum(y * y), {x})[0]);
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_EQ(std::regex_replace(graph->text(), std::regex("   # .*"), ""), R"(graph step
  s0 = x.size(0)
  %0: i64[2] = input("counts")
  %1: f32[s0, 4] = input("x")
  u0, u1 = tolist(%0)
  assert(u0 >= 0, "all_to_all_single: a split is not negative")
  assert(u1 >= 0, "all_to_all_single: a split is not negative")
  assert(s0 == u0 + u1, "all_to_all_single: in_splits add up to the rows of the tensor")
  %6: i64[2] = all_to_all_single(%0, in=[1, 1], out=[1, 1])
  u2, u3 = tolist(%6)
  assert(u2 >= 0, "all_to_all_single: a split is not negative")
  assert(u3 >= 0, "all_to_all_single: a split is not negative")
  %10: f32[u2 + u3, 4] = all_to_all_single(%1, in=[u0, u1], out=[u2, u3])
  %11: f32[] = full(1)
  %12: f32[1, 1] = reshape(%11)
  %13: f32[u2 + u3, 4] = expand(%12)
  %14: f32[u2 + u3, 4] = mul(%13, %10)
  %15: f32[u2 + u3, 4] = add(%14, %14)
  %16: f32[u0 + u1, 4] = all_to_all_single(%15, in=[u2, u3], out=[u0, u1])
  %17: f32[s0, 4] = reshape(%16)
  dx = %17
)");
}

}  // namespace
}  // namespace lockstep::worker::language_test
