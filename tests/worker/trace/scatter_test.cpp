// What joins elements where indices and masks say, beside plain loops: interpreted, compiled for
// the host, and on an emulated device.
#include <cmath>
#include <limits>
#include <map>

#include "index_runs.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::scatter_test {
namespace {

using namespace index_runs;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// x, and for each of its places all that comes, in order.
Array joined(const Array& x, std::size_t dim, const Array& index, const Array& src,
             const std::function<double(double, const std::vector<double>&)>& join) {
  std::map<std::int64_t, std::vector<double>> come;
  for (std::int64_t i = 0; i < index.elements(); ++i) {
    Numbers place = place_of(i, index.sizes());
    const double value = src.at(offset_of(place, src.sizes()));
    place[dim] = static_cast<std::int64_t>(index.at(i));
    come[offset_of(place, x.sizes())].push_back(value);
  }
  Array out(x.dtype(), x.sizes());
  for (std::int64_t i = 0; i < x.elements(); ++i)
    out.set(i, come.contains(i) ? join(x.at(i), come.at(i)) : x.at(i));
  return out;
}

double greater(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double lesser(double a, double b) { return std::isnan(a) || a < b ? a : b; }

double reduced(ScatterReduce reduce, bool include_self, bool is_float, double self,
               const std::vector<double>& come) {
  std::vector<double> all = come;
  if (include_self) all.insert(all.begin(), self);
  double total = all[0];
  for (std::size_t k = 1; k < all.size(); ++k) {
    if (reduce == ScatterReduce::Prod) total *= all[k];
    if (reduce == ScatterReduce::Sum || reduce == ScatterReduce::Mean) total += all[k];
    if (reduce == ScatterReduce::Amax) total = greater(total, all[k]);
    if (reduce == ScatterReduce::Amin) total = lesser(total, all[k]);
  }
  if (reduce != ScatterReduce::Mean) return total;
  total /= static_cast<double>(all.size());
  return is_float ? total : std::floor(total);
}

TEST(Scatter, LastOneWins_AlongEveryDim) {
  std::mt19937_64 random(11);
  for (const DType dtype : {DType::F64, DType::I32, DType::Bool, DType::F16}) {
    const std::vector<Dim> any{dynamic(4, 0), dynamic(3, 0)};
    const Graph graph = must(traced_together(
        {{dtype, any}, {DType::I64, any}, {dtype, any}}, [](const std::vector<Tensor>& in) {
          return std::vector{scatter(in[0], 0, in[1], in[2]), scatter(in[0], -1, in[1], in[2])};
        }));
    OnRanks ranks(graph, 1);
    for (const auto& [x_sizes, index_sizes, src_sizes] :
         std::vector<std::tuple<Numbers, Numbers, Numbers>>{{{2, 2}, {2, 2}, {2, 2}},
                                                            {{1, 1}, {1, 1}, {3, 2}},
                                                            {{4, 5}, {3, 4}, {5, 4}},
                                                            {{4, 5}, {0, 0}, {2, 2}}}) {
      const Array x = random_array(random, dtype, x_sizes),
                  index = some_indices(random, index_sizes, x_sizes[0]),
                  src = random_array(random, dtype, src_sizes);
      const auto last = [](double, const std::vector<double>& come) { return come.back(); };
      expect_everywhere(ranks, {x, index, src},
                        {joined(x, 0, index, src, last), joined(x, 1, index, src, last)});
    }
  }
}

TEST(Scatter, Reductions_OfFloatsAndInts) {
  std::mt19937_64 random(12);
  std::vector<std::pair<ScatterReduce, bool>> all;
  for (const ScatterReduce reduce : {ScatterReduce::Sum, ScatterReduce::Prod, ScatterReduce::Mean,
                                     ScatterReduce::Amax, ScatterReduce::Amin})
    for (const bool include_self : {true, false}) all.emplace_back(reduce, include_self);
  for (const DType dtype : {DType::F64, DType::I64, DType::I16}) {
    const Graph graph = must(traced_together({{dtype, {dynamic(4, 0), 3}},
                                              {DType::I64, {dynamic(5, 0), 3}},
                                              {dtype, {dynamic(5, 0), 3}}},
                                             [&](const std::vector<Tensor>& in) {
                                               std::vector<Tensor> results;
                                               for (const auto& [reduce, include_self] : all)
                                                 results.push_back(scatter_reduce(
                                                     in[0], 0, in[1], in[2], reduce, include_self));
                                               return results;
                                             }));
    OnRanks ranks(graph, 1);
    for (const auto& [rows, come] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {1, 1}, {1, 2}, {4, 9}}) {
      const Array index = some_indices(random, {come, 3}, std::max<std::int64_t>(1, rows));
      Array x = random_array(random, dtype, {rows, 3}),
            src = random_array(random, dtype, {come, 3});
      if (dtype == DType::F64 && come > 2) src.set(4, kNaN);
      std::vector<Array> expected;
      for (const auto& [reduce, include_self] : all)
        expected.push_back(joined(x, 0, index, src,
                                  [&, how = reduce, with_self = include_self](
                                      double self, const std::vector<double>& others) {
                                    return reduced(how, with_self, dtype == DType::F64, self,
                                                   others);
                                  }));
      expect_everywhere(ranks, {x, index, src}, expected);
    }
  }
}

TEST(Scatter, SumsOfManyFloats_AreTheSameBitsEverywhere) {
  const Graph graph = must(
      traced({{DType::F32, {7}}, {DType::I64, {999}}, {DType::F32, {999}}},
             [](const std::vector<Tensor>& in) { return scatter_add(in[0], 0, in[1], in[2]); }));
  OnRanks ranks(graph, 1);
  std::mt19937_64 random(13);
  Array src(DType::F32, {999});
  for (std::int64_t i = 0; i < 999; ++i)
    src.set(
        i, std::ldexp(static_cast<double>(random() % 1000) - 500, static_cast<int>(random() % 20)));
  const Inputs inputs =
      named({random_array(random, DType::F32, {7}), some_indices(random, {999}, 7), src});
  const auto first = ranks.interpreted({inputs}).ranks[0]->value();
  EXPECT_TRUE(same(ranks.compiled({inputs}).ranks[0]->value(), first, 0));
  EXPECT_TRUE(same(ranks.on_devices({inputs}, OnRanks::Way::Staged).ranks[0]->value(), first, 0));
}

/// Gradients of sum(y * weight) by x and src.
void expect_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& body,
                      const std::vector<double>& x, const Numbers& index,
                      const std::vector<double>& src, const std::vector<double>& by_x,
                      const std::vector<double>& by_src) {
  const auto n = static_cast<std::int64_t>(x.size()), m = static_cast<std::int64_t>(src.size());
  DecisionBuilder decision;
  decision.tensor("a", DType::F64, {n}).tensor("b", DType::I64, {m}).tensor("c", DType::F64, {m});
  const Graph graph = must(trace(setup(decision.get()), [&](Trace& t) {
    const std::vector<Tensor> in{t.tensor_input(0), t.tensor_input(1), t.tensor_input(2)};
    const Tensor y = body(in) * (cast(arange(t, n), DType::F64) + 1.0);
    const auto grads = grad(sum(y), {in[0], in[2]});
    t.output("x", grads[0]);
    t.output("src", grads[1]);
  }));
  OnRanks ranks(graph, 1);
  const OnRanks::Run run = ranks.everywhere({named(
      {Array::of(DType::F64, {n}, x), integers({m}, index), Array::of(DType::F64, {m}, src)})});
  ASSERT_TRUE(run.ranks[0]->has_value()) << run.ranks[0]->error().text();
  EXPECT_TRUE(same(run.ranks[0]->value(),
                   {Array::of(DType::F64, {n}, by_x), Array::of(DType::F64, {m}, by_src)}, 1e-12));
}

