// What works element by element, beside functions of the C++ library in double and beside values
// and gradients that torch gives: interpreted, compiled for the host, and on an emulated device.
#include <cmath>
#include <functional>
#include <limits>

#include "on_ranks.h"
#include "traced_run.h"
#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::elementwise_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;
using test::TracedRun;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Function {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> traced;
  std::function<double(double, double)> expected;
};

Graph must(Result<Graph> graph) {
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? std::move(*graph) : Graph{};
}

Graph graph_of(const std::vector<Function>& functions, DType dtype) {
  const Decision decision = DecisionBuilder()
                                .tensor("a", dtype, {dynamic(5, 0)})
                                .tensor("b", dtype, {dynamic(5, 0)})
                                .get();
  return must(trace(test::setup(decision), [&](Trace& t) {
    for (const Function& f : functions)
      t.output(f.name, f.traced(t.tensor_input(0), t.tensor_input(1)));
  }));
}

bool close(double got, double expected, double bound) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return got == expected;
  return std::fabs(got - expected) <= bound * std::max(1.0, std::fabs(expected));
}

/// The values in `from` against each other, cut to the first 0, 1, 2 and 5 pairs, and all of them.
void compare(const std::vector<Function>& functions, DType dtype, const std::vector<double>& from,
             double bound) {
  OnRanks ranks(graph_of(functions, dtype), 1);
  const std::size_t all = from.size() * from.size();
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{5}, all}) {
    Array a(dtype, {static_cast<std::int64_t>(count)}), b = a;
    for (std::size_t i = 0; i < count; ++i) {
      a.set(static_cast<std::int64_t>(i), from[i % from.size()]);
      b.set(static_cast<std::int64_t>(i), from[i / from.size() % from.size()]);
    }
    for (const Way& way : every_way(ranks, {{"a", a}, {"b", b}}))
      for (std::size_t f = 0; f < functions.size(); ++f)
        for (std::int64_t i = 0; i < a.elements(); ++i)
          EXPECT_TRUE(close(way.outputs[f].at(i), functions[f].expected(a.at(i), b.at(i)), bound))
              << functions[f].name << " of " << a.at(i) << " and " << b.at(i) << " is "
              << way.outputs[f].at(i) << ", expected " << functions[f].expected(a.at(i), b.at(i))
              << ", " << way.name;
  }
}

