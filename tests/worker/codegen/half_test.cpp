// f16 and bf16: every value and cast, against an oracle that searches all values; what moves them,
// on several ranks, interpreted, compiled for the host and for devices.
#include <bit>
#include <cmath>
#include <cstring>

#include "graph_builder.h"
#include "on_ranks.h"
#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::half_test {
namespace {

using shapes::Expr;

constexpr std::int64_t kPatterns = 65536;

struct Layout {
  int fraction, bias, infinity;
};
Layout layout(DType dtype) {
  return dtype == DType::F16 ? Layout{10, 15, 0x7c00} : Layout{7, 127, 0x7f80};
}

/// As the formats are written down: sign, exponent, fraction. Of infinity's bits: the power of two
/// that would come next, which is what overflow is rounded to.
double written(DType dtype, int bits) {
  const auto [fraction, bias, infinity] = layout(dtype);
  const int exponent = (bits & 0x7fff) >> fraction;
  double value = bits & ((1 << fraction) - 1);
  if (exponent > 0) value += 1 << fraction;
  value *= std::pow(2.0, std::max(exponent, 1) - bias - fraction);
  return (bits & 0x8000) != 0 ? -value : value;
}

/// The nearest of all values, found by bisection; midpoints are exact in a double.
std::uint16_t nearest(DType dtype, long double value) {
  const int infinity = layout(dtype).infinity, sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | infinity >> 1);
  const long double size = std::fabs(value);
  int low = 0, high = infinity;  // written(low) <= size, or both are where it ends
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (static_cast<long double>(written(dtype, middle)) <= size ? low : high) = middle;
  }
  const long double tie = (static_cast<long double>(written(dtype, low)) +
                           static_cast<long double>(written(dtype, high))) /
                          2;
  const bool up = size > tie || (size == tie && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

bool is_nan(DType dtype, std::uint16_t bits) { return (bits & 0x7fff) > layout(dtype).infinity; }

template <class T>
Array array_of(DType dtype, const std::vector<T>& values) {
  Array out(dtype, {static_cast<std::int64_t>(values.size())});
  std::memcpy(out.data(), values.data(), out.bytes());
  return out;
}

Array all_patterns(DType dtype) {
  std::vector<std::uint16_t> bits(kPatterns);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  return array_of(dtype, bits);
}

bool same_bytes(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

/// The interpreter's outputs, which the host's program and the device's give bit for bit.
std::vector<Array> outputs(const Graph& graph, const Inputs& inputs) {
  OnRanks ranks(graph, 1);
  const auto expected = ranks.interpreted({inputs}).ranks[0].value().value();
  const auto host = ranks.compiled({inputs}).ranks[0].value().value();
  const auto device = ranks.on_devices({inputs}, OnRanks::Way::Staged).ranks[0].value().value();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same_bytes(host[i], expected[i])) << "compiled, output " << i;
    EXPECT_TRUE(same_bytes(device[i], expected[i])) << "on a device, output " << i;
  }
  return expected;
}

void expect_moved(const Result<std::vector<Array>>& got,
                  const Result<std::vector<Array>>& expected) {
  ASSERT_TRUE(got.has_value()) << got.error().text();
  ASSERT_TRUE(expected.has_value()) << expected.error().text();
  ASSERT_EQ(got->size(), expected->size());
  for (std::size_t i = 0; i < got->size(); ++i) {
    EXPECT_EQ((*got)[i].sizes(), (*expected)[i].sizes()) << i;
    EXPECT_EQ(std::memcmp((*got)[i].data(), (*expected)[i].data(), (*got)[i].bytes()), 0) << i;
  }
}

class Half : public testing::TestWithParam<DType> {
 protected:
  [[nodiscard]] static DType half() { return GetParam(); }
};