// The numbers are torch's, but for those of the elements that were set over: there torch gives the
// winner's to all.
TEST(Scatter, Gradients_GoToWinnersPastZerosAndToEqualOnes) {
  const auto reduce = [](ScatterReduce how, bool include_self) {
    return [how, include_self](const std::vector<Tensor>& in) {
      return scatter_reduce(in[0], 0, in[1], in[2], how, include_self);
    };
  };
  expect_gradients([](const auto& in) { return scatter(in[0], 0, in[1], in[2]); }, {1, 2, 3},
                   {2, 0, 2, 2}, {4, 5, 6, 7}, {0, 2, 0}, {0, 1, 0, 3});
  expect_gradients(reduce(ScatterReduce::Prod, true), {2, 0, 3, 0}, {0, 0, 1, 2, 2, 3},
                   {3, 0, 5, 0, 0, 7}, {0, 10, 0, 28}, {0, 6, 0, 0, 0, 0});
  expect_gradients(reduce(ScatterReduce::Amax, true), {5, 2, 9}, {0, 0, 1, 1, 2}, {5, 1, 4, 4, 3},
                   {0.5, 0, 3}, {0.5, 0, 1, 1, 0});
  expect_gradients(reduce(ScatterReduce::Amin, false), {-5, 2, 9}, {0, 0, 1, 1}, {5, 5, 4, 3},
                   {0, 0, 3}, {0.5, 0.5, 0, 2});
  const double infinity = std::numeric_limits<double>::infinity();
  expect_gradients(reduce(ScatterReduce::Amax, false), {5, 2, 9}, {0, 1, 1}, {-infinity, 4, 4},
                   {0, 0, 3}, {1, 1, 1});
  expect_gradients(reduce(ScatterReduce::Amin, false), {-5, 2, 9}, {0, 0, 2},
                   {infinity, infinity, 1}, {0, 2, 0}, {0.5, 0.5, 3});
  expect_gradients(reduce(ScatterReduce::Mean, true), {1, 1, 1}, {0, 0, 2}, {1, 1, 1},
                   {1.0 / 3, 2, 1.5}, {1.0 / 3, 1.0 / 3, 1.5});
  expect_gradients(reduce(ScatterReduce::Sum, false), {1, 1, 1}, {0, 0, 2}, {1, 1, 1}, {0, 2, 0},
                   {1, 1, 3});
}

