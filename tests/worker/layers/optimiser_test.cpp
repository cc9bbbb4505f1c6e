// Optimisers step by step against plain loops in double; clipping, also of shares of ranks; rates.
#include <cmath>
#include <numbers>
#include <numeric>

#include "on_ranks.h"
#include "traced_run.h"
#include "tracing.h"

#include <lockstep/worker/tensor/layers/clipping.h>
#include <lockstep/worker/tensor/layers/optimisers.h>
#include <lockstep/worker/tensor/layers/schedules.h>

namespace lockstep::worker::optimiser_test {
namespace {

using test::random_f64;
using test::refusal;
using test::TracedRun;
using In = const std::vector<Tensor>&;
using I = std::int64_t;

/// A matrix and a vector, of `n` rows and columns each.
std::vector<Array> params_of(std::uint64_t seed, I n) {
  return {random_f64(seed, {n, 3}), random_f64(seed + 1, {n})};
}
std::vector<Array> grads_at(int step, I n) {
  return params_of(100 + 2 * static_cast<std::uint64_t>(step), n);
}

/// Makes five steps with one graph, whose outputs are the parameters and the state after each, and
/// compares the parameters with those of `expected`.
void follow(
    TracedRun& program, std::vector<Array> carried, I n,
    const std::function<std::vector<Array>(int step, const std::vector<Array>& grads)>& expected) {
  for (int step = 0; step < 5; ++step) {
    const std::vector<Array> grads = grads_at(step, n);
    std::vector<Array> inputs = carried;
    inputs.insert(inputs.end(), grads.begin(), grads.end());
    carried = program.run(inputs);
    const std::vector<Array> after = expected(step, grads);
    EXPECT_TRUE(same({carried[0], carried[1]}, after, 1e-12)) << "step " << step << " n " << n;
  }
}
std::vector<Array> joined(std::vector<Array> a, const std::vector<Array>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
std::vector<Array> arrays_of(const std::vector<Tensor>& tensors) {
  std::vector<Array> out;
  for (const Tensor& tensor : tensors) out.push_back(tensor.array());
  return out;
}
std::vector<Tensor> tensors_from(const std::vector<Array>& arrays) {
  return {arrays.begin(), arrays.end()};
}
/// Applies `f` to every element: the parameter, its gradient, two of the state.
void each(std::vector<Array>& params, const std::vector<Array>& grads, std::vector<Array>& a,
          std::vector<Array>& b,
          const std::function<void(double& p, double g, double& a, double& b)>& f) {
  for (std::size_t k = 0; k < params.size(); ++k)
    for (I i = 0; i < params[k].elements(); ++i) {
      double p = params[k].at(i), x = a[k].at(i), y = b[k].at(i);
      f(p, grads[k].at(i), x, y);
      params[k].set(i, p), a[k].set(i, x), b[k].set(i, y);
    }
}
std::vector<Array> clones(const std::vector<Array>& arrays) {
  std::vector<Array> out;
  for (const Array& array : arrays) out.push_back(array.clone());
  return out;
}
std::vector<Array> zeros_of(const std::vector<Array>& arrays) {
  std::vector<Array> out;
  for (const Array& array : arrays) out.push_back(Array::zeros(DType::F64, array.sizes()));
  return out;
}

TEST(Optimisers, Adam_AsByLoops) {
  for (const bool direct : {false, true}) {
    const AdamOptions options{
        .rate = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-4, .weight_decay = 0.1};
    const auto body = [&](Trace&, In x) {
      const AdamState state{x[2], {x[3], x[4]}, {x[5], x[6]}};
      const auto f = direct ? adamw : adam;
      const auto [params, next] = f({x[0], x[1]}, {x[7], x[8]}, state, options, Line::current());
      return std::vector{params[0],     params[1],      next.step,     next.first[0],
                         next.first[1], next.second[0], next.second[1]};
    };
    const auto start = [](I n) {
      const std::vector<Array> params = params_of(1, n);
      AdamState state = adam_start(tensors_from(params));
      return joined(params, arrays_of(tensors_of(state)));
    };
    TracedRun program(joined(start(4), grads_at(0, 4)), body, {3});
    for (const I n : {0, 1, 2, 5}) {
      std::vector<Array> params = clones(params_of(1, n)), m = zeros_of(params),
                         v = zeros_of(params);
      follow(program, start(n), n, [&](int step, const std::vector<Array>& grads) {
        each(params, grads, m, v, [&](double& p, double g, double& first, double& second) {
          if (direct) p *= 1 - 0.05 * 0.1;
          if (!direct) g += 0.1 * p;
          first = 0.8 * first + 0.2 * g;
          second = 0.95 * second + 0.05 * g * g;
          const double up = first / (1 - std::pow(0.8, step + 1));
          const double root = std::sqrt(second / (1 - std::pow(0.95, step + 1)));
          p -= 0.05 * up / (root + 1e-4);
        });
        return clones(params);
      });
    }
  }
}

TEST(Optimisers, Sgd_AsByLoops) {
  struct How {
    double momentum, dampening, decay;
    bool nesterov;
  };
  for (const How& how : std::vector<How>{
           {0, 0, 0.1, false}, {0.9, 0, 0, false}, {0.9, 0.4, 0.1, false}, {0.9, 0, 0.1, true}}) {
    const SgdOptions options{.rate = 0.05,
                             .momentum = how.momentum,
                             .dampening = how.dampening,
                             .weight_decay = how.decay,
                             .nesterov = how.nesterov};
    const bool moves = how.momentum != 0;
    const auto body = [&](Trace&, In x) {
      const SgdState state{x[2], moves ? std::vector{x[3], x[4]} : std::vector<Tensor>{}};
      const std::size_t grads = moves ? 5 : 3;
      const auto [params, next] = sgd({x[0], x[1]}, {x[grads], x[grads + 1]}, state, options);
      std::vector<Tensor> out{params[0], params[1], next.step};
      out.insert(out.end(), next.momentum.begin(), next.momentum.end());
      return out;
    };
    const auto start = [&](I n) {
      const std::vector<Array> params = params_of(1, n);
      SgdState state = sgd_start(tensors_from(params), options);
      return joined(params, arrays_of(tensors_of(state)));
    };
    TracedRun program(joined(start(4), grads_at(0, 4)), body, {3});
    for (const I n : {0, 1, 2, 5}) {
      std::vector<Array> params = clones(params_of(1, n)), m = zeros_of(params),
                         none = zeros_of(params);
      follow(program, start(n), n, [&](int step, const std::vector<Array>& grads) {
        each(params, grads, m, none, [&](double& p, double g, double& momentum, double&) {
          g += how.decay * p;
          if (moves) {
            momentum = step == 0 ? g : how.momentum * momentum + (1 - how.dampening) * g;
            g = how.nesterov ? g + how.momentum * momentum : momentum;
          }
          p -= 0.05 * g;
        });
        return clones(params);
      });
    }
  }
}

double rms(const std::vector<double>& x) {
  double square = 0;
  for (const double value : x) square += value * value;
  return std::sqrt(square / static_cast<double>(x.size()));
}
std::vector<double> values_of(const Array& x) {
  std::vector<double> out;
  for (I i = 0; i < x.elements(); ++i) out.push_back(x.at(i));
  return out;
}

/// Squares of the gradient, as rows and columns know them.
struct Factored {
  std::vector<double> rows, columns, squares;
  std::vector<double> variance(const Array& g, double part) {
    const I n = g.sizes()[0], width = g.sizes().size() > 1 ? g.sizes()[1] : 0;
    std::vector<double> out;
    if (width == 0) {
      squares.resize(static_cast<std::size_t>(n));
      for (std::size_t i = 0; i < squares.size(); ++i)
        squares[i] += part * (std::pow(g.at(static_cast<I>(i)), 2) - squares[i]);
      return squares;
    }
    rows.resize(static_cast<std::size_t>(n)), columns.resize(static_cast<std::size_t>(width));
    double level = 0;
    for (I i = 0; i < n; ++i) {
      double mean = 0;
      for (I j = 0; j < width; ++j)
        mean += std::pow(g.at(i * width + j), 2) / static_cast<double>(width);
      double& row = rows[static_cast<std::size_t>(i)];
      row += part * (mean - row);
      level += row / static_cast<double>(n);
    }
    for (I j = 0; j < width; ++j) {
      double mean = 0;
      for (I i = 0; i < n; ++i) mean += std::pow(g.at(i * width + j), 2) / static_cast<double>(n);
      columns[static_cast<std::size_t>(j)] += part * (mean - columns[static_cast<std::size_t>(j)]);
    }
    for (const double row : rows)
      for (const double column : columns) out.push_back(row * column / level);
    return out;
  }
};

TEST(Optimisers, Adafactor_AsByLoops) {
  const AdafactorOptions options{.rate = 0.4, .weight_decay = 0.1};
  const auto body = [&](Trace&, In x) {
    const AdafactorState state{x[2], {{x[3], x[4]}, {x[5]}}};
    const auto [params, next] = adafactor({x[0], x[1]}, {x[6], x[7]}, state, options);
    return std::vector{params[0],          params[1],          next.step,
                       next.factors[0][0], next.factors[0][1], next.factors[1][0]};
  };
  const auto start = [](I n) {
    const std::vector<Array> params = params_of(1, n);
    AdafactorState state = adafactor_start(tensors_from(params));
    return joined(params, arrays_of(tensors_of(state)));
  };
  TracedRun program(joined(start(4), grads_at(0, 4)), body, {1, 3});
  for (const I n : {2, 5}) {
    std::vector<Array> params = clones(params_of(1, n));
    std::vector<Factored> factors(2);
    follow(program, start(n), n, [&](int step, const std::vector<Array>& grads) {
      const double t = step + 1;
      for (std::size_t k = 0; k < params.size(); ++k) {
        std::vector<double> update = factors[k].variance(grads[k], std::pow(t, -0.8));
        for (std::size_t i = 0; i < update.size(); ++i)
          update[i] = grads[k].at(static_cast<I>(i)) / std::sqrt(update[i]);
        const double size =
            std::max(1e-3, rms(values_of(params[k]))) * std::min(0.4, 1 / std::sqrt(t));
        const double clip = std::max(1.0, rms(update));
        for (std::size_t i = 0; i < update.size(); ++i) {
          const I at = static_cast<I>(i);
          params[k].set(at, params[k].at(at) * (1 - 0.4 * 0.1) - size / clip * update[i]);
        }
      }
      return clones(params);
    });
  }
  for (const I n : {0, 1}) {
    const std::vector<Array> out = program.run(joined(start(n), grads_at(0, n)));
    EXPECT_EQ(out[0].sizes(), (std::vector<I>{n, 3}));
  }
}

struct Model {
  std::map<std::string, Tensor> parts;
  std::vector<Tensor> layers;
  SymFloat rate = 0.5;
  template <class V>
  void fields(V& v) {
    v("parts", parts), v("layers", layers), v("rate", rate);
  }
};

TEST(Optimisers, TensorsOfNestedValues_GoAndComeBackInOrder) {
  const Model model{
      {{"b", random_f64(1, {2})}, {"a", random_f64(2, {3})}}, {random_f64(3, {4})}, 0.5};
  std::vector<Tensor> found = tensors_of(model);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].array().sizes(), std::vector<I>{3});
  EXPECT_EQ(found[1].array().sizes(), std::vector<I>{2});
  found[2] = random_f64(4, {7});
  const Model changed = with_tensors(model, found);
  EXPECT_EQ(changed.layers[0].array().sizes(), std::vector<I>{7});
  EXPECT_EQ(model.layers[0].array().sizes(), std::vector<I>{4});
  EXPECT_EQ(changed.rate.value(), 0.5);
  EXPECT_THROW((void)with_tensors(model, {}), std::out_of_range);
}

double norm_of(const std::vector<Array>& arrays) {
  double square = 0;
  for (const Array& array : arrays)
    for (I i = 0; i < array.elements(); ++i) square += array.at(i) * array.at(i);
  return std::sqrt(square);
}

TEST(Clipping, ByNormAndByValue_AsByLoops) {
  TracedRun program({random_f64(1, {3, 2}), random_f64(1, {4})}, [](Trace&, In x) {
    const Clipped little = clip_grad_norm(x, 1.5), none = clip_grad_norm(x, 1e6);
    const std::vector<Tensor> cut = clip_grad_value(x, 0.7);
    return std::vector{little.norm,   little.grads[0], little.grads[1],
                       none.grads[0], cut[0],          cut[1]};
  });
  for (const I n : {0, 1, 2, 5}) {
    const std::vector<Array> x{random_f64(2, {n, 2}), random_f64(3, {n})};
    const double norm = norm_of(x), part = std::min(1.0, 1.5 / (norm + 1e-6));
    std::vector<Array> expected{Array::of(DType::F64, {}, std::vector{norm}),
                                x[0].clone(),
                                x[1].clone(),
                                x[0],
                                x[0].clone(),
                                x[1].clone()};
    for (std::size_t k = 0; k < 2; ++k)
      for (I i = 0; i < x[k].elements(); ++i) {
        expected[1 + k].set(i, x[k].at(i) * part);
        expected[4 + k].set(i, std::clamp(x[k].at(i), -0.7, 0.7));
      }
    EXPECT_TRUE(same(program.run(x), expected, 1e-12)) << n;
  }
}

TEST(Clipping, SharesOfRanks_HaveTheNormOfAllTogether) {
  const TracedRun traced({random_f64(1, {4}), random_f64(2, {3, 2})}, [](Trace&, In x) {
    const Clipped clipped = clip_grad_norm(x, 1.5, Group{});
    return std::vector{clipped.norm, clipped.grads[0]};
  });
  OnRanks ranks(traced.graph(), 3);
  std::vector<Inputs> inputs;
  std::vector<Array> all;
  for (I r = 0; r < 3; ++r) {
    const std::vector<Array> mine{random_f64(static_cast<std::uint64_t>(10 + r), {r}),
                                  random_f64(static_cast<std::uint64_t>(20 + r), {2, 3 - r})};
    inputs.push_back({{"in100", mine[0]}, {"in101", mine[1]}});
    all = joined(all, mine);
  }
  const double norm = norm_of(all);
  const OnRanks::Run run = ranks.everywhere(inputs);
  for (std::size_t r = 0; r < 3; ++r) {
    const std::vector<Array>& out = run.ranks[r]->value();
    EXPECT_NEAR(out[0].at(0), norm, 1e-12);
    const Array& mine = inputs[r].at("in100");
    for (I i = 0; i < mine.elements(); ++i)
      EXPECT_NEAR(out[1].at(i), mine.at(i) * 1.5 / (norm + 1e-6), 1e-12);
  }
}

TEST(Schedules, OneGraph_GivesTheRateOfEveryStep) {
  TracedRun program({Array::zeros(DType::I64, {}), Array::zeros(DType::F64, {})}, [](Trace&, In x) {
    const SymFloat rate(x[1]);
    const Tensor& step = x[0];
    return std::vector{
        constant_rate(rate, step, 4, 0.5).tensor(),
        linear_rate(rate, step, 4, 0.2, 1).tensor(),
        step_rate(rate, step, 3, 0.1).tensor(),
        exponential_rate(0.5, step, 0.9).tensor(),
        cosine_rate(rate, step, 6, 0.01).tensor(),
        sequential_rate(step, 4, linear_rate(rate, step, 4, 0.1), cosine_rate(rate, step - 4, 6))
            .tensor()};
  });
  for (I n = 0; n < 15; ++n) {
    const auto t = static_cast<double>(n);
    const auto cosine = [](double at) { return (1 + std::cos(std::numbers::pi * at / 6)) / 2; };
    const double line = std::min(t, 4.0) / 4;
    const std::vector<double> expected{n < 4 ? 0.05 : 0.1,
                                       0.1 * (0.2 + 0.8 * line),
                                       0.1 * std::pow(0.1, static_cast<double>(n / 3)),
                                       0.5 * std::pow(0.9, t),
                                       0.01 + 0.09 * cosine(t),
                                       n < 4 ? 0.1 * (0.1 + 0.9 * line) : 0.1 * cosine(t - 4)};
    const std::vector<Array> got =
        program.run({integers({}, {n}), Array::of(DType::F64, {}, std::vector{0.1})});
    for (std::size_t k = 0; k < expected.size(); ++k)
      EXPECT_NEAR(got[k].at(0), expected[k], 1e-15) << n << " " << k;
  }
}

TEST(Schedules, ASymInt_IsAStep) {
  const Decision decision = test::DecisionBuilder().integer("step", test::dynamic(7)).get();
  const Result<Graph> graph = trace(test::setup(decision), [](Trace& t) {
    const SymFloat rate = step_rate(0.5, t.int_input(0), 2);
    t.output("rate", rate.tensor());
  });
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  EXPECT_TRUE(graph->guards.empty());
}

std::string refused(const std::vector<Array>& like, const std::function<void(In)>& body) {
  return refusal(like,
                 [&](Trace&, In x) {
                   body(x);
                   return std::vector<Tensor>{};
                 },
                 {1, 2, 3, 4});
}

TEST(Optimisers, WhatDoesNotFit_IsRefused) {
  const std::vector<Array> x{random_f64(1, {3}), random_f64(1, {3}), integers({}, {0}),
                             integers({2}, {0, 1})};
  EXPECT_EQ(refused(x,
                    [](In t) {
                      (void)adam({t[0]}, {}, {t[2], {t[1]}, {t[1]}});
                    }),
            "adam: 1 parameters, but 0 gradients");
  EXPECT_EQ(refused(x,
                    [](In t) {
                      (void)adamw({t[0]}, {t[1]}, {t[2], {}, {t[1]}});
                    }),
            "adamw: 1 parameters, but 0 first moments");
  EXPECT_EQ(refused(x,
                    [](In t) {
                      (void)adam({t[0]}, {t[1]}, {t[0], {t[1]}, {t[1]}});
                    }),
            "adam: the number of steps is f64[3], and has to be i64 or i32; cast first");
  EXPECT_EQ(refused(x,
                    [](In t) {
                      (void)sgd({t[0]}, {t[1]}, {t[2], {}}, {.nesterov = true});
                    }),
            "sgd: nesterov needs a momentum, and no dampening");
  EXPECT_EQ(refused(x, [](In) { (void)clip_grad_norm({}, 1.0); }),
            "clip_grad_norm: takes at least one gradient");
  EXPECT_EQ(refused(x, [](In) { (void)step_rate(0.1, 3, 2); }),
            "step_rate: the step is a plain number here, so a constant of the program; pass it in "
            "as SymInt, or take the optimiser's");
  EXPECT_EQ(refused(x, [](In t) { (void)cosine_rate(0.1, t[3], 2); }),
            "cosine_rate: the step is i64[2], and has to be 0-d");
  EXPECT_EQ(refused(x, [](In t) { (void)linear_rate(0.1, t[2], 0); }),
            "linear_rate: steps is 0, and has to be at least 1");
}

}  // namespace
}  // namespace lockstep::worker::optimiser_test