TEST_P(Half, EveryPattern_IsItsNumberAndComesBack) {
  GraphBuilder g("patterns");
  const NodeId x = g.input("x", half(), {g.symbol("x.size(0)")});
  const NodeId narrow = g.cast(x, DType::F32), wide = g.cast(x, DType::F64);
  for (const NodeId id : {narrow, wide, g.cast(narrow, half()), g.cast(wide, half()),
                          g.cast(x, DType::I64), g.cast(x, DType::Bool)})
    g.output(id);
  const auto out = outputs(g.take(), {{"x", all_patterns(half())}});
  for (std::int64_t i = 0; i < kPatterns; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const bool nan = is_nan(half(), bits);
    const bool infinite = (bits & 0x7fff) == layout(half()).infinity;
    const double value =
        infinite ? std::copysign(INFINITY, written(half(), bits)) : written(half(), bits);
    for (std::size_t k : {0U, 1U}) {
      if (nan)
        EXPECT_TRUE(std::isnan(out[k].at(i))) << i;
      else
        EXPECT_EQ(std::bit_cast<std::uint64_t>(out[k].at(i)), std::bit_cast<std::uint64_t>(value))
            << i;
      const std::uint16_t back = out[k + 2].data_as<std::uint16_t>()[i];
      EXPECT_EQ(back, nan ? nearest(half(), NAN) : bits) << i;
    }
    const bool fits = !nan && !infinite && std::fabs(value) < 0x1p63;
    EXPECT_EQ(out[4].data_as<std::int64_t>()[i],
              fits ? static_cast<std::int64_t>(value) : std::numeric_limits<std::int64_t>::min())
        << i;
    EXPECT_EQ(out[5].data_as<bool>()[i], nan || value != 0) << i;
  }
}

/// Doubles where rounding is hard: ties, and next to them by as little as a double can be; next to
/// infinity and zero; and any bits at all.
std::vector<double> hard_doubles(DType dtype, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> out{0.0, -0.0, INFINITY, -INFINITY, NAN, -NAN, 5e-324, -5e-324, 1.7e308};
  for (int i = 0; i < 40000; ++i) {
    out.push_back(std::bit_cast<double>(random()));
    const int bits = static_cast<int>(random() % static_cast<unsigned>(layout(dtype).infinity));
    const double tie = (written(dtype, bits) + written(dtype, bits + 1)) / 2;
    for (const double value : {tie, std::nextafter(tie, INFINITY), std::nextafter(tie, 0.0),
                               tie * (1 + 0x1p-30), tie * (1 - 0x1p-26)})
      out.push_back((random() & 1) != 0 ? value : -value);
  }
  return out;
}

TEST_P(Half, HardDoublesFloatsAndIntegers_AreRoundedOnce) {
  const std::uint64_t seed = 20331;
  SCOPED_TRACE("seed " + std::to_string(seed));
  GraphBuilder g("rounded");
  const Expr n = g.symbol("wide.size(0)");
  const DType another = half() == DType::F16 ? DType::BF16 : DType::F16;
  std::vector<NodeId> inputs;
  for (const auto& [name, dtype] : {std::pair{"wide", DType::F64},
                                    {"narrow", DType::F32},
                                    {"whole", DType::I64},
                                    {"other", another}})
    inputs.push_back(g.input(name, dtype, {n}));
  for (const NodeId input : inputs) g.output(g.cast(input, half()));
  const std::vector<double> wide = hard_doubles(half(), seed);
  std::vector<float> narrow;
  std::vector<std::int64_t> whole;
  std::vector<std::uint16_t> other;
  std::mt19937_64 random(seed);
  for (const double value : wide) {
    narrow.push_back(static_cast<float>(value));
    // Ties of integers of every width, and next to them.
    std::int64_t number = static_cast<std::int64_t>(random() >> (random() % 64));
    if (random() % 2 == 0 && std::fabs(value) < 0x1p62)
      number = static_cast<std::int64_t>(value) + static_cast<std::int64_t>(random() % 3) - 1;
    whole.push_back(number);
    other.push_back(static_cast<std::uint16_t>(random()));
  }
  whole[0] = std::numeric_limits<std::int64_t>::min();
  whole[1] = std::numeric_limits<std::int64_t>::max();
  whole[2] = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1;  // rounds twice by way of f64
  const auto out = outputs(g.take(), {{"wide", array_of(DType::F64, wide)},
                                      {"narrow", array_of(DType::F32, narrow)},
                                      {"whole", array_of(DType::I64, whole)},
                                      {"other", array_of(another, other)}});
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(out[0].data_as<std::uint16_t>()[i], nearest(half(), wide[i])) << wide[i];
    EXPECT_EQ(out[1].data_as<std::uint16_t>()[i], nearest(half(), narrow[i])) << narrow[i];
    EXPECT_EQ(out[2].data_as<std::uint16_t>()[i],
              nearest(half(), static_cast<long double>(whole[i])))
        << whole[i];
    const double from = half_value(another, other[i]);
    EXPECT_EQ(out[3].data_as<std::uint16_t>()[i], nearest(half(), from)) << from;
  }
}

