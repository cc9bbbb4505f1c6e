// Branches and loops in graphs beside plain C++: interpreted, compiled for the host, and on an
// emulated device, at sizes 0, 1, 2 and 5.
#include <cmath>
#include <functional>

#include "function_runs.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/control_flow.h>
#include <lockstep/worker/tensor/language/random_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::control_flow_test {
namespace {

using namespace test;
using namespace std::string_view_literals;

Array truth(bool value) {
  Array out(DType::Bool, {});
  *out.data_as<bool>() = value;
  return out;
}
const In kFlag{DType::Bool, {}}, kVector{DType::F64, {dynamic(3, 0)}};
const In kRows{DType::F64, {dynamic(4, 0), dynamic(3, 0)}};

TEST(Cond, RunsOneBranch_WithItsGradient) {
  OnRanks ranks(must(traced({kFlag, kVector, kVector},
                            [](const Tensors& in) {
                              const Tensor scale = exp(in[2]);
                              const Tensors y = cond(
                                  in[0],
                                  [&](const Tensors& x) {
                                    return Tensors{x[0] * scale, sum(x[0])};
                                  },
                                  [&](const Tensors& x) {
                                    return Tensors{tanh(x[0]), sum(x[0] * x[0])};
                                  },
                                  {in[1]});
                              const Tensors g = grad(sum(y[0]) + y[1] * 3.0, {in[1], in[2]});
                              return Tensors{y[0], y[1], g[0], g[1]};
                            })),
                1);
  for (const bool way : {true, false})
    for (const std::int64_t n : {0, 1, 2, 5}) {
      const Array x = waves({n}, 0.3), w = waves({n}, 1.1);
      std::vector<Array> expected(4);
      double total = 0;
      expected[0] = Array(DType::F64, {n});
      expected[2] = Array(DType::F64, {n});
      expected[3] = Array(DType::F64, {n});
      for (std::int64_t i = 0; i < n; ++i) {
        const double a = x.at(i), s = std::exp(w.at(i));
        total += way ? a : a * a;
        expected[0].set(i, way ? a * s : std::tanh(a));
        expected[2].set(i, way ? s + 3 : 1 - std::tanh(a) * std::tanh(a) + 6 * a);
        expected[3].set(i, way ? a * s : 0);
      }
      expected[1] = f64({}, {total});
      expect_everywhere(ranks, {truth(way), x, w}, expected);
    }
}

TEST(Cond, TheOtherBranchDoesNotRun) {
  // Its index would be out of range.
  OnRanks ranks(must(traced({kFlag, kVector, {DType::I64, {2}}},
                            [](const Tensors& in) {
                              return cond(
                                  in[0], [&](const Tensors&) { return Tensors{sum(in[1])}; },
                                  [&](const Tensors&) {
                                    return Tensors{sum(index_select(in[1], 0, in[2]))};
                                  });
                            })),
                1);
  const Array x = f64({3}, {1, 2, 4});
  expect_everywhere(ranks, {truth(true), x, integers({2}, {9, 0})}, {f64({}, {7})});
  expect_everywhere(ranks, {truth(false), x, integers({2}, {2, 0})}, {f64({}, {5})});
  const auto all = ranks.everywhere({named({truth(false), x, integers({2}, {9, 0})})});
  ASSERT_FALSE(all.ranks[0]->has_value());
  expect_says(all.ranks[0]->error().text(), {"index_select", "9", "control_flow_test.cpp:"});
}

TEST(Cond, GivesInputsAndOuterValuesAsTheyAre) {
  OnRanks ranks(must(traced({kFlag, {DType::F64, {3}}, {DType::F64, {3}}},
                            [](const Tensors& in) {
                              return cond(
                                  in[0],
                                  [&](const Tensors& x) {
                                    return Tensors{x[0], in[1]};
                                  },
                                  [&](const Tensors& x) {
                                    return Tensors{in[1], x[0]};
                                  },
                                  {in[2]});
                            })),
                1);
  const Array a = waves({3}, 0), b = waves({3}, 2);
  expect_everywhere(ranks, {truth(true), a, b}, {b, a});
  expect_everywhere(ranks, {truth(false), a, b}, {a, b});
}

TEST(Cond, BranchesThatGiveOtherSizes_AreRefusedWithBothLines) {
  const std::string sizes = message({kFlag, kVector}, [](const Tensors& in) {
    return cond(
        in[0], [](const Tensors& x) { return Tensors{x[0] * 2.0}; },
        [](const Tensors& x) { return Tensors{sum(x[0])}; }, {in[1]});
  });
  expect_says(sizes, {"cond: result 0 is f64[s0] in the first branch (control_flow_test.cpp:",
                      "f64[] in the second (control_flow_test.cpp:", "same sizes"});
  expect_says(message({kFlag, kVector},
                      [](const Tensors& in) {
                        return cond(
                            in[0], [](const Tensors& x) { return x; },
                            [](const Tensors& x) {
                              return Tensors{x[0], x[0]};
                            },
                            {in[1]});
                      }),
              {"the branches give 1 and 2 results"});
  expect_says(message({kVector},
                      [](const Tensors& in) {
                        return cond(
                            in[0] > 0.0, [](const Tensors& x) { return x; },
                            [](const Tensors& x) { return x; }, {in[0]});
                      }),
              {"control_flow_test.cpp:", "the predicate is a 0-d bool, not bool[s0]"});
}

TEST(Cond, WhatMayNotLeaveABranch_IsRefused) {
  expect_says(message({kFlag, kVector},
                      [](const Tensors& in) {
                        Tensor kept;
                        (void)cond(
                            in[0],
                            [&](const Tensors& x) {
                              kept = x[0] * 2.0;
                              return x;
                            },
                            [](const Tensors& x) { return x; }, {in[1]});
                        return Tensors{kept + 1.0};
                      }),
              {"control_flow_test.cpp:", "is used outside of it; give it back as a result"});
  expect_says(message({kFlag, kVector},
                      [](const Tensors& in) {
                        return cond(
                            in[0], [](const Tensors& x) { return Tensors{sum(nonzero(x[0]))}; },
                            [&](const Tensors&) { return Tensors{scalar(*in[0].trace(), 0)}; },
                            {in[1]});
                      }),
              {"control_flow_test.cpp:", "no size can depend on data"});
  expect_says(message({kFlag, kVector},
                      [](const Tensors& in) {
                        const Tensor loss = sum(in[1] * in[1]);
                        const auto f = [&](const Tensors&) { return grad(loss, {in[1]}); };
                        return cond(in[0], f, f);
                      }),
              {"grad: the loss is made outside"});
}

TEST(Cond, GradientsWithinAndThroughABranch) {
  OnRanks ranks(
      must(traced({kFlag, kVector},
                  [](const Tensors& in) {
                    // d/dx of x^3 is 3x^2, and of that 6x.
                    const Tensor y = cond(
                        in[0],
                        [&](const Tensors&) { return grad(sum(in[1] * in[1] * in[1]), {in[1]}); },
                        [&](const Tensors& x) { return x; }, {in[1]})[0];
                    const Tensor g = grad(sum(y), {in[1]})[0];
                    return Tensors{y, g, grad(sum(g), {in[1]})[0]};
                  })),
      1);
  const Array x = waves({3}, 0.4);
  expect_everywhere(ranks, {truth(true), x},
                    {each(x, [](double a) { return 3 * a * a; }),
                     each(x, [](double a) { return 6 * a; }), each(x, [](double) { return 6; })});
  expect_everywhere(ranks, {truth(false), x},
                    {x, each(x, [](double) { return 1; }), each(x, [](double) { return 0; })});
}

/// carry = a * carry + x_t; y_t = carry^2, with gradients of sum(y) + 2 carry.
TEST(Scan, ARecurrence_WithItsGradients) {
  OnRanks ranks(
      must(traced({kVector, kVector, kRows},
                  [](const Tensors& in) {
                    const auto [carry, ys] = scan(
                        [&](const Tensors& c, const Tensors& x) {
                          const Tensor next = in[0] * c[0] + x[0];
                          return Scanned{{next}, {next * next}};
                        },
                        {in[1]}, {in[2]});
                    const Tensors g = grad(sum(ys[0]) + sum(carry[0]) * 2.0, {in[0], in[1], in[2]});
                    return Tensors{carry[0], ys[0], g[0], g[1], g[2]};
                  })),
      1);
  for (const std::int64_t rows : {0, 1, 2, 5})
    for (const std::int64_t n : {0, 1, 2, 5}) {
      const Array a = waves({n}, 0.2), h = waves({n}, 0.9), x = waves({rows, n}, 1.4);
      Array carry(DType::F64, {n}), ys(DType::F64, {rows, n}), ga(DType::F64, {n}),
          gh(DType::F64, {n}), gx(DType::F64, {rows, n});
      for (std::int64_t i = 0; i < n; ++i) {
        Numbers before;
        double c = h.at(i);
        for (std::int64_t t = 0; t < rows; ++t) {
          before.push_back(c);
          c = a.at(i) * c + x.at(t * n + i);
          ys.set(t * n + i, c * c);
        }
        carry.set(i, c);
        double back = 2, total = 0;
        for (std::int64_t t = rows; t-- > 0;) {
          back += 2 * (a.at(i) * before[static_cast<std::size_t>(t)] + x.at(t * n + i));
          gx.set(t * n + i, back);
          total += back * before[static_cast<std::size_t>(t)];
          back *= a.at(i);
        }
        ga.set(i, total);
        gh.set(i, back);
      }
      expect_everywhere(ranks, {a, h, x}, {carry, ys, ga, gh, gx});
    }
}

TEST(Scan, EqualsTheUnrolledLoop_ToTheBit) {
  const auto step = [](const Tensor& w, const Tensor& c, const Tensor& x) {
    return tanh(matmul(c, w) + x);
  };
  const auto unrolled = [&](const Tensors& in) {
    Tensor c = in[1];
    Tensors ys;
    for (std::int64_t t = 0; t < 4; ++t) {
      c = step(in[0], c, squeeze(slice(in[2], 0, t, 1), 0));
      ys.push_back(unsqueeze(c, 0));
    }
    return Tensors{c, cat(ys, 0)};
  };
  const auto looped = [&](const Tensors& in) {
    const auto [c, ys] = scan(
        [&](const Tensors& carry, const Tensors& x) {
          const Tensor next = step(in[0], carry[0], x[0]);
          return Scanned{{next}, {next}};
        },
        {in[1]}, {in[2]});
    return Tensors{c[0], ys[0]};
  };
  const std::vector<In> inputs{{DType::F32, {3, 3}}, {DType::F32, {2, 3}}, {DType::F32, {4, 2, 3}}};
  std::mt19937_64 random(7);
  std::vector<Array> arrays{random_array(random, DType::F32, {3, 3}),
                            random_array(random, DType::F32, {2, 3}),
                            random_array(random, DType::F32, {4, 2, 3})};
  OnRanks plain(must(traced(inputs, unrolled)), 1), loop(must(traced(inputs, looped)), 1);
  const auto expect = [&](OnRanks::Run got, OnRanks::Run want) {
    ASSERT_TRUE(got.ranks[0]->has_value()) << got.ranks[0]->error().text();
    for (std::size_t k = 0; k < 2; ++k)
      EXPECT_EQ(values(got.ranks[0]->value()[k]), values(want.ranks[0]->value()[k]));
  };
  expect(loop.interpreted({named(arrays)}), plain.interpreted({named(arrays)}));
  expect(loop.compiled({named(arrays)}), plain.compiled({named(arrays)}));
}

TEST(Scan, CarriesOfManyKinds_AndWithoutYs) {
  OnRanks ranks(must(traced({{DType::I64, {dynamic(4, 0)}}, kRows},
                            [](const Tensors& in) {
                              return scan(
                                         [](const Tensors& c, const Tensors& x) {
                                           return Scanned{{c[0] + x[0], c[2], c[1]}, {}};
                                         },
                                         {scalar(*in[0].trace(), 0), in[1], in[1] * 2.0}, {in[0]})
                                  .carry;
                            })),
                1);
  const Array x = waves({4, 3}, 0), twice = each(x, [](double a) { return 2 * a; });
  expect_everywhere(ranks, {integers({3}, {5, 1, 1}), x}, {integers({}, {7}), twice, x});
  expect_everywhere(ranks, {integers({2}, {5, 1}), x}, {integers({}, {6}), x, twice});
}

TEST(Scan, WhatDoesNotFit_IsRefused) {
  const auto keep = [](const Tensors& c, const Tensors&) { return Scanned{c, {}}; };
  expect_says(message({kVector, kRows},
                      [&](const Tensors& in) {
                        return scan(
                                   [](const Tensors& c, const Tensors&) {
                                     return Scanned{{sum(c[0])}, {}};
                                   },
                                   {in[0]}, {in[1]})
                            .carry;
                      }),
              {"carried value 0 comes as f64[s0] and a trip gives f64[] (control_flow_test.cpp:",
               "has to keep"});
  expect_says(message({kVector}, [&](const Tensors& in) { return scan(keep, {in[0]}, {}).carry; }),
              {"control_flow_test.cpp:", "pass arange(n)"});
  expect_says(
      message({kVector}, [&](const Tensors& in) { return scan(keep, in, {sum(in[0])}).carry; }),
      {"walks along dim 0, which f64[] has not"});
}

/// From the carry in[1] and the rows in[2]: the sum of the last carry and of all squares, by a scan
/// or by an unrolled loop of three trips.
Tensor recurrence_loss(bool loop, const Tensors& in,
                       const std::function<Tensor(const Tensor& c, const Tensor& x)>& step) {
  if (loop) {
    const auto [carry, ys] = scan(
        [&](const Tensors& h, const Tensors& x) {
          const Tensor next = step(h[0], x[0]);
          return Scanned{{next}, {next * next}};
        },
        {in[1]}, {in[2]});
    return sum(carry[0]) + sum(ys[0]);
  }
  Tensor c = in[1], total = sum(in[1]) * 0.0;
  for (std::int64_t t = 0; t < 3; ++t) {
    c = step(c, squeeze(slice(in[2], 0, t, 1), 0));
    total = total + sum(c * c);
  }
  return sum(c) + total;
}

TEST(Scan, GradientsOfGradients_AgreeWithTheUnrolledLoop) {
  const auto loss = [](bool loop, const Tensors& in) {
    return recurrence_loss(loop, in,
                           [&](const Tensor& c, const Tensor& x) { return sin(in[0] * c + x); });
  };
  const auto twice = [&](bool loop) {
    return [&, loop](const Tensors& in) {
      const Tensors g = grad(loss(loop, in), {in[0], in[1], in[2]});
      const Tensor norm = sum(g[0] * g[0]) + sum(g[1] * g[1]) + sum(g[2] * g[2]);
      return grad(norm, {in[0], in[1], in[2]});
    };
  };
  const std::vector<In> inputs{{DType::F64, {2}}, {DType::F64, {2}}, {DType::F64, {3, 2}}};
  const std::vector<Array> arrays{waves({2}, 0.1), waves({2}, 0.8), waves({3, 2}, 1.9)};
  OnRanks plain(must(traced(inputs, twice(false))), 1), loop(must(traced(inputs, twice(true))), 1);
  const auto expected = plain.interpreted({named(arrays)});
  expect_everywhere(loop, arrays, expected.ranks[0]->value());
}

/// The number of values that the last scan of the graph carries.
std::int64_t carried_by_last_scan(const Graph& graph) {
  std::int64_t out = -1;
  for (const Node& node : graph.nodes)
    if (node.op == Op::Scan) out = node.ints[0];
  return out;
}

// The gradient of a matrix that one product uses is a product after the scan; of others, a carried
// sum.
TEST(Scan, GradientsOfMatrices_AgreeWithTheUnrolledLoop) {
  struct Use {
    const char* name;
    std::function<Tensor(const Tensor& w, const Tensor& c)> product;
    std::int64_t carried;  // gradients of one carried value, and sums
  };
  const auto swapped = [](const Tensor& x) { return transpose(x, 0, 1); };
  const std::vector<Use> uses{
      {"right", [](const Tensor& w, const Tensor& c) { return matmul(c, w); }, 1},
      {"swapped", [&](const Tensor& w, const Tensor& c) { return matmul(c, swapped(w)); }, 1},
      {"swapped twice",
       [&](const Tensor& w, const Tensor& c) { return matmul(c, swapped(swapped(w))); }, 1},
      {"left", [&](const Tensor& w, const Tensor& c) { return swapped(matmul(w, swapped(c))); }, 1},
      {"left, swapped",
       [&](const Tensor& w, const Tensor& c) { return swapped(matmul(swapped(w), swapped(c))); },
       1},
      {"by two products",
       [](const Tensor& w, const Tensor& c) { return matmul(c, w) + matmul(c * c, w); }, 2},
      {"with itself", [](const Tensor& w, const Tensor& c) { return matmul(c, matmul(w, w)); }, 2},
      {"scaled", [](const Tensor& w, const Tensor& c) { return matmul(c, w * 2.0); }, 2},
  };
  for (const Use& use : uses) {
    SCOPED_TRACE(use.name);
    const auto loss = [&](bool loop, const Tensors& in) {
      return recurrence_loss(loop, in, [&](const Tensor& c, const Tensor& x) {
        return tanh(use.product(in[0], c) + x);
      });
    };
    for (const bool twice : {false, true}) {
      if (twice && use.name != "swapped"sv && use.name != "by two products"sv) continue;
      const auto gradients = [&, twice](bool loop) {
        return [&, loop, twice](const Tensors& in) {
          const Tensors g = grad(loss(loop, in), {in[0], in[1], in[2]});
          if (!twice) return g;
          const Tensor norm = sum(g[0] * g[0]) + sum(g[1] * g[1]) + sum(g[2] * g[2]);
          return grad(norm, {in[0], in[1], in[2]});
        };
      };
      const std::vector<In> inputs{
          {DType::F64, {3, 3}}, {DType::F64, {2, 3}}, {DType::F64, {3, 2, 3}}};
      const std::vector<Array> arrays{waves({3, 3}, 0.1), waves({2, 3}, 0.8),
                                      waves({3, 2, 3}, 1.9)};
      OnRanks plain(must(traced(inputs, gradients(false))), 1);
      const Graph looped = must(traced(inputs, gradients(true)));
      if (!twice) EXPECT_EQ(carried_by_last_scan(looped), use.carried) << looped.text();
      OnRanks loop(looped, 1);
      const auto expected = plain.interpreted({named(arrays)});
      expect_everywhere(loop, arrays, expected.ranks[0]->value());
    }
  }
}

TEST(Scan, GradientOfABf16Matrix_IsNearTheUnrolledLoop) {
  const auto gradient = [](bool loop) {
    return [loop](const Tensors& in) {
      return Tensors{grad(recurrence_loss(loop, in,
                                          [&](const Tensor& c, const Tensor& x) {
                                            return tanh(matmul(c, in[0]) + x);
                                          }),
                          {in[0]})[0]};
    };
  };
  const std::vector<In> inputs{
      {DType::BF16, {3, 3}}, {DType::BF16, {2, 3}}, {DType::BF16, {3, 2, 3}}};
  std::mt19937_64 random(7);
  const std::vector<Array> arrays{random_array(random, DType::BF16, {3, 3}),
                                  random_array(random, DType::BF16, {2, 3}),
                                  random_array(random, DType::BF16, {3, 2, 3})};
  OnRanks plain(must(traced(inputs, gradient(false))), 1),
      loop(must(traced(inputs, gradient(true))), 1);
  const auto want = plain.interpreted({named(arrays)}), got = loop.interpreted({named(arrays)});
  ASSERT_TRUE(got.ranks[0]->has_value()) << got.ranks[0]->error().text();
  const Array &mine = got.ranks[0]->value()[0], &other = want.ranks[0]->value()[0];
  ASSERT_EQ(mine.dtype(), DType::BF16);
  for (std::int64_t i = 0; i < 9; ++i)  // within some roundings to 8 bits
    EXPECT_NEAR(mine.at(i), other.at(i), 0.02 * std::abs(other.at(i)) + 0.005) << i;
}

TEST(Scan, GradientOfAMatrix_OverNoTrips_IsZero) {
  OnRanks ranks(must(traced({{DType::F64, {3, 3}}, {DType::F64, {2, 3}}, {DType::F64, {0, 2, 3}}},
                            [](const Tensors& in) {
                              const auto [carry, ys] = scan(
                                  [&](const Tensors& h, const Tensors& x) {
                                    return Scanned{{matmul(h[0], in[0]) + x[0]}, {}};
                                  },
                                  {in[1]}, {in[2]});
                              return Tensors{grad(sum(carry[0]), {in[0]})[0]};
                            })),
                1);
  expect_everywhere(ranks, {waves({3, 3}, 0.1), waves({2, 3}, 0.8), waves({0, 2, 3}, 1.9)},
                    {Array::zeros(DType::F64, {3, 3})});
}

TEST(While, RunsAsLongAsItsConditionHolds) {
  // Collatz: steps to 1.
  OnRanks ranks(
      must(traced({{DType::I64, {}}},
                  [](const Tensors& in) {
                    return while_loop(
                        [](const Tensors& c) { return c[0] > 1; },
                        [](const Tensors& c) {
                          const Tensor half = c[0] / 2;
                          return Tensors{where(c[0] % 2 == 0, half, c[0] * 3 + 1), c[1] + 1};
                        },
                        {in[0], scalar(*in[0].trace(), 0)}, 200);
                  })),
      1);
  for (const std::int64_t from : {1, 2, 6, 27}) {
    std::int64_t steps = 0;
    for (std::int64_t n = from; n > 1; ++steps) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    expect_everywhere(ranks, {integers({}, {from})}, {integers({}, {1}), integers({}, {steps})});
  }
}

TEST(While, AtItsBound_Fails_AndHasNoGradient) {
  const auto loop = [](const Tensors& in, std::optional<std::int64_t> most) {
    return while_loop([](const Tensors& c) { return sum(c[0]) < 10.0; },
                      [](const Tensors& c) { return Tensors{c[0] * 2.0}; }, in, most);
  };
  OnRanks ranks(must(traced({kVector}, [&](const Tensors& in) { return loop(in, 3); })), 1);
  expect_everywhere(ranks, {f64({2}, {1, 1})}, {f64({2}, {8, 8})});
  const auto all = ranks.everywhere({named({f64({1}, {1})})});
  ASSERT_FALSE(all.ranks[0]->has_value());
  EXPECT_EQ(all.ranks[0]->error().code, Code::RuntimeAssert);
  expect_says(all.ranks[0]->error().text(),
              {"while_loop at control_flow_test.cpp:", "still true after 3 trips"});
  expect_says(
      message({kVector}, [&](const Tensors& in) { return grad(sum(loop(in, {})[0]), {in[0]}); }),
      {"control_flow_test.cpp:", "while_loop: has no gradient", "write a scan()"});
  expect_says(message({kVector},
                      [](const Tensors& in) {
                        return while_loop([](const Tensors& c) { return c[0] > 0.0; },
                                          [](const Tensors& c) { return c; }, in);
                      }),
              {"the condition gives one 0-d bool, not bool[s0]"});
}

}  // namespace
}  // namespace lockstep::worker::control_flow_test
