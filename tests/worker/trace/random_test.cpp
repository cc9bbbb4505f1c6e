// Random numbers: the published vectors, keys within a trace and outside of it, the bits that every
// function draws, parts of a whole, probabilities at their ends, and what is refused. Interpreted,
// compiled for the host, and on an emulated device.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>
#include <set>

#include "graph_builder.h"
#include "on_ranks.h"
#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/philox.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/random_ops.h>

namespace lockstep::worker::random_test {
namespace {

using shapes::Expr;
using test::DecisionBuilder;
using test::dynamic;
using Words = std::array<std::uint32_t, 4>;

Graph must(Result<Graph> graph) {
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? std::move(*graph) : Graph{};
}
Array number(std::int64_t value) { return integers({}, {value}); }
Array real(double value) { return Array::of(DType::F64, {}, std::span(&value, 1)); }
std::int64_t joined(std::uint32_t low, std::uint32_t high) {
  return static_cast<std::int64_t>(std::uint64_t{high} << 32 | low);
}

bool same_bits(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

/// A frame with a key and x [n, m], f32 with symbolic sizes.
Graph of_key_and_x(const std::function<void(Trace&, const RankKey&, const Tensor&)>& body) {
  const Decision decision = DecisionBuilder()
                                .tensor("key", DType::I64, {})
                                .tensor("x", DType::F32, {dynamic(5, 0), dynamic(4, 0)})
                                .get();
  return must(trace(test::setup(decision),
                    [&](Trace& t) { body(t, RankKey(t.tensor_input(0)), t.tensor_input(1)); }));
}
Inputs key_and_x(std::int64_t key, std::int64_t n, std::int64_t m) {
  return {{"key", number(key)}, {"x", Array::zeros(DType::F32, {n, m})}};
}

TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox_words({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox_words({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox_words({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, TheOpGivesTheFirstTwoWords_EveryWay) {
  GraphBuilder g("philox");
  const Expr n = g.symbol("key.size(0)");
  const NodeId key = g.input("key", DType::I64, {n}), counter = g.input("counter", DType::I64, {n}),
               stream = g.input("stream", DType::I64, {n});
  g.output(g.op(Op::Philox, {key, counter, stream}));
  OnRanks ranks(g.take(), 1);
  std::vector<std::int64_t> keys{0, -1, joined(0xa4093822, 0x299f31d0)}, counters, streams;
  counters = {0, -1, joined(0x243f6a88, 0x85a308d3)};
  streams = {0, -1, joined(0x13198a2e, 0x03707344)};
  std::vector<std::int64_t> expected{joined(0x6627e8d5, 0xe169c58d), joined(0x408f276d, 0x41c83b0e),
                                     joined(0xd16cfe09, 0x94fdcceb)};
  std::mt19937_64 random(3);
  for (int i = 0; i < 70; ++i) {
    keys.push_back(static_cast<std::int64_t>(random()));
    counters.push_back(i);
    streams.push_back(static_cast<std::int64_t>(random()));
    expected.push_back(philox(keys.back(), counters.back(), streams.back()));
  }
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, keys.size()}) {
    const auto first = [&](const std::vector<std::int64_t>& all) {
      return integers({static_cast<std::int64_t>(count)},
                      {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)});
    };
    const Inputs inputs{
        {"key", first(keys)}, {"counter", first(counters)}, {"stream", first(streams)}};
    for (const Way& way : every_way(ranks, inputs))
      EXPECT_TRUE(same_bits(way.outputs[0], first(expected))) << way.name << " " << count;
  }
}

TEST(Keys, WithinATraceAndOutside_AreTheSame) {
  const Graph graph = of_key_and_x([](Trace& t, const RankKey& key, const Tensor& x) {
    const std::vector<RankKey> three = key.split(3);
    t.output("a", three[0].tensor());
    t.output("b", three[2].tensor());
    t.output("c", key.fold_in(x.size(0)).tensor());
    t.output("d", key.fold_in(7).split(2)[1].tensor());
    t.output("e", key.fold_in(sum(cast(x, DType::I64)) - 4).tensor());
  });
  OnRanks ranks(graph, 1);
  for (const std::int64_t seed : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-5},
                                  std::numeric_limits<std::int64_t>::min()}) {
    const RankKey key(seed);
    const std::vector<std::int64_t> expected{
        key.split(3)[0].value(), key.split(3)[2].value(), key.fold_in(2).value(),
        key.fold_in(7).split(2)[1].value(), key.fold_in(-4).value()};
    for (const Way& way : every_way(ranks, key_and_x(seed, 2, 3)))
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(*way.outputs[i].data_as<std::int64_t>(), expected[i]) << i << " " << way.name;
    const Key uniform_one(seed);
    EXPECT_EQ(uniform_one.split(2)[1].value(), key.split(2)[1].value());
    EXPECT_EQ(uniform_one.fold_in(9).value(), key.fold_in(9).value());
  }
}

TEST(Keys, ChildrenAreAllDifferent_AndUnlikeWhatIsDrawn) {
  std::set<std::int64_t> seen;
  const RankKey key(11);
  for (const RankKey& child : key.split(100)) EXPECT_TRUE(seen.insert(child.value()).second);
  for (std::int64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(seen.insert(key.fold_in(i).value()).second);
    EXPECT_TRUE(seen.insert(philox(11, i, 0)).second) << "what is drawn";
    EXPECT_TRUE(seen.insert(philox(11, i, 1)).second);
  }
  EXPECT_EQ(key.split(3)[1].value(), key.split(8)[1].value());
}

TEST(Draws, UniformNumbers_AreTheHighestBitsOfEachElement_EveryWay) {
  const Graph graph = of_key_and_x([](Trace& t, const RankKey& key, const Tensor& x) {
    const Sizes sizes{x.size(0), 3, x.size(1)};
    t.output("f32", uniform(key, sizes));
    t.output("f64", uniform(key, sizes, {.dtype = DType::F64}));
    t.output("f32 wide", uniform(key, sizes, -0.3, 2.4));
    t.output("f64 wide", uniform(key, sizes, -0.3, 2.4, {.dtype = DType::F64}));
    t.output("one", uniform(key, {}));
  });
  OnRanks ranks(graph, 1);
  for (const auto& [n, m] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 2}, {1, 1}, {2, 0}, {2, 5}, {9, 31}})
    for (const Way& way : every_way(ranks, key_and_x(77, n, m))) {
      SCOPED_TRACE(std::string(way.name) + " " + std::to_string(n));
      const auto* f32 = way.outputs[0].data_as<float>();
      const auto* f64 = way.outputs[1].data_as<double>();
      ASSERT_EQ(way.outputs[0].elements(), n * 3 * m);
      for (std::int64_t i = 0; i < way.outputs[0].elements(); ++i) {
        const auto bits = static_cast<std::uint64_t>(philox(77, i, 0));
        EXPECT_EQ(f32[i], static_cast<float>(bits >> 8 & 0xffffff) / 16777216.0F);
        EXPECT_EQ(f64[i], std::ldexp(static_cast<double>(bits >> 11), -53));
        const auto wide = static_cast<float>(way.outputs[2].at(i));
        EXPECT_EQ(wide, f32[i] / static_cast<float>(1 / 2.7) + -0.3F);
        EXPECT_EQ(way.outputs[3].at(i), f64[i] / (1 / (2.4 - -0.3)) + -0.3);
        EXPECT_TRUE(wide >= -0.3F && wide < 2.4F);
      }
      EXPECT_EQ(way.outputs[4].at(0),
                static_cast<float>(philox(77, 0, 0) >> 8 & 0xffffff) / 16777216.0F);
    }
}

TEST(Draws, UniformNumbersOfANarrowRange_NeverReachItsEnd) {
  const double low = 1, high = 1 + 0x1p-22;
  const Graph graph = of_key_and_x([&](Trace& t, const RankKey& key, const Tensor& x) {
    t.output("y", uniform(key, {x.size(0)}, low, high));
  });
  OnRanks ranks(graph, 1);
  for (const Way& way : every_way(ranks, key_and_x(5, 500, 0)))
    for (std::int64_t i = 0; i < 500; ++i) {
      EXPECT_GE(way.outputs[0].at(i), low) << way.name;
      EXPECT_LT(way.outputs[0].at(i), high) << way.name;
    }
}

TEST(Draws, NormalNumbers_AreThoseOfBoxAndMuller_EveryWay) {
  const Graph graph = of_key_and_x([](Trace& t, const RankKey& key, const Tensor& x) {
    t.output("f32", normal(key, {x.size(0)}));
    t.output("f64", normal(key, {x.size(0)}, {.dtype = DType::F64}));
    t.output("moved", normal(key, {x.size(0)}, 10, 0.5, {.dtype = DType::F64}));
  });
  OnRanks ranks(graph, 1);
  const double turn = 2 * std::numbers::pi;
  for (const Way& way : every_way(ranks, key_and_x(9, 300, 1)))
    for (std::int64_t i = 0; i < 300; ++i) {
      const auto bits = static_cast<std::uint64_t>(philox(9, i, 0)),
                 more = static_cast<std::uint64_t>(philox(9, i, 1));
      const double narrow =
          std::sqrt(-2 * std::log((static_cast<double>(bits & 0xffffffff) + 0.5) * 0x1p-32)) *
          std::cos(turn * static_cast<double>(bits >> 40) * 0x1p-24);
      const double wide =
          std::sqrt(-2 * std::log((static_cast<double>(bits >> 11) + 0.5) * 0x1p-53)) *
          std::cos(turn * static_cast<double>(more >> 11) * 0x1p-53);
      EXPECT_NEAR(way.outputs[0].at(i), narrow, 1e-5) << way.name;
      EXPECT_NEAR(way.outputs[1].at(i), wide, 1e-13) << way.name;
      EXPECT_NEAR(way.outputs[2].at(i), 10 + 0.5 * wide, 1e-13) << way.name;
    }
}

TEST(Draws, NormalNumbers_AreMovedWithoutAProductThatACompilerMayJoinWithTheAddition) {
  const Graph graph = of_key_and_x([](Trace& t, const RankKey& key, const Tensor& x) {
    t.output("unit", normal(key, {x.size(0)}));
    t.output("moved", normal(key, {x.size(0)}, 0.7, 3));
    t.output("still", normal(key, {x.size(0)}, 0.7, 0));
  });
  const auto deep = [&](NodeId id) {
    while (graph.nodes[id].op == Op::Expand || graph.nodes[id].op == Op::Reshape)
      id = graph.nodes[id].inputs[0];
    return graph.nodes[id].op;
  };
  const Node& moved = graph.nodes[graph.outputs[1].node];
  ASSERT_EQ(moved.op, Op::Add) << graph.text();
  for (const NodeId operand : moved.inputs) EXPECT_NE(deep(operand), Op::Mul) << graph.text();
  OnRanks ranks(graph, 1);
  for (const Way& way : every_way(ranks, key_and_x(9, 300, 1)))
    for (std::int64_t i = 0; i < 300; ++i) {
      const auto unit = static_cast<float>(way.outputs[0].at(i));
      // Where each step is rounded by itself.
      const float wide = unit / static_cast<float>(1.0 / 3);
      EXPECT_EQ(static_cast<float>(way.outputs[1].at(i)), wide + 0.7F) << way.name;
      EXPECT_EQ(static_cast<float>(way.outputs[2].at(i)), 0.7F) << way.name;
    }
}

/// All that can be a part, of x [n, m] that starts at row `row` and column `column` of [.., width].
Graph parts_graph() {
  const Decision decision = DecisionBuilder()
                                .integer("column", dynamic(0))
                                .tensor("key", DType::I64, {})
                                .integer("row", dynamic(0))
                                .integer("width", dynamic(9))
                                .tensor("x", DType::F32, {dynamic(5, 0), dynamic(4, 0)})
                                .get();
  return must(trace(test::setup(decision), [&](Trace& t) {
    const RankKey key(t.tensor_input(1));
    const Tensor x = t.tensor_input(4);
    const SymInt column = t.int_input(0), row = t.int_input(2), width = t.int_input(3);
    const Sizes sizes{x.size(0), x.size(1)};
    // The number of rows of the whole does not matter; a start may be a tensor.
    const Part part{{-1, width}, {row, scalar(t, column)}};
    t.output("f32", uniform(key, sizes, {.part = part}));
    t.output("f64", uniform(key, sizes, -2, 7, {.dtype = DType::F64, .part = part}));
    t.output("bernoulli", bernoulli(key, sizes, 0.3, part));
    t.output("each", bernoulli(key, full(sizes, 0.6, DType::F64), part));
    t.output("randint", randint(key, sizes, -3, 1000, part));
    t.output("dropout", dropout(x + 1.0, 0.25, key, part));
    t.output("normal", normal(key, sizes, {.part = part}));
    const Tensor logits = zeros({x.size(0), x.size(1), 4}, DType::F32);
    t.output("categorical", categorical(key, logits, -1, {{-1, width, 4}, {row, column, 0}}));
  }));
}
Inputs part_inputs(std::int64_t row, std::int64_t column, std::int64_t n, std::int64_t m,
                   std::int64_t width) {
  Inputs inputs = key_and_x(31, n, m);
  inputs["row"] = number(row), inputs["column"] = number(column), inputs["width"] = number(width);
  return inputs;
}

TEST(Parts, UnevenRowsColumnsAndBoth_GiveTheWhole_EveryWay) {
  OnRanks ranks(parts_graph(), 1);
  constexpr std::int64_t kRows = 7, kColumns = 11;
  using Cuts = std::vector<std::int64_t>;
  const std::vector<std::pair<Cuts, Cuts>> spreads{
      {{0, 1, 1, 6, 7}, {0, 11}}, {{0, 7}, {0, 3, 10, 10, 11}}, {{0, 5, 7}, {0, 2, 11}}};
  const auto whole = every_way(ranks, part_inputs(0, 0, kRows, kColumns, kColumns));
  for (std::size_t o = 0; o + 1 < whole[0].outputs.size(); ++o) {
    const bool by_functions = o == 6;  // normal
    for (std::size_t w = 1; w < whole.size() && !by_functions; ++w)
      EXPECT_TRUE(same_bits(whole[0].outputs[o], whole[w].outputs[o])) << o << whole[w].name;
  }
  for (const auto& [rows, columns] : spreads)
    for (std::size_t r = 0; r + 1 < rows.size(); ++r)
      for (std::size_t c = 0; c + 1 < columns.size(); ++c) {
        const std::int64_t n = rows[r + 1] - rows[r], m = columns[c + 1] - columns[c];
        const auto part = every_way(ranks, part_inputs(rows[r], columns[c], n, m, kColumns));
        for (std::size_t w = 0; w < part.size(); ++w)
          for (std::size_t o = 0; o < part[w].outputs.size(); ++o)
            for (std::int64_t i = 0; i < n * m; ++i) {
              const std::int64_t at = (rows[r] + i / m) * kColumns + columns[c] + i % m;
              const double got = part[w].outputs[o].at(i), want = whole[w].outputs[o].at(at);
              EXPECT_NEAR(got, want, o == 6 ? 1e-6 : 0) << o << " " << part[w].name;
            }
      }
  for (std::int64_t i = 0; i < kRows * kColumns; ++i)
    EXPECT_EQ(whole[0].outputs[0].at(i),
              static_cast<float>(philox(31, i, 0) >> 8 & 0xffffff) / 16777216.0F);
}

TEST(Parts, OfRanksThatCountTheirRowsBeforeThem_AreTheWhole) {
  const Decision decision = DecisionBuilder()
                                .tensor("key", DType::I64, {})
                                .tensor("x", DType::F32, {dynamic(5, 0), 4})
                                .get();
  const Graph graph = must(trace(test::setup(decision, 3), [](Trace& t) {
    const RankKey key(t.tensor_input(0));
    const Tensor x = t.tensor_input(1);
    const Tensor counts = all_gather(reshape(scalar(x.size(0)), {1}));
    const Tensor before = sum(where(arange(t, 3) < group_rank(x), counts, 0));
    t.output("y", randint(key, {x.size(0), 4}, 0, 1 << 30, {{sum(counts), 4}, {before, 0}}));
    t.output("own", randint(key.fold_in(group_rank(x)), {4}, 0, 1 << 30));
  }));
  OnRanks ranks(graph, 3);
  const std::vector<std::int64_t> rows{3, 0, 5};
  std::vector<Inputs> inputs;
  for (std::int64_t r = 0; r < 3; ++r) {
    Inputs own{{"key", number(8)}, {"job.rank", number(r)}};
    own["x"] = Array::zeros(DType::F32, {rows[static_cast<std::size_t>(r)], 4});
    inputs.push_back(std::move(own));
  }
  const OnRanks::Run run = ranks.everywhere(inputs);
  std::int64_t at = 0;
  for (std::int64_t r = 0; r < 3; ++r) {
    const std::vector<Array> out = run.ranks[static_cast<std::size_t>(r)].value().value();
    const auto drawn = [](std::int64_t key, std::int64_t i) {
      return (philox(key, i, 0) & std::numeric_limits<std::int64_t>::max()) % (1 << 30);
    };
    for (std::int64_t i = 0; i < out[0].elements(); ++i, ++at)
      EXPECT_EQ(out[0].data_as<std::int64_t>()[i], drawn(8, at)) << r;
    for (std::int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(out[1].data_as<std::int64_t>()[i], drawn(RankKey(8).fold_in(r).value(), i)) << r;
  }
  EXPECT_EQ(at, 32);
}

TEST(Draws, ProbabilitiesZeroAndOne_AreNeverAndAlways) {
  const Graph graph = of_key_and_x([](Trace& t, const RankKey& key, const Tensor& x) {
    for (const double p : {0.0, 1.0}) {
      const std::string name = p == 0 ? "never" : "always";
      t.output(name, bernoulli(key, {x.size(0)}, p));
      t.output(name + " each", bernoulli(key, full({x.size(0)}, p, DType::F64)));
      t.output(name + " dropped", dropout(x + 2.0, p, key));
    }
    t.output("beyond", bernoulli(key, full({x.size(0)}, 1.5, DType::F32)));
  });
  OnRanks ranks(graph, 1);
  for (const Way& way : every_way(ranks, key_and_x(2, 200, 1)))
    for (std::int64_t i = 0; i < 200; ++i) {
      const std::vector<double> expected{0, 0, 2, 1, 1, 0, 1};
      for (std::size_t o = 0; o < expected.size(); ++o)
        EXPECT_EQ(way.outputs[o].at(i), expected[o]) << o << " " << way.name;
    }
}

TEST(Dropout, ScalesWhatItKeepsAndItsGradient_WhateverTellsTheProbability) {
  const Decision decision = DecisionBuilder()
                                .tensor("key", DType::I64, {})
                                .number("p")
                                .tensor("x", DType::F64, {dynamic(5, 0)})
                                .get();
  const Graph graph = must(trace(test::setup(decision), [](Trace& t) {
    const RankKey key(t.tensor_input(0));
    const SymFloat p = t.float_input(1);
    const Tensor x = t.tensor_input(2);
    const Tensor y = dropout(x, p, key), z = dropout(x, 0.25, key);
    t.output("y", y);
    t.output("gradient", grad(sum(y * 3.0), {x})[0]);
    t.output("z", z);
    t.output("gradient z", grad(sum(z * 3.0), {x})[0]);
  }));
  OnRanks ranks(graph, 1);
  constexpr std::int64_t kCount = 400;
  Array x(DType::F64, {kCount});
  for (std::int64_t i = 0; i < kCount; ++i) x.set(i, static_cast<double>(i) - 7.5);
  for (const double p : {0.0, 0.25, 0.7, 1.0})
    for (const Way& way : every_way(ranks, {{"key", number(4)}, {"p", real(p)}, {"x", x}})) {
      int kept = 0;
      for (std::int64_t i = 0; i < kCount; ++i) {
        const auto unit = static_cast<float>(philox(4, i, 0) >> 8 & 0xffffff) / 16777216.0F;
        const auto factor = [&](double dropped) {
          return unit >= static_cast<float>(dropped) ? 1 / (1 - dropped) : 0;
        };
        kept += factor(p) != 0 ? 1 : 0;
        EXPECT_EQ(way.outputs[0].at(i), x.at(i) * factor(p)) << p << " " << way.name;
        EXPECT_EQ(way.outputs[1].at(i), 3 * factor(p)) << p << " " << way.name;
        EXPECT_EQ(way.outputs[2].at(i), x.at(i) * factor(0.25)) << way.name;
        EXPECT_EQ(way.outputs[3].at(i), 3 * factor(0.25)) << way.name;
      }
      EXPECT_NEAR(kept, kCount * (1 - p), 40);
    }
}

TEST(Dropout, OfNotANumber_IsNotANumberAsInTorch) {
  const Graph graph = of_key_and_x([](Trace& t, const RankKey& key, const Tensor& x) {
    t.output("y", dropout(x / x, 0.5, key));
  });
  OnRanks ranks(graph, 1);
  for (const Way& way : every_way(ranks, key_and_x(2, 9, 9)))
    for (std::int64_t i = 0; i < 81; ++i) EXPECT_TRUE(std::isnan(way.outputs[0].at(i))) << way.name;
}

TEST(Draws, Randint_KeepsItsBounds) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 62) - 1;
  const Graph graph = of_key_and_x([](Trace& t, const RankKey& key, const Tensor& x) {
    const Sizes sizes{x.size(0)};
    t.output("few", randint(key, sizes, -2, 3));
    t.output("one", randint(key, sizes, 5, 6));
    t.output("by sizes", randint(key, sizes, -x.size(1), x.size(1)));
    t.output("most", randint(key, sizes, -kMost - 1, kMost));
  });
  OnRanks ranks(graph, 1);
  for (const Way& way : every_way(ranks, key_and_x(2, 200, 3))) {
    std::set<std::int64_t> few, by_sizes;
    for (std::int64_t i = 0; i < 200; ++i) {
      few.insert(way.outputs[0].data_as<std::int64_t>()[i]);
      EXPECT_EQ(way.outputs[1].at(i), 5);
      by_sizes.insert(way.outputs[2].data_as<std::int64_t>()[i]);
      EXPECT_EQ(way.outputs[3].data_as<std::int64_t>()[i],
                (philox(2, i, 0) & std::numeric_limits<std::int64_t>::max()) %
                        std::numeric_limits<std::int64_t>::max() -
                    kMost - 1);
    }
    EXPECT_EQ(few, (std::set<std::int64_t>{-2, -1, 0, 1, 2})) << way.name;
    EXPECT_EQ(by_sizes, (std::set<std::int64_t>{-3, -2, -1, 0, 1, 2})) << way.name;
  }
  // A range that turns out to be empty is an error of the run.
  const auto outcome = ranks.interpreted({key_and_x(2, 4, 0)});
  ASSERT_FALSE(outcome.ranks[0]->has_value());
  EXPECT_NE(outcome.ranks[0]->error().message.find("randint needs low < high"), std::string::npos)
      << outcome.ranks[0]->error().text();
}

