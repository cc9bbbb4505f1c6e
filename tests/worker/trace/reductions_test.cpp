// Reductions of more than a sum beside plain loops; of these and of scans the values and gradients
// at places where torch says what is right.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "function_runs.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/order_ops.h>

namespace lockstep::worker::reductions_test {
namespace {

using namespace test;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
const std::vector<DType> kDTypes{DType::F64, DType::F32, DType::I64, DType::U8};
const std::vector<Dim> kThreeDims(3, dynamic(4, 0));

/// Over {0, 2} of three dims, by loops.
Array reduced(const Array& x, DType dtype, const std::function<double(const Numbers&)>& total) {
  const Counts& sizes = x.sizes();
  Array out = Array::zeros(dtype, {sizes[1]});
  for (std::int64_t j = 0; j < sizes[1]; ++j) {
    Numbers values;
    for (std::int64_t i = 0; i < sizes[0]; ++i)
      for (std::int64_t k = 0; k < sizes[2]; ++k)
        values.push_back(x.at((i * sizes[1] + j) * sizes[2] + k));
    out.set(j, total(values));
  }
  return out;
}

double variance(const Numbers& x, double correction) {
  long double total = 0, squares = 0;
  for (const double value : x) total += value;
  const long double mean = total / static_cast<long double>(x.size());
  for (const double value : x) squares += (value - mean) * (value - mean);
  return static_cast<double>(squares) / std::max(0.0, static_cast<double>(x.size()) - correction);
}
double power_norm(const Numbers& x, double p) {
  double total = 0;
  for (const double value : x) total += std::pow(std::fabs(value), p);
  return std::pow(total, 1 / p);
}

TEST(Reductions, Reductions_OverSeveralDims) {
  const auto body = [](const Tensors& in) {
    const Tensor& x = in[0];
    const Dims dims{0, -1};
    Tensors out{prod(x, dims), cast(count_nonzero(x, dims), DType::F64),
                cast(count_nonzero(x > 0.5, dims), DType::F64)};
    for (const double correction : {0.0, 1.0, 2.5, 7.0})
      for (const Tensor& y :
           {var(x, dims, correction), stddev(x, dims, correction),
            squeeze(squeeze(std_mean(x, dims, correction, Keep::Keep).mean, 0), 1)})
        out.push_back(y);
    for (const double p : {2.0, 0.0, 1.0, 3.0, 0.5, -2.0, kInf, -kInf})
      out.push_back(norm(x, p, dims));
    out.push_back(logsumexp(x, dims));
    return out;
  };
  OnRanks ranks(must(traced({{DType::F64, kThreeDims}}, body)), 1);
  std::mt19937_64 random(5);
  for (const Counts& sizes : std::vector<Counts>{
           {2, 5, 3}, {1, 1, 1}, {1, 2, 2}, {7, 1, 1}, {0, 2, 3}, {2, 0, 2}, {3, 4, 33}}) {
    const Array x = random_array(random, DType::F64, sizes);
    std::vector<Array> expected;
    const auto add = [&](const std::function<double(const Numbers&)>& total) {
      expected.push_back(reduced(x, DType::F64, total));
    };
    add([](const Numbers& v) {
      double total = 1;
      for (const double value : v) total *= value;
      return total;
    });
    add([](const Numbers& v) {
      return static_cast<double>(std::ranges::count_if(v, [](double y) { return y != 0; }));
    });
    add([](const Numbers& v) {
      return static_cast<double>(std::ranges::count_if(v, [](double y) { return y > 0.5; }));
    });
    for (const double correction : {0.0, 1.0, 2.5, 7.0}) {
      add([=](const Numbers& v) { return variance(v, correction); });
      add([=](const Numbers& v) { return std::sqrt(variance(v, correction)); });
      add([](const Numbers& v) {
        double total = 0;
        for (const double value : v) total += value;
        return total / static_cast<double>(v.size());
      });
    }
    for (const double p : {2.0, 0.0, 1.0, 3.0, 0.5, -2.0, kInf, -kInf})
      add([=](const Numbers& v) {
        if (p == 0)
          return static_cast<double>(std::ranges::count_if(v, [](double y) { return y != 0; }));
        if (!std::isinf(p)) return power_norm(v, p);
        double most = -p;
        for (const double value : v)
          most = p > 0 ? std::max(most, std::fabs(value)) : std::min(most, std::fabs(value));
        return most;
      });
    add([](const Numbers& v) {
      double total = 0;
      for (const double value : v) total += std::exp(value);
      return std::log(total);
    });
    expect_everywhere(ranks, {x}, expected, 1e-11);
  }
}

TEST(Reductions, ArgminAndProd_OfFloatsAndInts) {
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(dtype_name(dtype));
    OnRanks ranks(
        must(traced(
            {{dtype, {dynamic(3, 0), dynamic(4, 0)}}},
            [](const Tensors& in) {
              return Tensors{argmin(in[0], 1), argmin(in[0], 0, Keep::Keep), prod(in[0], {1})};
            })),
        1);
    const bool floats = is_float(dtype);
    const double lowest = dtype == DType::I64 ? -0x1p63 : 0;
    const Array x =
        Array::of(dtype, {3, 4},
                  Numbers{3, 1, 2, 1, floats ? kNaN : 7, 5, floats ? kNaN : 5, 6, 2, lowest, 4, 3});
    const double total =
        floats ? kNaN : static_cast<double>(dtype == DType::U8 ? 1050 % 256 : 1050);
    expect_everywhere(ranks, {x},
                      {integers({3}, {1, floats ? 0 : 1, 1}),
                       integers({1, 4}, {floats ? 1 : 2, 2, floats ? 1 : 0, 0}),
                       Array::of(dtype, {3}, Numbers{6, total, 0})});
    expect_everywhere(
        ranks, {Array(dtype, {1, 0})},
        {integers({1}, {0}), integers({1, 0}, {}), Array::of(dtype, {1}, Numbers{1})});
  }
}

TEST(Reductions, OfANumber_HaveNothingToReduce) {
  const auto body = [](const Tensors& in) {
    const Tensor& x = in[0];
    return Tensors{sum(x, {0}),    prod(x, {-1}, Keep::Keep),
                   amax(x, {-1}),  mean(x, {0}),
                   var(x, {0}, 0), norm(x, 2, {0}),
                   softmax(x, 0),  logsumexp(x, -1),
                   argmax(x, 0),   argmin(x, -1)};
  };
  OnRanks ranks(must(traced({{DType::F64, {}}}, body)), 1);
  const Array x = f64({}, {-2.5}), zero = integers({}, {0});
  expect_everywhere(ranks, {x},
                    {x, x, x, x, f64({}, {0}), f64({}, {2.5}), f64({}, {1}), x, zero, zero});
}

TEST(Reductions, VarianceAndLogSums_AreStable) {
  OnRanks ranks(must(traced({{DType::F64, {dynamic(4)}}, {DType::F32, {dynamic(4)}}},
                            [](const Tensors& in) {
                              return Tensors{var(in[0], {}, 0), var(in[1], {}, 0),
                                             logcumsumexp(in[0], 0), norm(in[0] * 0.0)};
                            })),
                1);
  const Numbers large{1e9 + 1, 1e9 - 1, 1e9 + 1, 1e9 - 1}, small{4097, 4095, 4097, 4095};
  expect_everywhere(ranks, {f64({4}, large), Array::of(DType::F32, {4}, small)},
                    {f64({}, {1}), Array::of(DType::F32, {}, Numbers{1}),
                     f64({4}, {1e9 + 1, 1e9 + 1 + std::log1p(std::exp(-2.0)),
                               1e9 + 1 + std::log(2 + std::exp(-2.0)),
                               1e9 + 1 + std::log(2 + 2 * std::exp(-2.0))}),
                     f64({}, {0})});
}

/// Values and gradients of the sum by the first of three weights, as torch 2.15 gives them.
struct Known {
  const char* name;
  std::function<Tensor(const Tensor&)> traced;
  Numbers x, value, grad;
};

TEST(Reductions, SpecialValuesAndTheirGradients_AreTorchs) {
  const auto all = [](double p) { return [p](const Tensor& x) { return norm(x, p); }; };
  const auto deviation = [](double correction) {
    return [correction](const Tensor& x) { return stddev(x, {}, correction); };
  };
  const double e = std::exp(1.0);
  // clang-format off
  const std::vector<Known> known{
      {"prod", [](const Tensor& x) { return prod(x); }, {2, 3, 4}, {24}, {12, 8, 6}},
      {"prod of a zero", [](const Tensor& x) { return prod(x); }, {2, 0, 4}, {0}, {0, 8, 0}},
      {"prod of two zeros", [](const Tensor& x) { return prod(x); }, {0, 0, 4}, {0}, {0, 0, 0}},
      {"cumprod", [](const Tensor& x) { return cumprod(x, 0); }, {2, 3, 4}, {2, 6, 24}, {16, 10, 6}},
      {"cumprod of a zero", [](const Tensor& x) { return cumprod(x, 0); }, {2, 0, 3, 4}, {2, 0, 0, 0}, {1, 32, 0, 0}},
      {"cumprod of two zeros", [](const Tensor& x) { return cumprod(x, 0); }, {2, 0, 3, 0, 4}, {2, 0, 0, 0, 0}, {1, 8, 0, 0, 0}},
      {"cumprod of no number", [](const Tensor& x) { return cumprod(x, 0); }, {kNaN, 0, 2}, {kNaN, kNaN, kNaN}, {kNaN, kNaN, 0}},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 0); }, {1, kInf, -kInf}, {1, kInf, kNaN}, {3, 2, 1}},
      {"cummax", [](const Tensor& x) { return cummax(x, 0).values; }, {1, 3, 3, 2, kNaN, 5}, {1, 3, 3, 3, kNaN, kNaN}, {1, 1, 2, 0, 2, 0}},
      {"cummin", [](const Tensor& x) { return cummin(x, 0).values; }, {3, 1, 1, 2}, {3, 1, 1, 1}, {1, 1, 2, 0}},
      {"logcumsumexp", [](const Tensor& x) { return logcumsumexp(x, 0); }, {1, 1000, -1000}, {1, 1000, 1000}, {1, 2, 0}},
      {"logcumsumexp of nothing", [](const Tensor& x) { return logcumsumexp(x, 0); }, {-kInf, 1}, {-kInf, 1}, {0, 1}},  // torch: not a number
      {"logcumsumexp of both signs", [](const Tensor& x) { return logcumsumexp(x, 0) * cast(1 - iota(x.sizes(), 0) * 2, DType::F64); },
       {0, 1}, {0, -std::log(1 + e)}, {1 - 1 / (1 + e), -e / (1 + e)}},
      {"norm", all(2), {3, 0, -4}, {5}, {0.6, 0, -0.8}},
      {"norm of zeros", all(2), {0, 0, 0}, {0}, {0, 0, 0}},
      {"norm of infinity", all(2), {1, kInf, 0}, {kInf}, {0, kNaN, 0}},
      {"norm 3 of zeros", all(3), {0, 0}, {0}, {0, 0}},
      {"norm 0.5", all(0.5), {3, 0, -4}, {13.928203230275509}, {2.154700538379252, 0, -1.8660254037844386}},
      {"norm 0.5 of zeros", all(0.5), {0, 0}, {0}, {0, 0}},
      {"norm -1 of a zero", all(-1), {3, 0, -4}, {0}, {0, 0, 0}},
      {"norm 1", all(1), {1, kNaN, 0, -2}, {kNaN}, {1, 0, 0, -1}},
      {"norm infinity", all(kInf), {2, -2, 1}, {2}, {0.5, -0.5, 0}},
      {"norm minus infinity", all(-kInf), {2, -2, 1}, {1}, {0, 0, 1}},
      {"stddev", deviation(0), {1, 3}, {1}, {-0.5, 0.5}},
      {"stddev of equal ones", deviation(1), {2, 2, 2}, {0}, {0, 0, 0}},
      {"stddev of one", deviation(0), {2}, {0}, {0}},
      {"stddev of one of a sample", deviation(1), {2}, {kNaN}, {kNaN}},
      {"variance without degrees of freedom", [](const Tensor& x) { return var(x, {}, 3); }, {1, 2, 3}, {kInf}, {kInf, kNaN, kInf}},
      {"sort", [](const Tensor& x) { return sort(x, 0, true).values * cast(iota(x.sizes(), 0), DType::F64); },
       {1, kNaN, 3, 1}, {kNaN, 3, 2, 3}, {2, 0, 1, 3}},
  };
  // clang-format on
  std::vector<In> inputs;
  for (const Known& k : known)
    inputs.push_back({DType::F64, {dynamic(static_cast<std::int64_t>(k.x.size()), 0)}});
  DecisionBuilder decision;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    decision.tensor(numbered(i), DType::F64, inputs[i].dims);
  OnRanks ranks(must(trace(test::setup(decision.get()),
                           [&](Trace& t) {
                             for (std::size_t i = 0; i < known.size(); ++i) {
                               const Tensor x = t.tensor_input(i), y = known[i].traced(x);
                               t.output(std::string(known[i].name), y);
                               t.output(std::string(known[i].name) + " by x", grad(sum(y), {x})[0]);
                             }
                           })),
                1);
  Inputs values;
  for (std::size_t i = 0; i < known.size(); ++i)
    values[numbered(i)] = f64({static_cast<std::int64_t>(known[i].x.size())}, known[i].x);
  const std::vector<std::pair<const char*, OnRanks::Run>> runs{
      {"interpreted", ranks.interpreted({values})},
      {"compiled", ranks.compiled({values})},
      {"on a device", ranks.on_devices({values}, OnRanks::Way::Staged)}};
  for (const auto& [way, run] : runs) {
    ASSERT_TRUE(run.ranks[0]->has_value()) << run.ranks[0]->error().text();
    for (std::size_t i = 0; i < known.size(); ++i)
      for (const bool by_x : {false, true}) {
        const Array& got = run.ranks[0]->value()[2 * i + (by_x ? 1 : 0)];
        const Numbers& want = by_x ? known[i].grad : known[i].value;
        EXPECT_TRUE(same({got}, {f64(got.sizes(), want)}, 1e-13))
            << known[i].name << (by_x ? " by x, " : ", ") << way;
      }
  }
}

}  // namespace
}  // namespace lockstep::worker::reductions_test