double python_remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && std::signbit(rest) != std::signbit(b) ? rest + b : rest;
}
double half_to_even(double x) {
  const double below = std::floor(x), rest = x - below;
  if (std::isnan(rest)) return x;
  if (rest != 0.5) return rest < 0.5 ? below : below + 1;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

// Of each its own line, so that a wrong one is seen by its name.
// clang-format off
#define ONE(name, ...) {#name, [](const Tensor& a, const Tensor&) { return name(a); }, [](double a, double) { return static_cast<double>(__VA_ARGS__); }}
#define TWO(name, ...) {#name, [](const Tensor& a, const Tensor& b) { return name(a, b); }, [](double a, double b) { return static_cast<double>(__VA_ARGS__); }}
const std::vector<Function>& smooth_functions() {
  static const std::vector<Function> all{
      ONE(exp2, std::exp2(a)), ONE(log2, std::log2(a)), ONE(log1p, std::log1p(a)),
      ONE(expm1, std::expm1(a)), ONE(sin, std::sin(a)), ONE(cos, std::cos(a)), ONE(tan, std::tan(a)),
      ONE(erf, std::erf(a)), TWO(atan2, std::atan2(a, b)), TWO(pow, std::pow(a, b)),
      ONE(gelu_exact, a * 0.5 * (1 + std::erf(a / std::sqrt(2.0)))),
      ONE(softplus, a > 20 ? a : std::log1p(std::exp(a))),
      ONE(elu, a > 0 ? a : std::expm1(a)),
      ONE(leaky_relu, a > 0 ? a : a * 0.01),
      {"round to a decimal", [](const Tensor& a, const Tensor&) { return round(a, 1); }, [](double a, double) { return half_to_even(a * 10) / 10; }},
      {"round to tens", [](const Tensor& a, const Tensor&) { return round(a * 10.0, -1); }, [](double a, double) { return half_to_even(a * 10 / 10) * 10; }},
  };
  return all;
}
const std::vector<Function>& exact_functions() {
  static const std::vector<Function> all{
      ONE(floor, std::floor(a)), ONE(ceil, std::ceil(a)), ONE(trunc, std::trunc(a)),
      ONE(round, half_to_even(a)), ONE(sign, a > 0 ? 1 : a < 0 ? -1 : 0),
      ONE(isnan, std::isnan(a)), ONE(isinf, std::isinf(a)), ONE(isfinite, std::isfinite(a)),
      TWO(fmod, std::fmod(a, b)), TWO(remainder, python_remainder(a, b)),
      TWO(clamp_min, std::isnan(a) || std::isnan(b) ? kNaN : std::max(a, b)),
      TWO(clamp_max, std::isnan(a) || std::isnan(b) ? kNaN : std::min(a, b)),
  };
  return all;
}
// clang-format on

TEST(Elementwise, Functions_AsTheLibraryGivesThem) {
  const std::vector<double> values{0.3,  -0.7, 1,    -1,   0.5, -0.5, 2,     3,    -3, 2.5,
                                   7.25, -7.5, 12.5, 1e-9, 21,  kInf, -kInf, kNaN, 0,  -2};
  compare(smooth_functions(), DType::F64, values, 1e-13);
  compare(smooth_functions(), DType::F32, values, 2e-6);
}

TEST(Elementwise, RoundingAndRemainders_AreExact) {
  const std::vector<double> values{0.5,  1.5,  2.5,  -0.5, -1.5, -2.5, 7,     -7,   3, -3,
                                   0.25, 5.75, -0.1, 0.1,  1e15, kInf, -kInf, kNaN, 0, -0.0};
  compare(exact_functions(), DType::F64, values, 0);
  std::vector<Function> others = exact_functions();  // the sum in a remainder is rounded
  std::erase_if(others, [](const Function& f) { return f.name == std::string("remainder"); });
  compare(others, DType::F32, values, 0);
}

/// A value of each dtype's width, wrapped as ints are.
double wrapped(DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::U8:
      return static_cast<std::uint8_t>(value);
    case DType::I8:
      return static_cast<std::int8_t>(value);
    case DType::I32:
      return static_cast<std::int32_t>(value);
    default:
      return static_cast<double>(value);
  }
}
std::int64_t divided_down(std::int64_t a, std::int64_t b) {
  std::int64_t below = -(std::abs(a) + 1) * 2;
  if (b == 0) return 0;
  while (b > 0 ? (below + 1) * b <= a : (below + 1) * b >= a) ++below;
  return below;
}
std::int64_t multiplied(std::int64_t a, std::int64_t times) {
  if (times < 0) return a == 1 ? 1 : a == -1 ? (times % 2 == 0 ? 1 : -1) : 0;
  std::int64_t out = 1;
  for (; times > 0; --times) out *= a;
  return out;
}

TEST(Elementwise, Ints_AsCountedByHand) {
  for (const DType dtype : {DType::U8, DType::I8, DType::I32, DType::I64}) {
    SCOPED_TRACE(dtype_name(dtype));
    const int bits = 8 * static_cast<int>(dtype_size(dtype));
    const bool is_signed = dtype != DType::U8;
    const auto of = [&](auto f) {
      return [=](double a, double b) {
        return wrapped(dtype, f(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)));
      };
    };
    using I = std::int64_t;
    const std::vector<Function> functions{
        {"and", [](auto& a, auto& b) { return a & b; }, of([](I a, I b) { return a & b; })},
        {"or", [](auto& a, auto& b) { return a | b; }, of([](I a, I b) { return a | b; })},
        {"xor", [](auto& a, auto& b) { return a ^ b; }, of([](I a, I b) { return a ^ b; })},
        {"not", [](auto& a, auto&) { return ~a; }, of([](I a, I) { return ~a; })},
        {"left", [](auto& a, auto& b) { return a << b; },
         of([=](I a, I b) { return b < 0 || b >= bits ? 0 : a * (I{1} << b); })},
        {"right", [](auto& a, auto& b) { return a >> b; }, of([=](I a, I b) {
           return b < 0 || b >= bits ? (a < 0 ? -1 : 0) : divided_down(a, I{1} << b);
         })},
        {"floor_divide", [](auto& a, auto& b) { return floor_divide(a, b); }, of(divided_down)},
        {"remainder", [](auto& a, auto& b) { return remainder(a, b); },
         of([](I a, I b) { return a - divided_down(a, b) * b; })},
        {"fmod", [](auto& a, auto& b) { return fmod(a, b); },
         of([](I a, I b) { return b == 0 ? a : a % b; })},
        {"pow", [](auto& a, auto& b) { return pow(a, b); }, of(multiplied)},
        {"cube", [](auto& a, auto&) { return pow(a, 3); }, of([](I a, I) { return a * a * a; })},
        {"sign", [](auto& a, auto&) { return sign(a); },
         of([](I a, I) { return (a > 0) - (a < 0); })},
        {"round", [](auto& a, auto&) { return round(a); }, of([](I a, I) { return a; })},
    };
    std::vector<double> values{0, 1, 2, 3, 5, 7, 8, 13};
    if (is_signed) values.insert(values.end(), {-1, -2, -3, -7});
    compare(functions, dtype, values, 0);
  }
}

