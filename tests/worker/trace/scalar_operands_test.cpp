// Integers and floats of a trace as operands of functions and comparisons, on either side: beside
// the C++ library in double, interpreted, compiled for the host, and on an emulated device.
#include <cmath>
#include <functional>
#include <map>

#include "on_ranks.h"
#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::scalar_operands_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;

constexpr double kCount = 3, kRate = 0.75;
const std::vector<double> kValues{2.5, 3, 4, 0.75, 1};  // both numbers are among them

/// Expected, for each element of kValues, by name of the output.
using Expected = std::map<std::string, std::function<double(double)>>;

/// Traces `body` with the integer k, the float lr and x of f64, and compares what it puts out.
void expect_everywhere(
    const std::function<void(Trace&, const SymInt&, const SymFloat&, const Tensor&)>& body,
    const Expected& expected) {
  const Decision decision = DecisionBuilder()
                                .integer("k", dynamic(3))
                                .number("lr")
                                .tensor("x", DType::F64, {dynamic(5, 0)})
                                .get();
  const Result<Graph> graph = trace(test::setup(decision), [&](Trace& t) {
    body(t, t.int_input(0), t.float_input(1), t.tensor_input(2));
  });
  ASSERT_TRUE(graph) << graph.error().text();
  EXPECT_TRUE(graph->guards.empty()) << "a value of the run, so no guard";
  ASSERT_EQ(graph->outputs.size(), expected.size());
  OnRanks ranks(*graph, 1);
  for (const Way& way : every_way(ranks, {{"k", Array::of(DType::I64, {}, std::vector{kCount})},
                                          {"lr", Array::of(DType::F64, {}, std::vector{kRate})},
                                          {"x", Array::of(DType::F64, {5}, kValues)}}))
    for (std::size_t o = 0; o < way.outputs.size(); ++o) {
      const std::string& name = graph->outputs[o].name;
      const Array& got = way.outputs[o];
      for (std::size_t i = 0; i < kValues.size(); ++i) {
        const double value = got.at(got.sizes().empty() ? 0 : static_cast<std::int64_t>(i));
        EXPECT_NEAR(value, expected.at(name)(kValues[i]), 1e-12)
            << name << " of x " << kValues[i] << ", " << way.name;
      }
    }
}

double python_remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && std::signbit(rest) != std::signbit(b) ? rest + b : rest;
}

struct Binary {
  const char* name;
  Tensor (*traced)(const TensorOperand&, const TensorOperand&);
  double (*expected)(double, double);
};
const Binary kFunctions[]{
    {"pow", pow, [](double a, double b) { return std::pow(a, b); }},
    {"fmod", fmod, [](double a, double b) { return std::fmod(a, b); }},
    {"remainder", remainder, python_remainder},
    {"floor_divide", floor_divide, [](double a, double b) { return std::floor(a / b); }},
    {"atan2", atan2, [](double a, double b) { return std::atan2(a, b); }},
    {"minimum", minimum, [](double a, double b) { return std::min(a, b); }},
    {"maximum", maximum, [](double a, double b) { return std::max(a, b); }},
};

TEST(ScalarOperands, IntegersAndFloats_OnEitherSideOfEveryFunction) {
  Expected expected;
  for (const Binary& f : kFunctions)
    for (const auto& [name, s] : std::map<std::string, double>{{"k", kCount}, {"lr", kRate}}) {
      expected[std::string(f.name) + "(x, " + name + ")"] = [&f, s = s](double x) {
        return f.expected(x, s);
      };
      expected[std::string(f.name) + "(" + name + ", x)"] = [&f, s = s](double x) {
        return f.expected(s, x);
      };
    }
  expect_everywhere(
      [&](Trace& t, const SymInt& k, const SymFloat& lr, const Tensor& x) {
        for (const Binary& f : kFunctions) {
          const std::string name = f.name;
          t.output(name + "(x, k)", f.traced(x, k));
          t.output(name + "(k, x)", f.traced(k, x));
          t.output(name + "(x, lr)", f.traced(x, lr));
          t.output(name + "(lr, x)", f.traced(lr, x));
        }
      },
      expected);
}

TEST(ScalarOperands, FloatsWithNumbersAndIntegers_CompareOnEitherSide) {
  Expected expected;
  const auto sides = [&](const std::string& a, double x, const std::string& b, double y) {
    const auto is = [](bool answer) { return [answer](double) { return answer ? 1.0 : 0.0; }; };
    expected[a + " < " + b] = is(x < y), expected[a + " <= " + b] = is(x <= y);
    expected[a + " > " + b] = is(x > y), expected[a + " >= " + b] = is(x >= y);
    expected[a + " == " + b] = is(x == y), expected[a + " != " + b] = is(x != y);
  };
  sides("lr", kRate, "0.75", 0.75), sides("0.75", 0.75, "lr", kRate);
  sides("lr", kRate, "1", 1), sides("1", 1, "lr", kRate);
  sides("lr", kRate, "k", kCount), sides("k", kCount, "lr", kRate);
  expect_everywhere(
      [&](Trace& t, const SymInt& k, const SymFloat& lr, const Tensor&) {
        const auto out = [&t](const std::string& a, const auto& x, const std::string& b,
                              const auto& y) {
          t.output(a + " < " + b, x < y), t.output(a + " <= " + b, x <= y);
          t.output(a + " > " + b, x > y), t.output(a + " >= " + b, x >= y);
          t.output(a + " == " + b, x == y), t.output(a + " != " + b, x != y);
        };
        out("lr", lr, "0.75", 0.75), out("0.75", 0.75, "lr", lr);
        out("lr", lr, "1", 1), out("1", 1, "lr", lr);
        out("lr", lr, "k", k), out("k", k, "lr", lr);
      },
      expected);
}

TEST(ScalarOperands, BesideTensorsOfInts_IntegersStayInts) {
  expect_everywhere(
      [](Trace& t, const SymInt& k, const SymFloat&, const Tensor& x) {
        const Tensor i = cast(x * 4.0, DType::I32);
        for (const auto& [name, y] :
             std::map<std::string, Tensor>{{"pow", pow(i, k)},
                                           {"fmod", fmod(k, i)},
                                           {"floor_divide", floor_divide(i, k)},
                                           {"minimum", minimum(k, i)}}) {
          EXPECT_EQ(y.dtype(), DType::I32) << name;
          t.output(name, y);
        }
      },
      {{"pow", [](double x) { return std::pow(x * 4, 3); }},
       {"fmod", [](double x) { return std::fmod(3, x * 4); }},
       {"floor_divide", [](double x) { return std::floor(x * 4 / 3); }},
       {"minimum", [](double x) { return std::min(3.0, x * 4); }}});
}

}  // namespace
}  // namespace lockstep::worker::scalar_operands_test