TEST(Scatter, IndexPut_SetsTheLastAndAddsAll) {
  std::mt19937_64 random(14);
  for (const bool accumulate : {false, true}) {
    const Graph graph =
        must(traced({{DType::F64, {dynamic(4, 0), dynamic(3, 0), 5}},
                     {DType::I64, {dynamic(6, 0), 1}},
                     {DType::I64, {2}},
                     {DType::F64, {dynamic(3, 0)}}},
                    [&](const std::vector<Tensor>& in) {
                      return index_put(in[0], {in[1], {}, in[2]}, unsqueeze(in[3], 0), accumulate);
                    }));
    OnRanks ranks(graph, 1);
    for (const std::int64_t m : {0, 1, 6}) {
      const Array x = random_array(random, DType::F64, {4, 3, 5}),
                  values = random_array(random, DType::F64, {3});
      Array at = some_indices(random, {m, 1}, 8);
      for (std::int64_t i = 0; i < m; ++i) at.set(i, at.at(i) - 4);
      const Array last = integers({2}, {-1, 2});
      Array expected(DType::F64, {4, 3, 5});
      for (std::int64_t i = 0; i < expected.elements(); ++i) expected.set(i, x.at(i));
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < 2; ++j)
          for (std::int64_t k = 0; k < 3; ++k) {
            const std::int64_t row = (static_cast<std::int64_t>(at.at(i)) + 4) % 4;
            const std::int64_t place = offset_of({row, k, j == 0 ? 4 : 2}, {4, 3, 5});
            expected.set(place, values.at(k) + (accumulate ? expected.at(place) : 0));
          }
      expect_everywhere(ranks, {x, at, last, values}, expected);
    }
  }
}

TEST(Scatter, IndexPut_OutOfRangeOnOneRank_IsTheSameErrorOnAll) {
  const Graph graph = must(traced({{DType::F64, {dynamic(4, 0), 3}}, {DType::I64, {dynamic(4, 0)}}},
                                  [](const std::vector<Tensor>& in) {
                                    return index_put(in[0], {in[1], in[1]}, 7);
                                  }));
  OnRanks ranks(graph, 3);
  std::mt19937_64 random(15);
  const Array x = random_array(random, DType::F64, {5, 3});
  for (const std::int64_t wrong : {3, -4}) {
    std::vector<Inputs> inputs(3, named({x, integers({3}, {0, 2, -1})}));
    inputs[2] = named({x, integers({3}, {0, wrong, 1})});
    const OnRanks::Run run = ranks.everywhere(inputs);
    for (const auto& outcome : run.ranks) {
      ASSERT_FALSE(outcome->has_value());
      const std::string message = outcome->error().message;
      EXPECT_NE(message.find("index_put at scatter_test.cpp:"), std::string::npos) << message;
      EXPECT_NE(message.find("was given index " + std::to_string(wrong) +
                             " in element 1 of its index, but indices must be at least -3 and "
                             "less than 3"),
                std::string::npos)
          << message;
    }
  }
}