TEST(Draws, Permutation_HasEveryNumberOnce) {
  const Graph graph = of_key_and_x([](Trace& t, const RankKey& key, const Tensor& x) {
    t.output("y", permutation(key, x.size(0)));
  });
  OnRanks ranks(graph, 1);
  for (const std::int64_t n : {0, 1, 2, 5, 1000}) {
    const auto ways = every_way(ranks, key_and_x(3, n, 1));
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < n; ++i) seen.insert(ways[0].outputs[0].data_as<std::int64_t>()[i]);
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(n));
    if (n > 0) {
      EXPECT_EQ(*seen.rbegin(), n - 1);
    }
    for (const Way& way : ways) EXPECT_TRUE(same_bits(way.outputs[0], ways[0].outputs[0])) << n;
  }
}

TEST(Draws, Categorical_TakesNoClassOfMinusInfinity_AlongAnyDim) {
  const double inf = std::numeric_limits<double>::infinity();
  const Graph graph = of_key_and_x([&](Trace& t, const RankKey& key, const Tensor& x) {
    const Tensor logits = where(iota({3, x.size(0)}, 0) == 1, -inf,
                                expand(zeros(t, {1, 1}, DType::F64), {3, x.size(0)}));
    t.output("first", categorical(key, logits, 0));
    t.output("last", categorical(key, transpose(logits, 0, 1), -1));
    t.output("only", categorical(key, zeros({x.size(0), 1}, DType::F32), 1));
  });
  OnRanks ranks(graph, 1);
  for (const Way& way : every_way(ranks, key_and_x(3, 64, 1))) {
    for (std::size_t o : {0U, 1U}) {
      std::set<double> seen;
      for (std::int64_t i = 0; i < 64; ++i) seen.insert(way.outputs[o].at(i));
      EXPECT_EQ(seen, (std::set<double>{0, 2})) << way.name;
    }
    for (std::int64_t i = 0; i < 64; ++i) EXPECT_EQ(way.outputs[2].at(i), 0) << way.name;
  }
}

