#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/language/inputs.h>
#include <lockstep/worker/tensor/language/operators.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::inputs_test {
namespace {

struct Layer {
  Tensor w1, w2;
  template <class V>
  void fields(V& v) {
    v("w1", w1);
    v("w2", w2);
  }
};
struct Params {
  std::vector<Layer> layers;
  std::map<std::string, Tensor> extra;
  template <class V>
  void fields(V& v) {
    v("layers", layers);
    v("extra", extra);
  }
};
struct Batch {
  Tensor tokens;
  SymInt step = 3;
  std::int64_t width = 9;
  SymFloat lr = 0.5;
  bool training = true;
  template <class V>
  void fields(V& v) {
    v("tokens", tokens);
    v("step", step);
    v("width", width);
    v("lr", lr);
    v("training", training);
  }
};

Tensor tensor(std::vector<std::int64_t> sizes, DType dtype = DType::F32) {
  return Array::zeros(dtype, std::move(sizes));
}
Params params(std::size_t layers) {
  Params p;
  for (std::size_t i = 0; i < layers; ++i) p.layers.push_back({tensor({2, 3}), tensor({3, 2})});
  p.extra = {{"k", tensor({7})}, {"a\"b", tensor({})}};
  return p;
}
std::vector<std::string> names(const Observation& o) {
  std::vector<std::string> out;
  for (const SourceSpec& source : o.list->sources()) out.push_back(source.name);
  return out;
}

TEST(Inputs, NestedValues_HaveReadableSortedNames) {
  Batch batch{tensor({5, 10}, DType::I64)};
  Params p = params(2);
  auto all = arguments({"params", "batch"}, p, batch);
  InputTree tree;
  Observation seen;
  ASSERT_TRUE(flatten(all, tree, seen).has_value());
  EXPECT_EQ(names(seen),
            (std::vector<std::string>{
                "batch.lr", "batch.step", "batch.tokens", "batch.training", "batch.width",
                R"(params.extra["a\"b"])", R"(params.extra["k"])", "params.layers[0].w1",
                "params.layers[0].w2", "params.layers[1].w1", "params.layers[1].w2"}));
  EXPECT_EQ(seen.values, (std::vector<std::int64_t>{3, 5, 10, 1, 9, 7, 2, 3, 3, 2, 2, 3, 3, 2}));
  EXPECT_TRUE(seen.marks.empty());
  EXPECT_EQ(seen.list->sources()[2].dtype, DType::I64);
}

TEST(Inputs, SameStructure_KeepsItsSourceList) {
  Batch batch{tensor({5, 10})};
  InputTree tree;
  Observation seen;
  ASSERT_TRUE(flatten(batch, tree, seen).has_value());
  const auto list = seen.list;
  batch.tokens = tensor({0, 4});
  batch.step = 8;
  batch.training = false;
  ASSERT_TRUE(flatten(batch, tree, seen).has_value());
  EXPECT_EQ(seen.list, list);
  EXPECT_EQ(seen.values, (std::vector<std::int64_t>{8, 0, 4, 0, 9}));
}