TEST(Elementwise, BitwiseOfBools_IsLogical) {
  const std::vector<Function> functions{
      {"and", [](auto& a, auto& b) { return a & b; }, [](double a, double b) { return a * b; }},
      {"xor", [](auto& a, auto& b) { return a ^ b; }, [](double a, double b) { return a != b; }},
      {"or", [](auto& a, auto& b) { return a | b; },
       [](double a, double b) { return std::max(a, b); }},
      {"not", [](auto& a, auto&) { return ~a; }, [](double a, double) { return 1 - a; }}};
  compare(functions, DType::Bool, {0, 1}, 0);
}

/// Values and gradients of the sum at some places, as torch 2.15 gives them.
TEST(Elementwise, FunctionsOfIntsAndBools_GiveF32) {
  const std::vector<Function> functions{ONE(exp, std::exp(a)), ONE(sqrt, std::sqrt(a)),
                                        ONE(sigmoid, 1 / (1 + std::exp(-a))),
                                        TWO(atan2, std::atan2(a, b))};
  for (const DType dtype : {DType::I64, DType::U8, DType::Bool}) {
    for (const Graph::Output& output : graph_of(functions, dtype).outputs)
      EXPECT_EQ(graph_of(functions, dtype).nodes[output.node].meta.dtype, DType::F32);
    compare(functions, dtype,
            dtype == DType::Bool ? std::vector{0.0, 1.0} : std::vector{0.0, 1.0, 7.0}, 1e-6);
  }
  compare({TWO(maximum, std::max(a, b)), TWO(minimum, std::min(a, b))}, DType::Bool, {0, 1}, 0);
}
#undef ONE
#undef TWO

struct Known {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> traced;
  std::vector<double> a, b, value, by_a, by_b;
};

