// Keys as inputs of frames: values of the run, of which a Key is compared between ranks, and which
// come back as keys.
#include <concepts>
#include <limits>

#include "compiled_graph.h"
#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/language/inputs.h>
#include <lockstep/worker/tensor/language/random_ops.h>

namespace lockstep::worker::key_inputs_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;

Graph must(Result<Graph> graph) {
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? std::move(*graph) : Graph{};
}
Array number(std::int64_t value) { return integers({}, {value}); }

struct Batch {
  Tensor x;
  Key key{1};
  std::vector<RankKey> own{RankKey(2)};
  SymInt step = 3;
  template <class V>
  void fields(V& v) {
    v("x", x), v("key", key), v("own", own), v("step", step);
  }
};

/// The graph of a frame with these inputs, as the first call of a group of one makes it.
template <class Body>
Graph traced(Batch& batch, Body body) {
  InputTree tree;
  Observation seen;
  EXPECT_TRUE(flatten(batch, tree, seen).has_value());
  Decision decision = DecisionBuilder()
                          .tensor("key", DType::I64, {})
                          .tensor("own[0]", DType::I64, {})
                          .integer("step", dynamic(3))
                          .tensor("x", DType::F32, {dynamic(4)})
                          .get();
  TraceSetup setup = test::setup(decision);
  setup.observation = &seen;
  return must(trace(setup, [&](Trace& t) { body(t, traced_like(batch, tree, t)); }));
}

TEST(KeyInputs, AreRuntimeValues_OfWhichOnlyAKeyIsCompared) {
  Batch batch{Array::zeros(DType::F32, {4})};
  InputTree tree;
  Observation seen;
  ASSERT_TRUE(flatten(batch, tree, seen).has_value());
  EXPECT_EQ(seen.scalars, (std::vector<std::int64_t>{1, 2}));
  const auto list = seen.list;
  batch.key = Key(std::numeric_limits<std::int64_t>::min()), batch.own[0] = RankKey(-1);
  ASSERT_TRUE(flatten(batch, tree, seen).has_value());
  EXPECT_EQ(seen.list, list);
  EXPECT_EQ(seen.scalars,
            (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(), -1}));
  EXPECT_EQ(seen.values, (std::vector<std::int64_t>{3, 4}));
  std::vector<InputValue> values;
  input_values(batch, tree, values);
  EXPECT_EQ(*values[0].array.data_as<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(*values[1].array.data_as<std::int64_t>(), -1);

  shapes::Fingerprint first;
  for (const std::int64_t seed : {0, 1, 5}) {
    batch.key = Key(seed);
    const Graph graph = traced(batch, [](Trace& t, const Batch& in) {
      t.output("y", uniform(in.key, {in.x.size(0)}) + uniform(in.own[0], {in.x.size(0)}));
    });
    EXPECT_TRUE(graph.guards.empty()) << graph.text();
    ASSERT_EQ(graph.uniform.size(), 1U);
    EXPECT_EQ(graph.uniform[0].where.file, "the Key input key");
    ASSERT_EQ(graph.host_values().size(), 1U);
    EXPECT_EQ(graph.host_values()[0].text(), "key.item()");
    if (seed == 0) first = graph.fingerprint();
    EXPECT_EQ(graph.fingerprint(), first) << seed;
  }
}

TEST(KeyInputs, FoldedWithANumber_NeedThatNumberAlike) {
  static_assert(std::same_as<decltype(Key().fold_in(SymInt(1))), Key>);
  static_assert(std::same_as<decltype(Key().fold_in(Tensor())), RankKey>);
  static_assert(std::same_as<decltype(RankKey().fold_in(SymInt(1))), RankKey>);
  Batch batch{Array::zeros(DType::F32, {4})};
  const Graph graph = traced(batch, [](Trace& t, const Batch& in) {
    const Key key = in.key.fold_in(in.step).split(2)[1].fold_in(7);
    const RankKey own = in.own[0].fold_in(in.x.size(0));
    t.output("y", uniform(key, {in.x.size(0)}) + uniform(own, {in.x.size(0)}));
  });
  ASSERT_EQ(graph.uniform.size(), 2U) << graph.text();
  EXPECT_EQ(graph.uniform[1].what, "Key::fold_in");
  EXPECT_EQ(graph.uniform[1].expr.text(), "s0");
}

TEST(KeyInputs, ReturnedKeys_ComeBackAsKeys) {
  Batch batch{Array::zeros(DType::F32, {4})};
  Batch result;
  const Graph graph = traced(batch, [&](Trace& t, Batch in) {
    in.key = in.key.split(1)[0];
    in.own[0] = in.own[0].fold_in(3);
    add_outputs(in, t);
    result = in;
  });
  ASSERT_EQ(graph.outputs.size(), 4U);
  const std::vector<Array> outputs{batch.x.array(), number(70), number(80), number(90)};
  const Batch filled = filled_like(result, outputs);
  EXPECT_EQ(filled.key.value(), 70);
  EXPECT_EQ(filled.own[0].value(), 80);
}

}  // namespace
}  // namespace lockstep::worker::key_inputs_test