TEST(Inputs, OtherStructure_MakesAnotherList) {
  InputTree tree;
  Observation seen;
  std::vector<Params> shapes(7, params(2));
  shapes[1] = params(3);                                      // longer vector
  shapes[2].extra["z"] = tensor({1});                         // another key
  shapes[3].extra = {{"k", tensor({7})}, {"c", tensor({})}};  // the same number of keys
  shapes[4].layers[1].w1 = tensor({2, 3}, DType::F64);        // dtype
  shapes[5].layers[1].w1 = tensor({2, 3, 1});                 // ndim
  shapes[6] = params(0);
  std::vector<shapes::Fingerprint> digests;
  for (Params& p : shapes) {
    ASSERT_TRUE(flatten(p, tree, seen).has_value());
    EXPECT_EQ(seen.values.size(), seen.list->offsets().back());
    digests.push_back(seen.list->digest());
  }
  for (std::size_t i = 0; i < digests.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(digests[i], digests[j]) << i << " " << j;
}

TEST(Inputs, Marks_StandBesideTheirDims) {
  Batch batch{tensor({5, 10})};
  mark_dynamic(batch.tokens, 0);
  mark_static(batch.tokens, -1);
  InputTree tree;
  Observation seen;
  for (int call = 0; call < 2; ++call) {
    ASSERT_TRUE(flatten(batch, tree, seen).has_value());
    EXPECT_EQ(seen.marks,
              (std::vector<Mark>{Mark::None, Mark::Dynamic, Mark::Static, Mark::None, Mark::None}));
  }
  batch.tokens = tensor({5, 10});
  ASSERT_TRUE(flatten(batch, tree, seen).has_value());
  EXPECT_TRUE(seen.marks.empty());
}

struct WithFields {
  std::vector<FieldInput> limits;
  Tensor x;
  FieldInput key;
  template <class V>
  void fields(V& v) {
    v("limits", limits), v("x", x), v("key", key);
  }
};

TEST(Inputs, Fields_AreObservedByName_AndBecomeWhatWasAgreedOn) {
  WithFields in{{{3, FieldJoin::Max}, {true, FieldJoin::Min}},
                tensor({5}),
                FieldInput::bytes("k", FieldJoin::Union)};
  InputTree tree;
  Observation seen;
  for (int call = 0; call < 2; ++call) {
    ASSERT_TRUE(flatten(in, tree, seen).has_value());
    EXPECT_EQ(names(seen), std::vector<std::string>{"x"});
    const std::vector<Field> expected{{{"key", FieldType::Bytes, FieldJoin::Union}, {0, "k"}},
                                      {{"limits[0]", FieldType::Int, FieldJoin::Max}, {3, {}}},
                                      {{"limits[1]", FieldType::Bool, FieldJoin::Min}, {1, {}}}};
    EXPECT_EQ(seen.fields, expected);
  }
  in.limits.pop_back();
  ASSERT_TRUE(flatten(in, tree, seen).has_value());
  EXPECT_EQ(seen.fields.size(), 2U) << "another structure";
  Decision decision;
  decision.sources.push_back({seen.list->sources()[0], {{.value = 5}}});
  decision.fields = {{seen.fields[0].spec, {{0, "a"}, {0, "k"}}}, {seen.fields[1].spec, {{9, {}}}}};
  const auto trace = Trace::start({.frame = "f", .decision = decision});
  const WithFields traced = traced_like(in, tree, *trace);
  EXPECT_EQ(traced.limits[0].integer(), 9);
  ASSERT_EQ(traced.key.values().size(), 2U);
  EXPECT_EQ(traced.key.values()[1].bytes, "k");
}

enum class Mode : std::uint8_t { Plain, Packed = 7 };
struct Options {
  std::optional<Tensor> mask;
  std::pair<Tensor, int> rows{tensor({4}), -3};
  std::array<SymFloat, 2> rates{0.5, 0.25};
  double decay = -0.1;
  float ratio = 0.75F;
  Mode mode = Mode::Packed;
  template <class V>
  void fields(V& v) {
    v("mask", mask);
    v("rows", rows);
    v("rates", rates);
    v("decay", decay);
    v("ratio", ratio);
    v("mode", mode);
  }
};

TEST(Inputs, PairsArraysAndNumbers_AreLeavesOfTheirOwn) {
  Options options;
  InputTree tree;
  Observation seen;
  ASSERT_TRUE(flatten(options, tree, seen).has_value());
  EXPECT_EQ(names(seen),
            (std::vector<std::string>{"decay", "mask.has_value", "mode", "rates[0]", "rates[1]",
                                      "ratio", "rows.first", "rows.second"}));
  EXPECT_EQ(seen.values, (std::vector<std::int64_t>{0, 7, 4, -3}));
  EXPECT_EQ(std::bit_cast<double>(seen.scalars.at(0)), -0.1);
  std::vector<InputValue> held;
  input_values(options, tree, held);
  EXPECT_EQ(held[5].number, 0.75);
  EXPECT_EQ(options.decay, -0.1) << "reading changes nothing";
  EXPECT_EQ(options.ratio, 0.75F);
}

TEST(Inputs, AnOptional_IsAnotherStructureWhereItIsFilled) {
  Options options;
  InputTree tree;
  Observation seen;
  ASSERT_TRUE(flatten(options, tree, seen).has_value());
  const auto list = seen.list;
  options.mask = tensor({2, 2});
  ASSERT_TRUE(flatten(options, tree, seen).has_value());
  EXPECT_EQ(names(seen)[1], "mask");
  EXPECT_NE(seen.list->digest(), list->digest());
  options.mask.reset();
  ASSERT_TRUE(flatten(options, tree, seen).has_value());
  EXPECT_EQ(seen.list->digest(), list->digest());
}

TEST(Inputs, AnOptionalFilledWithNothing_IsNotAnEmptyOne) {
  std::optional<std::vector<Tensor>> extra;
  InputTree tree;
  Observation seen;
  ASSERT_TRUE(flatten(extra, tree, seen).has_value());
  const std::vector<std::int64_t> values = seen.values;
  extra.emplace();
  ASSERT_TRUE(flatten(extra, tree, seen).has_value());
  EXPECT_NE(seen.values, values);
}

TEST(Inputs, NumbersOfAnyType_ArePinnedByGuards) {
  Options options;
  InputTree tree;
  Observation seen;
  ASSERT_TRUE(flatten(options, tree, seen).has_value());
  test::DecisionBuilder decision;
  for (std::size_t i = 0; i < seen.list->sources().size(); ++i) {
    const SourceSpec& spec = seen.list->sources()[i];
    if (spec.kind == Kind::Float)
      decision.number(spec.name);
    else if (spec.kind == Kind::Tensor)
      decision.tensor(spec.name, spec.dtype, {test::Dim(4)});
    else if (spec.kind == Kind::Bool)
      decision.flag(spec.name, seen.of(i)[0] != 0);
    else
      decision.integer(spec.name, spec.name == "mode" ? test::dynamic(7) : seen.of(i)[0]);
  }
  TraceSetup setup = test::setup(decision.get());
  setup.observation = &seen;
  const Result<Graph> graph = trace(setup, [&](Trace& t) {
    const Options in = traced_like(options, tree, t);
    EXPECT_EQ(in.decay, -0.1);
    EXPECT_EQ(in.ratio, 0.75F);
    EXPECT_EQ(in.mode, Mode::Packed);
    EXPECT_EQ(in.rows.second, -3);
    EXPECT_TRUE(in.rates[1].traced());
    EXPECT_FALSE(in.mask.has_value());
    t.output("y", in.rows.first * in.decay);
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  std::vector<std::string> guards;
  for (const shapes::Guard& guard : graph->guards) guards.push_back(guard.predicate.text());
  std::vector<std::string> values;
  for (const HostValue& value : graph->host_values()) values.push_back(value.text());
  EXPECT_EQ(guards, (std::vector<std::string>{"s1 == 1", "s2 == 1", "s0 == 7"}))
      << "an int that no rank saw vary has none";
  EXPECT_EQ(values, (std::vector<std::string>{"(decay == -0.1)", "(ratio == 0.75)"}));
}

TEST(Inputs, WhatCannotBeAnInput_IsNamed) {
  Params p = params(2);
  p.layers[1].w2 = Tensor();
  InputTree tree;
  Observation seen;
  Result<void> result = flatten(p, tree, seen);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::BadInput);
  EXPECT_EQ(result.error().source, "layers[1].w2");
  Batch one{tensor({1})}, two{tensor({1})};
  auto both = arguments({"b", "b"}, one, two);
  result = flatten(both, tree, seen);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().source, "b.lr");
}

TEST(Inputs, EmptyTensorOnTheFastPath_IsNotA0dTensor) {
  Tensor x = tensor({});
  InputTree tree;
  Observation seen;
  ASSERT_TRUE(flatten(x, tree, seen).has_value());
  x = Tensor();
  EXPECT_FALSE(flatten(x, tree, seen).has_value());
}

Decision batch_decision() {
  return test::DecisionBuilder()
      .number("lr")
      .integer("step", test::dynamic(3))
      .tensor("tokens", DType::F32, {test::dynamic(5), 10})
      .flag("training", true)
      .integer("width", test::dynamic(9))
      .get();
}

struct Answer {
  Tensor loss;
  std::map<std::string, Tensor> by_name;
  SymInt rows;
  bool trained = false;
  template <class V>
  void fields(V& v) {
    v("loss", loss);
    v("by_name", by_name);
    v("rows", rows);
    v("trained", trained);
  }
};

TEST(Inputs, TracedCopy_StandsForTheInputs_AndOutputsAreRebuilt) {
  Batch batch{tensor({5, 10})};
  InputTree tree;
  Observation seen;
  ASSERT_TRUE(flatten(batch, tree, seen).has_value());
  const Decision decision = batch_decision();
  Answer shape;
  const Result<Graph> graph = trace(test::setup(decision), [&](Trace& t) {
    Batch in = traced_like(batch, tree, t);
    EXPECT_EQ(in.step.text(), "s0");
    EXPECT_EQ(in.tokens.size(0).text(), "s1");
    EXPECT_EQ(in.width, 9) << "a plain int is pinned";
    EXPECT_TRUE(in.lr.traced());
    Answer answer{in.tokens * in.lr, {{"t", in.tokens}}, in.tokens.size(0) + in.step, in.training};
    add_outputs(answer, t);
    shape = answer;
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  ASSERT_EQ(graph->guards.size(), 1U);
  EXPECT_EQ(graph->guards[0].predicate.text(), "s2 == 9");
  ASSERT_EQ(graph->outputs.size(), 3U);
  EXPECT_EQ(graph->outputs[1].name, R"(by_name["t"])");
  EXPECT_EQ(graph->outputs[2].name, "rows");

  const std::vector<double> rows{8};
  const std::vector<Array> arrays{Array::zeros(DType::F32, {5, 10}), Array::zeros(DType::F32, {4}),
                                  Array::of(DType::I64, {}, rows)};
  Answer out = filled_like(shape, std::span<const Array>(arrays));
  EXPECT_EQ(out.loss.array().data(), arrays[0].data());
  EXPECT_EQ(out.by_name["t"].array().sizes(), std::vector<std::int64_t>{4});
  EXPECT_EQ(out.rows.to_int(), 8);
  EXPECT_TRUE(out.trained);
}

TEST(Inputs, Values_StandAtTheirSource) {
  Batch batch{tensor({5, 10})};
  InputTree tree;
  Observation seen;
  ASSERT_TRUE(flatten(batch, tree, seen).has_value());
  std::vector<InputValue> values;
  input_values(batch, tree, values);
  ASSERT_EQ(values.size(), 5U);
  EXPECT_EQ(values[0].number, 0.5);
  EXPECT_EQ(values[2].array.data(), batch.tokens.array().data());
}

}  // namespace
}  // namespace lockstep::worker::inputs_test