TEST(Elementwise, SpecialValuesAndTheirGradients_AreTorchs) {
  const auto two = [](Tensor (*f)(const TensorOperand&, const TensorOperand&)) {
    return [f](const Tensor& a, const Tensor& b) { return f(a, b); };
  };
  const double m = std::numeric_limits<double>::max();
  // clang-format off
  const std::vector<Known> known{
      {"clamp", [](auto& a, auto&) { return clamp(a, -1, 1); },
       {kNaN, -1, 1, 2, -2, 0}, {}, {kNaN, -1, 1, 1, -1, 0}, {0, 0, 0, 0, 0, 1}, {}},
      {"clamp crossed", [](auto& a, auto&) { return clamp(a, 1, -1); },
       {kNaN, -1, 1, 2, -2, 0}, {}, {kNaN, -1, -1, -1, -1, -1}, {0, 0, 0, 0, 0, 0}, {}},
      {"clamp_min of a tensor", [](auto& a, auto& b) { return clamp_min(a, b); },
       {-1, 0, 2}, {-1, 0, 3}, {-1, 0, 3}, {0.5, 0.5, 0}, {0.5, 0.5, 1}},
      {"maximum", two(maximum), {1, kNaN, 2, 1}, {1, 1, kNaN, 3}, {1, kNaN, kNaN, 3}, {0.5, 1, 1, 0}, {0.5, 1, 1, 1}},
      {"relu", [](auto& a, auto&) { return relu(a); }, {1, kNaN, 0, -1}, {}, {1, kNaN, 0, 0}, {1, 1, 0, 0}, {}},
      {"pow", two(pow), {0, 0, -1, -2, 2, 0, 0, 1, kInf, 0, -8}, {0, 1, 2, 3, 0.5, -1, 0.5, kNaN, -1, 2, 1.0 / 3},
       {1, 0, 1, -8, std::sqrt(2.0), kInf, 0, 1, 0, 0, kNaN},
       {0, 1, -2, 12, 0.35355339059327379, -kInf, kInf, kNaN, 0, 0, kNaN},
       {0, 0, kNaN, kNaN, 0.98025814346854716, -kInf, 0, 0, kNaN, 0, kNaN}},
      {"pow of a number", [](auto& a, auto&) { return pow(a, 0.5); },
       {-0.0, -kInf, 0, 4}, {}, {0, kNaN, 0, 2}, {-kInf, kNaN, kInf, 0.25}, {}},
      {"pow of 0", [](auto& a, auto&) { return pow(a, 0) + a * 0; }, {0, 2}, {}, {1, 1}, {0, 0}, {}},
      {"atan2", two(atan2), {0, -0.0, 1}, {0, -1, 0}, {0, -std::acos(-1.0), std::acos(0.0)}, {0, -1, 0}, {0, 0, -1}},
      {"fmod", two(fmod), {5.5, -5.5, 5.5, -1, kInf, 1}, {2, 2, -2, kInf, 2, 0}, {1.5, -1.5, 1.5, -1, kNaN, kNaN},
       {1, 1, 1, 1, 1, 1}, {-2, 2, 2, 0, -kInf, -kInf}},
      {"remainder", two(remainder), {5.5, -5.5, 5.5, -1, kInf, 1, 4}, {2, 2, -2, kInf, 2, 0, -2},
       {1.5, 0.5, -0.5, kInf, kNaN, kNaN, 0}, {1, 1, 1, 1, 1, 1, 1}, {-2, 3, 3, 1, kNaN, -kInf, 2}},
      {"floor_divide", [](auto& a, auto& b) { return floor_divide(a, b) + a * 0.0; },
       {5.5, -5.5, 5.5, -1, 4, 1, 7}, {2, 2, -2, kInf, -2, 0.1, 7}, {2, -3, -3, -1, -2, 9, 1}, {0, 0, 0, 0, 0, 0, 0}, {}},
      {"softplus", [](auto& a, auto&) { return softplus(a); }, {0, -800, 800, 20, 21, kNaN, kInf, -kInf}, {},
       {std::log(2.0), 0, 800, 20.000000002061153, 21, kNaN, kInf, 0}, {0.5, 0, 1, 0.9999999979388464, 1, kNaN, 1, 0}, {}},
      {"elu", [](auto& a, auto&) { return elu(a); }, {0, 800, -800, kNaN, kInf}, {}, {0, 800, -1, kNaN, kInf}, {1, 1, 0, 1, 1}, {}},
      {"leaky_relu", [](auto& a, auto&) { return leaky_relu(a); },
       {0, 800, -800, kNaN, kInf}, {}, {0, 800, -8, kNaN, kInf}, {0.01, 1, 0.01, 0.01, 1}, {}},
      {"nan_to_num", [](auto& a, auto&) { return nan_to_num(a); }, {3, kNaN, kInf, -kInf}, {}, {3, 0, m, -m}, {1, 0, 0, 0}, {}},
      {"nan_to_num given", [](auto& a, auto&) { return nan_to_num(a, 1, 2, 3); }, {4, kNaN, kInf, -kInf}, {}, {4, 1, 2, 3}, {1, 0, 0, 0}, {}},
      {"log1p", [](auto& a, auto&) { return log1p(a); }, {0, -1, -2}, {}, {0, -kInf, kNaN}, {1, kInf, -1}, {}},
      {"erf", [](auto& a, auto&) { return erf(a); }, {0, kInf, -kInf}, {}, {0, 1, -1}, {1.1283791670955126, 0, 0}, {}},
      {"gelu_exact", [](auto& a, auto&) { return gelu_exact(a); }, {0, -30, 30, kInf}, {}, {0, 0, 30, kInf}, {0.5, 0, 1, kNaN}, {}},
      {"sign", [](auto& a, auto&) { return sign(a) + a * 0.0; }, {2, -0.5, 0}, {}, {1, -1, 0}, {0, 0, 0}, {}},
  };
  // clang-format on
  // One graph computes each on all places; what is compared is each on its own.
  std::vector<double> a, b;
  for (const Known& k : known) {
    a.insert(a.end(), k.a.begin(), k.a.end());
    b.insert(b.end(), k.b.begin(), k.b.end());
    b.resize(a.size(), 1);
  }
  const Decision decision = DecisionBuilder()
                                .tensor("a", DType::F64, {dynamic(5, 0)})
                                .tensor("b", DType::F64, {dynamic(5, 0)})
                                .get();
  const auto body = [&](Trace& t) {
    const Tensor x = t.tensor_input(0), y = t.tensor_input(1);
    for (const Known& k : known) {
      const Tensor value = k.traced(x, y);
      const std::vector<Tensor> grads = grad(sum(value), {x, y});
      t.output(std::string(k.name), value);
      t.output(std::string(k.name) + " by a", grads[0]);
      t.output(std::string(k.name) + " by b", grads[1]);
    }
  };
  OnRanks ranks(must(trace(test::setup(decision), body)), 1);
  const std::vector<std::int64_t> sizes{static_cast<std::int64_t>(a.size())};
  for (const Way& way : every_way(ranks, {{"a", Array::of(DType::F64, sizes, a)},
                                          {"b", Array::of(DType::F64, sizes, b)}})) {
    std::int64_t at = 0;
    for (std::size_t f = 0; f < known.size(); ++f) {
      const Known& k = known[f];
      for (std::size_t i = 0; i < k.a.size(); ++i, ++at)
        for (std::size_t o = 0; o < (k.by_b.empty() ? 2 : 3); ++o) {
          const double expected = (o == 0 ? k.value : o == 1 ? k.by_a : k.by_b)[i];
          const double got = way.outputs[3 * f + o].at(at);
          EXPECT_TRUE(close(got, expected, 1e-13))
              << k.name
              << (o == 0   ? ""
                  : o == 1 ? " by a"
                           : " by b")
              << " at " << k.a[i] << ", " << b[static_cast<std::size_t>(at)] << " is " << got
              << ", expected " << expected << ", " << way.name;
        }
    }
  }
}