TEST(Scatter, PutAndAlongADim) {
  std::mt19937_64 random(16);
  const Graph graph = must(traced(
      {{DType::F64, {dynamic(4, 0), 3}}, {DType::I64, {4}}, {DType::F64, {dynamic(4, 0), 4}}},
      [](const std::vector<Tensor>& in) {
        const Tensor copied = index_copy(in[0], 1, in[1], in[2]);
        const Tensor filled = index_fill(copied, -1, slice(in[1], 0, 0, 1) - 3, 0.5);
        const Tensor added = index_add(filled, 1, in[1], in[2]);
        const Tensor placed = put(added, in[1] * 2 - 5, slice(in[2], 0, 0, 1), true);
        return index_select(put(placed, in[1], slice(in[2], 0, 1, 1)), 1, in[1]);
      }));
  OnRanks ranks(graph, 1);
  const Numbers at{2, 0, 0, 2};
  const Array x = random_array(random, DType::F64, {2, 3}),
              source = random_array(random, DType::F64, {2, 4});
  std::vector<double> y(6);
  for (std::size_t i = 0; i < 6; ++i) y[i] = x.at(static_cast<std::int64_t>(i));
  const auto from = [&](std::size_t row, std::size_t k) {
    return source.at(static_cast<std::int64_t>(row * 4 + k));
  };
  const auto column = [&](std::size_t k) { return static_cast<std::size_t>(at[k]); };
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t k = 0; k < 4; ++k) y[row * 3 + column(k)] = from(row, k);
    y[row * 3 + column(0)] = 0.5;
    for (std::size_t k = 0; k < 4; ++k) y[row * 3 + column(k)] += from(row, k);
  }
  for (std::size_t k = 0; k < 4; ++k)
    y[static_cast<std::size_t>((at[k] * 2 - 5 + 6) % 6)] += from(0, k);
  for (std::size_t k = 0; k < 4; ++k) y[column(k)] = from(1, k);
  Array expected(DType::F64, {2, 4});
  for (std::size_t i = 0; i < 8; ++i)
    expected.set(static_cast<std::int64_t>(i), y[i / 4 * 3 + column(i % 4)]);
  expect_everywhere(ranks, {x, integers({4}, at), source}, expected);
}

TEST(Masks, FillScatterAndPut) {
  std::mt19937_64 random(17);
  const Graph graph = must(traced({{DType::I32, {dynamic(4, 0), dynamic(3, 0)}},
                                   {DType::Bool, {dynamic(4, 0), dynamic(3, 0)}},
                                   {DType::I32, {dynamic(12, 0)}}},
                                  [](const std::vector<Tensor>& in) {
                                    const Tensor some = masked_scatter(in[0], in[1], in[2]);
                                    const Tensor put = masked_put(in[0], ~in[1], 4);
                                    return stack({masked_fill(in[0], in[1], 9), some, put});
                                  }));
  OnRanks ranks(graph, 1);
  for (const Numbers& sizes : {Numbers{0, 3}, {1, 1}, {2, 5}, {4, 4}})
    for (const std::int64_t more : {0, 3}) {
      const Array x = random_array(random, DType::I32, sizes),
                  mask = random_array(random, DType::Bool, sizes);
      const std::int64_t n = x.elements();
      std::int64_t trues = 0;
      for (std::int64_t i = 0; i < n; ++i) trues += mask.at(i) != 0 ? 1 : 0;
      const Array source = random_array(random, DType::I32, {trues + more});
      Array expected(DType::I32, {3, sizes[0], sizes[1]});
      for (std::int64_t i = 0, k = 0; i < n; ++i) {
        const bool chosen = mask.at(i) != 0;
        expected.set(i, chosen ? 9 : x.at(i));
        expected.set(n + i, chosen ? source.at(k++) : x.at(i));
        expected.set(2 * n + i, chosen ? x.at(i) : 4);
      }
      expect_everywhere(ranks, {x, mask, source}, expected);
      if (trues == 0 || more > 0) continue;
      const OnRanks::Run run =
          ranks.everywhere({named({x, mask, random_array(random, DType::I32, {trues - 1})})});
      ASSERT_FALSE(run.ranks[0]->has_value());
      EXPECT_NE(run.ranks[0]->error().message.find("masked_scatter at"), std::string::npos);
    }
}

TEST(Masks, PutOfRows_CountsThem) {
  const Graph graph =
      must(traced({{DType::F64, {dynamic(4, 0), 2}},
                   {DType::Bool, {dynamic(4, 0)}},
                   {DType::F64, {dynamic(3, 0), 2}}},
                  [](const std::vector<Tensor>& in) { return masked_put(in[0], in[1], in[2]); }));
  OnRanks ranks(graph, 1);
  std::mt19937_64 random(18);
  const Array x = random_array(random, DType::F64, {4, 2});
  const std::vector<double> flags{0, 1, 0, 1};
  const Array mask = Array::of(DType::Bool, {4}, flags);
  for (const std::int64_t rows : {0, 2, 3}) {
    const Array values = random_array(random, DType::F64, {rows, 2});
    if (rows != 2) {
      const OnRanks::Run run = ranks.everywhere({named({x, mask, values})});
      ASSERT_FALSE(run.ranks[0]->has_value()) << rows;
      EXPECT_EQ(run.ranks[0]->error().code, Code::RuntimeAssert);
      continue;
    }
    Array expected(DType::F64, {4, 2});
    for (std::int64_t i = 0; i < 8; ++i)
      expected.set(
          i, flags[static_cast<std::size_t>(i / 2)] == 0 ? x.at(i) : values.at(i / 4 * 2 + i % 2));
    expect_everywhere(ranks, {x, mask, values}, expected);
  }
}

