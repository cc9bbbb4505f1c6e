// Ops and calls of the host that users bring: traced, interpreted, compiled for the host and for
// devices, on several ranks.
#include <optional>
#include <stdexcept>

#include "joint_error.h"
#include "ops/own_ops.h"
#include "tracing.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/error_sync_points.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>
#include <lockstep/worker/tensor/trace/autocast.h>
#include <lockstep/worker/tensor/user_ops/host_call.h>

namespace lockstep::worker::own_op_test {
namespace {

using test::dynamic;
using Body = std::function<void(Trace&, const Tensor& x, const Tensor& w)>;

/// Of x f64 [s0, s1] and w f64 [s1].
Result<Graph> traced(const Body& body, int ranks = 1) {
  Decision decision = test::DecisionBuilder()
                          .tensor("w", DType::F64, {dynamic(4, 0)})
                          .tensor("x", DType::F64, {dynamic(5, 0), dynamic(4, 0)})
                          .get();
  decision.symbols.pop_back();
  decision.sources[1].dims[1].symbol = 0;
  return trace(test::setup(decision, ranks),
               [&](Trace& t) { body(t, t.tensor_input(1), t.tensor_input(0)); });
}
Graph good(const Body& body, int ranks = 1) {
  auto graph = traced(body, ranks);
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? *std::move(graph) : Graph();
}
std::string refused(const Body& body) {
  const auto graph = traced(body);
  EXPECT_FALSE(graph.has_value());
  return graph ? std::string() : graph.error().text();
}
testing::AssertionResult says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

std::vector<Inputs> inputs_of(int ranks, std::int64_t n, std::int64_t m) {
  std::mt19937_64 random(17);
  std::vector<Inputs> out(static_cast<std::size_t>(ranks));
  for (Inputs& inputs : out) {
    inputs["x"] = random_array(random, DType::F64, {n, m});
    inputs["w"] = random_array(random, DType::F64, {m});
  }
  return out;
}

/// A chain of two own ops and its gradients.
Body chain_of(const OwnOp& swish) {
  return [swish](Trace& t, const Tensor& x, const Tensor& w) {
    const Tensor y = test::weighted_rows()({swish({x * 1.5}), w});
    t.output("y", y);
    const std::vector<Tensor> grads = grad(sum(y * y), {x, w});
    t.output("by x", grads[0]);
    t.output("by w", grads[1]);
  };
}

TEST(OwnOp, EveryWayOfIt_GivesWhatItsReferenceGives) {
  const OwnOp whole = test::swish();
  const auto plain = [](Trace& t, const Tensor& x, const Tensor& w) {
    const Tensor y = sum((x * 1.5 * sigmoid(x * 1.5)) * w, {1});
    t.output("y", y);
    const std::vector<Tensor> grads = grad(sum(y * y), {x, w});
    t.output("by x", grads[0]);
    t.output("by w", grads[1]);
  };
  const Graph expected = good(plain);
  for (const bool function : {true, false})
    for (const bool host : {true, false})
      for (const bool cuda : {true, false}) {
        OwnDefinition part = test::swish_definition();
        if (!function) part.function = nullptr;
        if (!host) part.host_text.clear();
        if (!cuda) part.cuda_text.clear();
        const OwnOp swish(part, [](const BackwardCall& call) {
          const Tensor s = sigmoid(call.inputs[0]);
          return std::vector{call.grads[0] * (s + call.outputs[0] * (1.0 - s))};
        });
        OnRanks ranks(good(chain_of(swish)), 1);
        for (const std::int64_t n : {0, 1, 2, 5})
          for (const std::int64_t m : {0, 1, 5}) {
            SCOPED_TRACE(testing::Message() << "n " << n << " m " << m << " function " << function
                                            << " host " << host << " cuda " << cuda);
            const auto inputs = inputs_of(1, n, m);
            const auto run = ranks.everywhere(inputs);
            ASSERT_TRUE(run.ranks[0]->has_value()) << run.ranks[0]->error().text();
            EXPECT_TRUE(same(**run.ranks[0], run_interpreted(expected, inputs[0]).value(), 1e-12));
          }
      }
}

TEST(OwnOp, ItsText_IsInTheProgramOfItsTargetAlone) {
  OwnDefinition part = test::swish_definition();
  part.host_text += "// for the host";
  part.cuda_text += "// for devices";
  const Graph graph =
      good([&](Trace& t, const Tensor& x, const Tensor&) { t.output("y", OwnOp(part)({x})); });
  const std::string host = generate(graph, Target::Host)->text(),
                    cuda = generate(graph, Target::Cuda)->text();
  EXPECT_TRUE(says(host, "// for the host"));
  EXPECT_TRUE(says(host, "#line 1 \"<stdin>:test.swish\""));
  EXPECT_FALSE(says(host, "host_call"));
  EXPECT_FALSE(says(host, "// for devices"));
  EXPECT_TRUE(says(cuda, "// for devices"));
  EXPECT_FALSE(says(cuda, "// for the host"));
  // Without text nothing of it is built: no address gets into what ranks share.
  const Graph called = good([&](Trace& t, const Tensor& x, const Tensor& w) {
    t.output("y", test::weighted_rows()({x, w}));
  });
  EXPECT_EQ(generate(called, Target::Host)->unit_count(), 0);
  EXPECT_TRUE(says(generate(called, Target::Cuda)->text(), "host_call"));
}

TEST(OwnOp, WhateverIsTextInIt_IsInTheGraphsFingerprintAndText) {
  const auto graph_of = [](const OwnDefinition& definition) {
    return good(
        [&](Trace& t, const Tensor& x, const Tensor&) { t.output("y", OwnOp(definition)({x})); });
  };
  const Graph graph = graph_of(test::swish_definition());
  EXPECT_EQ(graph.fingerprint(), graph_of(test::swish_definition()).fingerprint());
  EXPECT_TRUE(says(graph.text(), "own \"test.swish\""));
  const std::vector<std::function<void(OwnDefinition&)>> changes = {
      [](OwnDefinition& d) { d.name += "2"; },
      [](OwnDefinition& d) { d.version = "2"; },
      [](OwnDefinition& d) { d.host_text += " "; },
      [](OwnDefinition& d) { d.cuda_text += " "; },
      [](OwnDefinition& d) { d.function = nullptr; },
      [](OwnDefinition& d) { d.claims.pure = false; },
      [](OwnDefinition& d) { d.claims.deterministic = false; },
      [](OwnDefinition& d) { d.claims.may_alias = true; },
      [](OwnDefinition& d) {
        d.shape_rule = [](auto in) { return TensorMeta{DType::F32, in[0].sizes}; };
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    OwnDefinition other = test::swish_definition();
    changes[i](other);
    const Graph changed = graph_of(other);
    EXPECT_NE(changed.fingerprint(), graph.fingerprint()) << i;
    EXPECT_NE(changed.text(), graph.text()) << i;
  }
}

TEST(OwnOp, EqualCalls_AreOneIfItIsPure) {
  for (const bool pure : {true, false}) {
    OwnDefinition definition = test::swish_definition();
    definition.claims.pure = pure;
    const Graph graph = good([&](Trace& t, const Tensor& x, const Tensor&) {
      const OwnOp op(definition);
      t.output("y", op({x}) + op({x}));
      (void)op({x + 1.0});  // which nobody needs
    });
    EXPECT_EQ(std::ranges::count(graph.nodes, Op::Own, &Node::op), pure ? 1 : 3);
  }
}

TEST(OwnOp, OfUniformValues_IsUniformIfItIsDeterministic) {
  for (const bool deterministic : {true, false}) {
    OwnDefinition count;
    count.name = "test.count";
    count.claims.deterministic = deterministic;
    count.shape_rule = [](auto) { return TensorMeta{DType::I64, {}}; };
    count.reference = [](auto in, Array& out) { out.set(0, in[0].elements()); };
    const Graph graph = good(
        [&](Trace& t, const Tensor& x, const Tensor&) {
          const SymInt rows = item(OwnOp(count)({all_gather(sum(x, {0, 1}, Keep::Keep))}));
          check(rows >= 0);
          check(rows < 100);
          t.output("y", all_reduce(zeros({rows}, DType::F64)));
        },
        2);
    const ErrorSyncPoints points = error_sync_points(graph);
    const auto compared = std::ranges::any_of(points.same, [](auto& s) { return !s.empty(); });
    EXPECT_EQ(compared, !deterministic) << graph.text();
  }
}

TEST(OwnOp, UnderAutocast_TakesItsOperandsAsTheyAre) {
  std::vector<DType> seen;
  OwnDefinition rows = test::weighted_rows_definition();
  rows.shape_rule = [&seen, whole = rows.shape_rule](std::span<const TensorMeta> inputs) {
    for (const TensorMeta& input : inputs) seen.push_back(input.dtype);
    return whole(inputs);
  };
  good([&](Trace& t, const Tensor& x, const Tensor& w) {
    const Tensor half = cast(x, DType::BF16);
    const Autocast low(x, DType::F16);
    t.output("y", OwnOp(rows)({half, w}));
    t.output("z", host_call("test.host_rows", {half, w}, rows.shape_rule, rows.reference));
  });
  ASSERT_GE(seen.size(), 4U);
  for (std::size_t i = 0; i < seen.size(); ++i)
    EXPECT_EQ(seen[i], i % 2 == 0 ? DType::BF16 : DType::F64) << i;
}

TEST(OwnOp, ADefinitionThatIsNone_IsRefusedInASentence) {
  const auto message = [](const std::function<void(OwnDefinition&)>& change) {
    OwnDefinition definition = test::swish_definition();
    change(definition);
    return refused(
        [&](Trace& t, const Tensor& x, const Tensor&) { t.output("y", OwnOp(definition)({x})); });
  };
  const std::string taken = message([](OwnDefinition& d) { d.name = "relu"; });
  EXPECT_TRUE(says(taken, "own_op_test.cpp:"));
  EXPECT_TRUE(says(taken, "the name relu is taken by an op of lockstep; call it 'yours.relu'"));
  EXPECT_TRUE(says(message([](OwnDefinition& d) { d.name = ""; }), "'' is no name of an op"));
  EXPECT_TRUE(says(message([](OwnDefinition& d) { d.name = "a b"; }), "'a b' is no name of an op"));
  EXPECT_TRUE(says(message([](OwnDefinition& d) { d.shape_rule = nullptr; }), "has no shape rule"));
  EXPECT_TRUE(says(message([](OwnDefinition& d) { d.reference = nullptr; }), "has no reference"));
  const std::string negative = message([](OwnDefinition& d) {
    d.shape_rule = [](auto in) { return TensorMeta{in[0].dtype, {-3}}; };
  });
  EXPECT_TRUE(says(negative, "the shape rule gives f64[-3], and a size cannot be negative"));
  const std::string refusing =
      refused([](Trace& t, const Tensor&, const Tensor& w) { t.output("y", test::swish()({w})); });
  EXPECT_TRUE(says(refusing, "test.swish does not take (f64[s0]): it takes one matrix of f64"));
  EXPECT_TRUE(says(refusing, "own_op_test.cpp:"));
  const std::string two = refused([](Trace& t, const Tensor& x, const Tensor&) {
    OwnDefinition other = test::swish_definition();
    other.version = "2";
    t.output("y", test::swish()({x}) + OwnOp(other)({x}));
  });
  EXPECT_TRUE(says(two, "frame step uses two ops that are called test.swish"));
}

TEST(OwnOp, AGradientThatIsNoneOrDoesNotFit_IsRefusedInASentence) {
  const auto message = [](const BackwardFunction& gradient) {
    const OwnOp op(test::swish_definition(), gradient);
    return refused([&](Trace& t, const Tensor& x, const Tensor&) {
      t.output("g", grad(sum(op({x})), {x})[0]);
    });
  };
  EXPECT_TRUE(says(message({}), "test.swish has no gradient; give it one, or detach()"));
  EXPECT_TRUE(says(message([](const BackwardCall&) { return std::vector<Tensor>{}; }),
                   "test.swish: 0 gradients for 1 inputs"));
  EXPECT_TRUE(says(message([](const BackwardCall& c) { return std::vector{sum(c.grads[0])}; }),
                   "test.swish: gradient 0 is f64[], its input f64[s1, s0]"));
}

/// The error of a graph of this op alone, which is the same however it is run.
std::string failure_of(const OwnDefinition& definition) {
  OnRanks ranks(good([&](Trace& t, const Tensor& x, const Tensor&) {
                  t.output("y", OwnOp(definition)({x}));
                }),
                1);
  const auto run = ranks.everywhere(inputs_of(1, 3, 2));
  EXPECT_FALSE(run.ranks[0]->has_value());
  return run.ranks[0]->has_value() ? std::string() : run.ranks[0]->error().text();
}

TEST(OwnOp, AReferenceThatBreaksItsRule_FailsTheRunInASentence) {
  OwnDefinition definition = test::swish_definition();
  definition.function = nullptr;
  definition.host_text.clear();
  definition.cuda_text.clear();
  definition.reference = [](auto, Array& out) { out = Array::zeros(DType::F64, {3}); };
  const std::string rank = failure_of(definition);
  EXPECT_TRUE(says(rank, "op test.swish at own_op_test.cpp:"));
  EXPECT_TRUE(says(rank, "gave f64[3], but its shape rule says f64[3, 2]"));
  definition.reference = [](auto, Array& out) { out = Array(); };
  EXPECT_TRUE(says(failure_of(definition), "gave nothing, but its shape rule says f64[3, 2]"));
  definition.reference = [](auto, Array&) { throw std::runtime_error("no such table"); };
  EXPECT_TRUE(says(failure_of(definition), "threw: no such table"));
  definition.reference = [](auto, Array&) { throw 3; };
  EXPECT_TRUE(says(failure_of(definition), "threw something that is not a std::exception"));
  definition.reference = [](auto in, Array& out) { out = in[0]; };
  EXPECT_TRUE(says(failure_of(definition), "gave the memory of its input 0 as its result"));
}

TEST(OwnOp, AnInputAsTheResult_IsCopiedWhereThatIsClaimed) {
  OwnDefinition same_value = test::swish_definition();
  same_value.name = "test.same";
  same_value.function = nullptr;
  same_value.host_text.clear();
  same_value.cuda_text.clear();
  same_value.claims.may_alias = true;
  same_value.reference = [](auto in, Array& out) { out = in[0]; };
  OnRanks ranks(good([&](Trace& t, const Tensor& x, const Tensor&) {
                  t.output("y", OwnOp(same_value)({x * 2.0}) + x);
                }),
                1);
  const auto inputs = inputs_of(1, 3, 2);
  const auto run = ranks.everywhere(inputs);
  ASSERT_TRUE(run.ranks[0]->has_value());
  for (int i = 0; i < 6; ++i) EXPECT_EQ((**run.ranks[0])[0].at(i), inputs[0].at("x").at(i) * 3);
}

/// Tells `log` of what it is called with; adds one to it.
Tensor told(std::vector<double>& log, const std::string& name, const Tensor& x) {
  return host_call(
      name, {x}, [](auto in) { return in[0]; },
      [&log](auto in, Array& out) {
        for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, in[0].at(i) + 1);
        log.push_back(in[0].elements() == 0 ? -1 : in[0].at(0));
      });
}

TEST(HostCall, Calls_RunInTheirOrderAndNoneIsLeftOut) {
  std::vector<double> log;
  const Graph graph = good([&](Trace& t, const Tensor& x, const Tensor&) {
    const Tensor first = told(log, "log.first", x * 0.0 + 10.0);
    (void)told(log, "log.unused", x * 0.0 + 20.0);
    (void)told(log, "log.unused", x * 0.0 + 20.0);
    t.output("y", told(log, "log.last", first * 2.0));
  });
  OnRanks ranks(graph, 1);
  const auto run = ranks.everywhere(inputs_of(1, 2, 3));
  ASSERT_TRUE(run.ranks[0]->has_value()) << run.ranks[0]->error().text();
  for (int i = 0; i < 6; ++i) EXPECT_EQ((**run.ranks[0])[0].at(i), 23);
  std::vector<double> expected;
  for (int way = 0; way < 5; ++way) expected.insert(expected.end(), {10, 20, 20, 22});
  EXPECT_EQ(log, expected);
  for (const std::int64_t n : {0, 1}) {
    const auto small = ranks.everywhere(inputs_of(1, n, 2));
    ASSERT_TRUE(small.ranks[0]->has_value());
    EXPECT_EQ((**small.ranks[0])[0].sizes(), (std::vector<std::int64_t>{n, 2}));
  }
}

TEST(HostCall, ThatThrowsOnOneRank_IsTheErrorOfAll) {
  for (const int guilty : {0, 2}) {
    const Graph graph = good(
        [](Trace& t, const Tensor& x, const Tensor&) {
          const Tensor id = cast(t.rank(), DType::F64);
          const Tensor y = host_call(
              "test.picky", {x, id}, [](auto in) { return in[0]; },
              [](auto in, Array& out) {
                if (in[1].at(0) == in[0].at(0)) throw std::runtime_error("I do not like it");
                out = in[0].clone();
              });
          t.output("y", all_reduce(sum(y)) + 0.0 * sum(y));
        },
        3);
    std::vector<Inputs> inputs = inputs_of(3, 2, 2);
    for (Inputs& rank : inputs) rank["x"].set(0, guilty);
    add_rank(inputs);
    OnRanks ranks(graph, 3);
    const auto run = ranks.everywhere(inputs);
    EXPECT_TRUE(joint(run, RankSet::of(Rank{guilty})));
    const std::string text = run.ranks[0]->error().text();
    EXPECT_TRUE(says(text, "host_call test.picky at own_op_test.cpp:"));
    EXPECT_TRUE(says(text, "threw: I do not like it"));
  }
}

TEST(HostCall, ItsPlaceAmongWhatRanksDoTogether_IsCompared) {
  std::vector<double> log;
  const auto graph_of = [&](const std::string& first, const std::string& second, bool cut) {
    return good([&](Trace& t, const Tensor& x, const Tensor&) {
      const Tensor some = cut ? slice(x, 0, 0, x.size(0)) * sum(x) : x;
      (void)told(log, first, cut ? sum(some, {0}) : some);
      (void)told(log, second, some);
      t.output("y", all_reduce(sum(x)));
    });
  };
  const Graph graph = graph_of("a", "b", false);
  EXPECT_EQ(graph.joint_nodes().size(), 3U);
  EXPECT_NE(graph_of("b", "a", false).collectives_fingerprint(), graph.collectives_fingerprint());
  EXPECT_NE(graph_of("a", "c", false).collectives_fingerprint(), graph.collectives_fingerprint());
  // What a rank computes with them is its own affair.
  EXPECT_EQ(graph_of("a", "b", true).collectives_fingerprint(), graph.collectives_fingerprint());
}

TEST(HostCall, Refused_InASentence) {
  std::vector<double> log;
  EXPECT_TRUE(says(refused([&](Trace& t, const Tensor& x, const Tensor&) {
                     t.output("y", told(log, "exp", x));
                   }),
                   "the name exp is taken by an op of lockstep"));
  EXPECT_TRUE(says(refused([&](Trace& t, const Tensor& x, const Tensor&) {
                     t.output("g", grad(sum(told(log, "log.x", x)), {x})[0]);
                   }),
                   "log.x has no gradient; give it one by custom_backward, or detach()"));
  EXPECT_TRUE(log.empty());
}

}  // namespace
}  // namespace lockstep::worker::own_op_test