/// x, k and lr are named in the decision's order: k, lr, x.
Graph scalars_graph(
    const std::function<void(Trace&, const SymInt&, const SymFloat&, const Tensor&)>& body) {
  const Decision decision = DecisionBuilder()
                                .integer("k", dynamic(3))
                                .number("lr")
                                .tensor("x", DType::F32, {dynamic(5, 0)})
                                .get();
  return must(trace(test::setup(decision), [&](Trace& t) {
    body(t, t.int_input(0), t.float_input(1), t.tensor_input(2));
  }));
}

TEST(Elementwise, IntegersAndFloats_OnEitherSideOfEveryOperator) {
  int outputs = 0;
  const auto name = [&outputs] {  // in the order of their names
    const int n = outputs++;
    return std::string{static_cast<char>('A' + n / 26), static_cast<char>('a' + n % 26)};
  };
  const Graph graph = scalars_graph([&](Trace& t, const SymInt& k, const SymFloat& lr,
                                        const Tensor& x) {
    const auto out = [&](const Tensor& y) { t.output(name(), y); };
    const auto number = [&](const SymFloat& y) { t.output(name(), y.tensor()); };
    const auto sides = [&](const auto& s) {
      for (const Tensor& y : {x + s, s + x, x - s, s - x, x * s, s * x, x / s, s / x, x % s, s % x})
        out(y);
      for (const Tensor& y :
           {x<s, s<x, x <= s, s <= x, x> s, s> x, x >= s, s >= x, x == s, s == x, x != s, s != x})
        out(y);
    };
    sides(k);
    sides(lr);
    for (const SymFloat& y :
         {k + lr, lr + k, k - lr, lr - k, k * lr, lr * k, k / lr, lr / k, k % lr, lr % k})
      number(y);
    for (const SymFloat& y :
         {k + 0.5, 0.5 + k, k - 0.5, 0.5 - k, k * 0.5, 0.5 * k, k / 0.5, 0.5 / k, k % 0.5, 0.5 % k})
      number(y);
    for (const Tensor& y : {k < lr, lr < k, k == lr, lr == k, k >= lr}) out(y);
    const Tensor i = cast(x, DType::I32);
    for (const Tensor& y : {i & k, k & i, i | k, k | i, i ^ k, k ^ i, i << k, k << i, i >> k,
                            k >> i, i % k, k / (i + 9)})
      out(y);
    EXPECT_EQ((x * (k * lr)).dtype(), DType::F32);
    EXPECT_EQ((x * (k * 0.5)).dtype(), DType::F32);
    EXPECT_EQ((i * k).dtype(), DType::I32);
    const SymInt more = k + 1, less = 2 * k - k;
    EXPECT_EQ(more.text(), (less + 1).text());
  });
  OnRanks ranks(graph, 1);
  const double k = 3, lr = 0.75;
  const std::vector<double> x{2.5, 3, -4, 0.75, 1};
  const Inputs inputs{{"k", Array::of(DType::I64, {}, std::vector{k})},
                      {"lr", Array::of(DType::F64, {}, std::vector{lr})},
                      {"x", Array::of(DType::F32, {5}, x)}};
  for (const Way& way : every_way(ranks, inputs)) {
    SCOPED_TRACE(way.name);
    ASSERT_EQ(way.outputs.size(), static_cast<std::size_t>(outputs));
    for (std::size_t e = 0; e < x.size(); ++e) {
      std::vector<double> expected;
      const double y = x[e];
      for (const double s : {k, lr})
        for (const double value : {y + s,
                                   s + y,
                                   y - s,
                                   s - y,
                                   y * s,
                                   s * y,
                                   y / s,
                                   s / y,
                                   python_remainder(y, s),
                                   python_remainder(s, y),
                                   double(y < s),
                                   double(s < y),
                                   double(y <= s),
                                   double(s <= y),
                                   double(y > s),
                                   double(s > y),
                                   double(y >= s),
                                   double(s >= y),
                                   double(y == s),
                                   double(s == y),
                                   double(y != s),
                                   double(s != y)})
          expected.push_back(value);
      for (const double s : {lr, 0.5})
        for (const double value : {k + s, s + k, k - s, s - k, k * s, s * k, k / s, s / k,
                                   python_remainder(k, s), python_remainder(s, k)})
          expected.push_back(value);
      for (const double value : {0.0, 1.0, 0.0, 0.0, 1.0}) expected.push_back(value);
      const int i = static_cast<int>(y), n = 3;
      for (const int value :
           {i & n, n & i, i | n, n | i, i ^ n, n ^ i, i * 8, i < 0 ? 0 : n << i, i >> n,
            i < 0 ? 0 : n >> i, static_cast<int>(python_remainder(i, n)), n / (i + 9)})
        expected.push_back(value);
      ASSERT_EQ(expected.size(), way.outputs.size());
      for (std::size_t o = 0; o < expected.size(); ++o) {
        const Array& array = way.outputs[o];
        const double got = array.at(array.sizes().empty() ? 0 : static_cast<std::int64_t>(e));
        EXPECT_NEAR(got, expected[o], 1e-6) << "output " << o << ", x " << y;
      }
    }
  }
}