TEST(Masks, PutOfWhatTheMaskChose_WaitsForNothing) {
  const Graph graph = must(
      traced({{DType::F64, {dynamic(4, 0)}}, {DType::F64, {}}}, [](const std::vector<Tensor>& in) {
        const Tensor mask = in[0] > 0.0;
        const Tensor y = masked_put(in[0], mask, in[0][mask] * 2.0);
        return masked_put(y, ~mask, in[1]) + 0.0;
      }));
  int waits = 0, asserts = 0;
  for (const Node& node : graph.nodes) {
    waits += node.op == Op::Item ? 1 : 0;
    asserts += node.op == Op::Assert ? 1 : 0;
  }
  EXPECT_EQ(waits, 0) << graph.text();
  EXPECT_EQ(asserts, 0) << graph.text();
}

/// `x[mask] = value` would change nothing: x is not a place that is written.
template <class Value>
concept WrittenByMask = requires(Tensor x, Tensor mask, Value value) {
  x[mask] = value;
};
template <class Value>
concept WrittenByName = requires(Tensor x, Value value) {
  x = value;
};
static_assert(WrittenByName<Tensor>);
static_assert(!WrittenByMask<Tensor> && !WrittenByMask<Array>,
              "write x = masked_put(x, mask, value)");
static_assert(!WrittenByMask<double> && !WrittenByMask<SymInt> && !WrittenByMask<SymFloat>);

TEST(Scatter, WhatDoesNotFit_IsRefusedInOneSentence) {
  const auto says = [](const std::vector<In>& inputs, const std::string& words, const Body& body) {
    const std::string message = refusal(traced(inputs, body));
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_NE(message.find("scatter_test.cpp:"), std::string::npos) << message;
  };
  const In x{DType::F64, {4, 3}}, at{DType::I64, {2, 3}}, flags{DType::Bool, {4}};
  says({x, at, {DType::F32, {2, 3}}}, "scatter: dtypes differ: f64 and f32",
       [](const auto& in) { return scatter(in[0], 0, in[1], in[2]); });
  says({x, at, {DType::F64, {1, 3}}}, "scatter: the index is larger than src (2 and 1)",
       [](const auto& in) { return scatter(in[0], 0, in[1], in[2]); });
  says({x, {DType::I64, {2, 4}}}, "scatter: the index is larger than x but along its dim (4 and 3)",
       [](const auto& in) { return scatter(in[0], 0, in[1], 1); });
  says({{DType::I64, {4, 3}}, at}, "scatter: a floating-point number meets a tensor of i64",
       [](const auto& in) { return scatter(in[0], 0, in[1], 1.5); });
  says({{DType::I64, {4, 3}}, at}, "scatter: an integer this large is not exact here",
       [](const auto& in) { return scatter(in[0], 0, in[1], 9007199254740993); });
  says({x, {DType::Bool, {}}}, "index: takes no mask of one element; see where()",
       [](const auto& in) { return index(in[0], {in[1]}); });
  says({x}, "index: needs at least one tensor of indices",
       [](const auto& in) { return index(in[0], {{}}); });
  says({x, {DType::I64, {2}}}, "index: 3 indices are too many for f64[4, 3]", [](const auto& in) {
    return in[0][{in[1], {}, in[1]}];
  });
  says({x, {DType::I64, {2}}, {DType::F64, {3, 3}}},
       "index_copy: the source f64[3, 3] has not one slice per index",
       [](const auto& in) { return index_copy(in[0], 0, in[1], in[2]); });
  says({x, flags}, "masked_scatter: takes a mask of bools",
       [](const auto& in) { return masked_scatter(in[0], in[0], in[0]); });
  says({x, at}, "index_fill: takes an index of one dim",
       [](const auto& in) { return index_fill(in[0], 0, in[1], 0); });
}

}  // namespace
}  // namespace lockstep::worker::scatter_test