TEST_P(Half, Array_TakesAndGivesTheNearest) {
  const std::vector<double> values = hard_doubles(half(), 20332);
  const Array array = Array::of(half(), {static_cast<std::int64_t>(values.size())}, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(array.data_as<std::uint16_t>()[i], nearest(half(), values[i])) << values[i];
}

TEST_P(Half, Constant_IsItsNearestValue) {
  for (const double value : {1.0 / 3, -0.0, 1e-7, 1e39, 70000.0}) {
    GraphBuilder g("constant");
    g.input("x", DType::F32, {g.symbol("x.size(0)")});
    g.output(g.full(half(), {Expr(3)}, value));
    const auto out = outputs(g.take(), {{"x", array_of(DType::F32, std::vector<float>{1})}});
    EXPECT_EQ(out[0].data_as<std::uint16_t>()[2], nearest(half(), value)) << value;
  }
}

/// Of `order` i64 [s0], x [s0, 2] and y [6, 2].
Result<Graph> traced(DType dtype, int ranks,
                     const std::function<void(Trace&, Tensor, Tensor, Tensor)>& body) {
  const Decision decision = test::DecisionBuilder()
                                .tensor("order", DType::I64, {test::dynamic(6, 0)})
                                .tensor("x", dtype, {test::dynamic(6, 0), 2})
                                .tensor("y", dtype, {6, 2})
                                .get();
  return trace(test::setup(decision, ranks), [&](Trace& t) {
    const Tensor order = t.tensor_input(0), x = t.tensor_input(1);
    check(order.size(0) == x.size(0));
    body(t, order, x, t.tensor_input(2));
  });
}

/// Everything that moves elements or chooses among them.
void move(Trace& t, const Tensor& order, const Tensor& x, const Tensor& y) {
  const Tensor first = order < 3, picked = index_select(x, order);
  const Tensor gathered = all_gather(y), root = broadcast(y, Rank{0});
  t.output("x", x);
  t.output("flat", reshape(permute(x, {1, 0}), {-1}));
  t.output("cat", cat({x, slice(picked, 0, x.size(0) / 2, x.size(0) - x.size(0) / 2)}, 0));
  t.output("pad", pad(x, 1, 1, 2));
  t.output("expand", expand(unsqueeze(x, 1), {-1, 3, -1}));
  t.output("picked", picked);
  t.output("masked", x[first]);
  t.output("repeated", repeat_interleave(x, order, 0));
  t.output("chosen", where(unsqueeze(first, 1), x, 0));
  t.output("either", where(unsqueeze(first, 1), x, picked));
  t.output("gathered", gathered);
  t.output("root", root);
  t.output("even", all_to_all_single(y));
  t.output("split", split(gathered, {2, gathered.size(0) - 2}, 0)[1]);
}

Array of_bits(DType dtype, std::vector<std::int64_t> sizes, std::mt19937_64& random) {
  Array out(dtype, std::move(sizes));
  for (std::int64_t i = 0; i < out.elements(); ++i)
    out.data_as<std::uint16_t>()[i] = static_cast<std::uint16_t>(random());
  return out;
}

// What does not look at elements moves f16 and bf16 as it moves i16, not-a-numbers included.
TEST_P(Half, Moved_KeepTheirBits_OnEveryTarget) {
  for (const int ranks : {1, 2, 3}) {
    auto graph = traced(half(), ranks, move), whole = traced(DType::I16, ranks, move);
    ASSERT_TRUE(graph.has_value()) << graph.error().text();
    ASSERT_TRUE(whole.has_value()) << whole.error().text();
    OnRanks of_half(*graph, ranks), of_whole(*whole, ranks);
    for (const std::int64_t n : {0, 1, 2, 5}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, n " + std::to_string(n) + ", seed 20333");
      std::vector<Inputs> inputs, wholes;
      std::mt19937_64 random(20333);
      for (int r = 0; r < ranks; ++r) {
        std::vector<std::int64_t> order;
        for (std::int64_t i = 0; i < n + r; ++i) order.push_back((n + r - 1 - i));
        inputs.push_back({{"order", integers({n + r}, order)},
                          {"x", of_bits(half(), {n + r, 2}, random)},
                          {"y", of_bits(half(), {6, 2}, random)}});
        wholes.push_back(inputs.back());
        for (const char* name : {"x", "y"})
          std::memcpy((wholes.back()[name] = Array(DType::I16, inputs.back()[name].sizes())).data(),
                      inputs.back()[name].data(), inputs.back()[name].bytes());
      }
      const auto expected = of_whole.interpreted(wholes);
      for (const auto& got : {of_half.interpreted(inputs), of_half.compiled(inputs),
                              of_half.on_devices(inputs, OnRanks::Way::Staged),
                              of_half.on_devices(inputs, OnRanks::Way::Direct)})
        for (std::size_t r = 0; r < inputs.size(); ++r)
          expect_moved(*got.ranks[r], *expected.ranks[r]);
    }
  }
}

// Weights are small whole numbers, so that no sum is rounded: gradients are those of f32.
TEST_P(Half, GradientsThroughMovesAndCasts_AreThoseOfF32) {
  const auto body = [](Trace& t, const Tensor& order, const Tensor& x, const Tensor& y) {
    const auto weighed = [](const Tensor& z) {
      Tensor weights = cast(iota(z.sizes(), 0) % 5 + 1, DType::F32);
      return sum(cast(z, DType::F32) * weights);
    };
    const Tensor low = where(unsqueeze(order < 2, 1), x, index_select(x, order / 2));
    const Tensor loss = weighed(cat({low, pad(x, 0, 1, 0)}, 0)) + weighed(permute(x, {1, 0})) +
                        weighed(expand(unsqueeze(low, 1), {-1, 3, -1})) + weighed(all_gather(y)) +
                        weighed(all_to_all_single(y)) +
                        weighed(cast(cast(y, DType::F64), y.dtype()));
    const std::vector<Tensor> grads = grad(loss, {x, y});
    EXPECT_EQ(grads[0].dtype(), x.dtype());
    EXPECT_EQ(grads[1].dtype(), y.dtype());
    t.output("x", cast(grads[0], DType::F32));
    t.output("y", cast(grads[1], DType::F32));
  };
  for (const int ranks : {1, 2}) {
    auto graph = traced(half(), ranks, body), narrow = traced(DType::F32, ranks, body);
    ASSERT_TRUE(graph.has_value()) << graph.error().text();
    ASSERT_TRUE(narrow.has_value()) << narrow.error().text();
    std::vector<Inputs> inputs, narrows;
    for (std::int64_t n = 3; n < 3 + ranks; ++n)
      for (auto& [list, dtype] : {std::pair{&inputs, half()}, {&narrows, DType::F32}})
        list->push_back(
            {{"order", integers({n}, std::vector<std::int64_t>(static_cast<std::size_t>(n), 2))},
             {"x", Array::zeros(dtype, {n, 2})},
             {"y", Array::zeros(dtype, {6, 2})}});
    const auto got = OnRanks(*graph, ranks).everywhere(inputs);
    const auto expected = OnRanks(*narrow, ranks).interpreted(narrows);
    for (std::size_t r = 0; r < inputs.size(); ++r)
      EXPECT_TRUE(same(got.ranks[r]->value(), expected.ranks[r]->value(), 0));
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Half, testing::Values(DType::F16, DType::BF16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

}  // namespace
}  // namespace lockstep::worker::half_test