TEST(Elementwise, ClampBySizesAndFloats_TakesTheirValues) {
  OnRanks ranks(scalars_graph([](Trace& t, const SymInt& k, const SymFloat& lr, const Tensor& x) {
                  t.output("a", clamp(x, lr, k));
                  t.output("b", clamp(x, -1, x.size(0) - 3));
                  t.output("c", maximum(k, x));
                  t.output("d", where(x > k, lr, k * x));
                }),
                1);
  const std::vector<double> x{2.5, 4, -4, 0.5, 1};
  const Inputs inputs{{"k", Array::of(DType::I64, {}, std::vector{3.0})},
                      {"lr", Array::of(DType::F64, {}, std::vector{0.75})},
                      {"x", Array::of(DType::F32, {5}, x)}};
  for (const Way& way : every_way(ranks, inputs))
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      EXPECT_EQ(way.outputs[0].at(at), std::clamp(x[i], 0.75, 3.0));
      EXPECT_EQ(way.outputs[1].at(at), std::clamp(x[i], -1.0, 2.0));
      EXPECT_EQ(way.outputs[2].at(at), std::max(x[i], 3.0));
      EXPECT_EQ(way.outputs[3].at(at), x[i] > 3 ? 0.75 : 3 * x[i]);
    }
}

// As torch 2.15 gives them on x86, alone and in rows of vectors.
TEST(Elementwise, CastsOfFloatsToInts_OfWhatDoesNotFit_AreTorchs) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values{
      std::nan(""), inf,   -inf,  3e9,  -3e9,    2147483648.0, 12884901888.0 + 1024,
      1e19,         -1e19, 300.7, -1.5, 40000.9, -40000.9,     1e30};
  const auto n = static_cast<std::int64_t>(values.size());
  constexpr double kI32 = -2147483648.0, kI64 = -9223372036854775808.0;
  const std::pair<DType, std::vector<double>> expected[] = {
      {DType::I8, {0, 0, 0, 0, 0, 0, 0, 0, 0, 44, -1, 64, -64, 0}},
      {DType::U8, {0, 0, 0, 0, 0, 0, 0, 0, 0, 44, 255, 64, 192, 0}},
      {DType::I16, {0, 0, 0, 0, 0, 0, 0, 0, 0, 300, -1, -25536, 25536, 0}},
      {DType::I32,
       {kI32, kI32, kI32, kI32, kI32, kI32, kI32, kI32, kI32, 300, -1, 40000, -40000, kI32}},
      {DType::I64,
       {kI64, kI64, kI64, 3e9, -3e9, 2147483648.0, 12884901888.0 + 1024, kI64, kI64, 300, -1, 40000,
        -40000, kI64}}};
  for (const DType from : {DType::F32, DType::F64}) {
    TracedRun program({Array::zeros(from, {n, 33})}, [&](Trace&, const std::vector<Tensor>& x) {
      std::vector<Tensor> out;
      for (const auto& [to, right] : expected) out.push_back(cast(x[0], to));
      return out;
    });
    Array x(from, {n, 33});
    for (std::int64_t i = 0; i < x.elements(); ++i)
      x.set(i, values[static_cast<std::size_t>(i / 33)]);
    const auto out = program.run({x});
    for (std::size_t k = 0; k < out.size(); ++k)
      for (std::int64_t i = 0; i < x.elements(); ++i)
        EXPECT_EQ(out[k].at(i), expected[k].second[static_cast<std::size_t>(i / 33)])
            << dtype_name(from) << " to " << dtype_name(expected[k].first) << " of " << x.at(i);
  }
}