std::string refusal(const std::function<void(Trace&, const RankKey&, const Tensor&)>& body) {
  const Decision decision = DecisionBuilder()
                                .tensor("key", DType::I64, {})
                                .tensor("x", DType::F32, {dynamic(5, 0), dynamic(4, 0)})
                                .get();
  const Result<Graph> graph = trace(test::setup(decision), [&](Trace& t) {
    body(t, RankKey(t.tensor_input(0)), t.tensor_input(1));
  });
  return graph ? "" : graph.error().message;
}

TEST(Draws, WhatDoesNotFit_IsRefusedWithTheLine) {
  using Body = std::function<void(Trace&, const RankKey&, const Tensor&)>;
  const std::vector<std::pair<const char*, Body>> refused{
      {"uniform: the key is a constant of the traced function, so every call would draw the same; "
       "pass it to the frame as an input",
       [](Trace&, const RankKey&, const Tensor& x) { (void)uniform(Key(3), {x.size(0)}); }},
      {"fold_in: the key is a constant of the traced function",
       [](Trace&, const RankKey&, const Tensor& x) { (void)RankKey(3).fold_in(x.size(0)); }},
      {"fold_in: takes a 0-d i64 tensor, or an integer",
       [](Trace&, const RankKey& key, const Tensor& x) { (void)key.fold_in(x); }},
      {"fold_in: the number is known only when the graph runs",
       [](Trace&, const RankKey& key, const Tensor& x) {
         (void)Key(key.tensor()).fold_in(item(cast(sum(x), DType::I64)));
       }},
      {"RankKey: takes a 0-d i64 tensor of the frame, or a number",
       [](Trace&, const RankKey&, const Tensor& x) { (void)RankKey(x); }},
      {"split: there is no negative number of keys",
       [](Trace&, const RankKey& key, const Tensor&) { (void)key.split(-1); }},
      {"value() of a key in the traced function",
       [](Trace&, const RankKey& key, const Tensor&) { (void)key.value(); }},
      {"normal: draws f32 and f64, not bf16; cast() them",
       [](Trace&, const RankKey& key, const Tensor&) {
         (void)normal(key, {3}, {.dtype = DType::BF16});
       }},
      {"uniform: takes finite low < high, not 2 and 2",
       [](Trace&, const RankKey& key, const Tensor&) { (void)uniform(key, {3}, 2, 2); }},
      {"bernoulli: a probability is from 0 to 1, not 1.5",
       [](Trace&, const RankKey& key, const Tensor&) { (void)bernoulli(key, {3}, 1.5); }},
      {"dropout: a probability is from 0 to 1, not -0.5",
       [](Trace&, const RankKey& key, const Tensor& x) { (void)dropout(x, -0.5, key); }},
      {"dropout: takes floating-point numbers; cast first",
       [](Trace&, const RankKey& key, const Tensor& x) {
         (void)dropout(cast(x, DType::I64), 0.5, key);
       }},
      {"randint: takes low < high, not 4 and 4",
       [](Trace&, const RankKey& key, const Tensor&) { (void)randint(key, {3}, 4, 4); }},
      {"categorical: takes logits of f32 and f64, not i64; cast() them",
       [](Trace&, const RankKey& key, const Tensor& x) {
         (void)categorical(key, cast(x, DType::I64), 0);
       }},
      {"categorical: a tensor with 2 dims has no dim 2",
       [](Trace&, const RankKey& key, const Tensor& x) { (void)categorical(key, x, 2); }},
      {"uniform: a part of 2 dims has 1 sizes of the whole and 2 starts",
       [](Trace&, const RankKey& key, const Tensor& x) {
         (void)uniform(key, {x.size(0), 4}, {.part = {{8}, {0, 0}}});
       }},
      {"uniform: sizes and starts of a part are integers, or 0-d tensors of i64",
       [](Trace&, const RankKey& key, const Tensor& x) {
         (void)uniform(key, {x.size(0)}, {.part = {{8}, {0.5}}});
       }},
  };
  for (const auto& [words, body] : refused) {
    const std::string said = refusal(body);
    EXPECT_NE(said.find(words), std::string::npos) << "wanted: " << words << "\ngot: " << said;
    EXPECT_NE(said.find("random_test.cpp:"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace lockstep::worker::random_test