TEST(Elementwise, MisuseIsRefusedWithItsLine) {
  const auto message = [](const std::function<Tensor(const Tensor&)>& body, DType dtype) {
    const Decision decision = DecisionBuilder().tensor("x", dtype, {dynamic(5, 0)}).get();
    const Result<Graph> graph =
        trace(test::setup(decision), [&](Trace& t) { t.output("y", body(t.tensor_input(0))); });
    EXPECT_FALSE(graph.has_value());
    return graph ? std::string() : graph.error().text();
  };
  const auto says = [](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_NE(text.find("elementwise_test.cpp:"), std::string::npos) << text;
  };
  says(message([](const Tensor& x) { return pow(x, -1); }, DType::I32), "negative power");
  says(message([](const Tensor& x) { return x & 1; }, DType::F32), "bitwise_and");
  says(message([](const Tensor& x) { return x << 1; }, DType::F64), "shift_left");
  says(message([](const Tensor& x) { return softplus(x); }, DType::I64), "softplus");
  says(message([](const Tensor& x) { return clamp(x, -3, 100); }, DType::U8),
       "clamp: -3 is not a value of u8");
  says(message([](const Tensor& x) { return clamp_max(x, 256); }, DType::U8),
       "clamp_max: 256 is not");
  says(message([](const Tensor& x) { return maximum(x, 0.5); }, DType::I32),
       "maximum: a floating-point number meets");
  says(message([](const Tensor& x) { return x + 300; }, DType::U8),
       "add: 300 is not a value of u8");
}

}  // namespace
}  // namespace lockstep::worker::elementwise_test
