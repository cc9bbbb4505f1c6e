// Scans, order and counts beside plain loops.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "function_runs.h"

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/tensor/graph/error_sync_points.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker::order_test {
namespace {

using namespace test;

constexpr double kInf = std::numeric_limits<double>::infinity();
const std::vector<DType> kDTypes{DType::F64, DType::F32, DType::I64, DType::U8};
const std::vector<Dim> kThreeDims(3, dynamic(4, 0));

/// Calls f(places) for every line of elements along `dim`: their row-major places.
void for_lines(const Counts& sizes, std::size_t dim, const std::function<void(const Counts&)>& f) {
  std::int64_t stride = 1, before = 1;
  for (std::size_t d = 0; d < dim; ++d) before *= sizes[d];
  for (std::size_t d = dim + 1; d < sizes.size(); ++d) stride *= sizes[d];
  for (std::int64_t i = 0; i < before; ++i)
    for (std::int64_t j = 0; j < stride; ++j) {
      Counts places;
      for (std::int64_t k = 0; k < sizes[dim]; ++k)
        places.push_back((i * sizes[dim] + k) * stride + j);
      f(places);
    }
}

using LineOp = std::function<Numbers(const Numbers&)>;
/// Of each line of `x` what `op` makes of it, in a dim that may have another size then.
Array by_lines(const Array& x, std::size_t dim, DType dtype, std::int64_t size, const LineOp& op) {
  Counts sizes = x.sizes();
  sizes[dim] = size;
  Array out = Array::zeros(dtype, sizes);
  std::vector<Counts> to;
  for_lines(sizes, dim, [&](const Counts& places) { to.push_back(places); });
  std::size_t line = 0;
  for_lines(x.sizes(), dim, [&](const Counts& places) {
    Numbers values;
    for (const std::int64_t place : places) values.push_back(x.at(place));
    const Numbers made = op(values);
    for (std::size_t k = 0; k < made.size(); ++k) out.set(to[line][k], made[k]);
    ++line;
  });
  return out;
}
Array by_lines(const Array& x, std::size_t dim, DType dtype, const LineOp& op) {
  return by_lines(x, dim, dtype, x.sizes()[dim], op);
}

LineOp turned(const LineOp& op, bool indices = false) {
  return [=](const Numbers& x) {
    Numbers out = op({x.rbegin(), x.rend()});
    std::reverse(out.begin(), out.end());
    if (indices)
      for (double& i : out) i = static_cast<double>(x.size()) - 1 - i;
    return out;
  };
}

/// Not-a-number is above all.
bool less(double a, double b) { return std::isnan(a) ? false : std::isnan(b) || a < b; }
bool alike(double a, double b) { return !less(a, b) && !less(b, a); }

double narrowed(DType dtype, double x) {
  return dtype == DType::U8 ? static_cast<std::uint8_t>(static_cast<std::int64_t>(x)) : x;
}

LineOp sums(DType dtype) {
  return [=](const Numbers& x) {
    Numbers out;
    for (double total = 0; const double value : x)
      out.push_back(total = narrowed(dtype, total + value));
    return out;
  };
}
LineOp products(DType dtype) {
  return [=](const Numbers& x) {
    Numbers out;
    for (double total = 1; const double value : x)
      out.push_back(total = narrowed(dtype, total * value));
    return out;
  };
}
/// Of the elements up to each the greatest, of equal ones the last; by brute force.
Numbers places_of_largest(const Numbers& x) {
  Numbers out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::size_t best = 0;
    for (std::size_t j = 0; j <= i; ++j)
      if (!less(x[j], x[best])) best = j;
    out.push_back(static_cast<double>(best));
  }
  return out;
}
Numbers places_of_smallest(const Numbers& x) {
  Numbers out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::size_t best = 0;
    for (std::size_t j = 0; j <= i; ++j)
      if (std::isnan(x[j]) || (!std::isnan(x[best]) && x[j] <= x[best])) best = j;
    out.push_back(static_cast<double>(best));
  }
  return out;
}
Numbers at_places(const Numbers& x, const Numbers& places) {
  Numbers out;
  for (const double place : places) out.push_back(x[static_cast<std::size_t>(place)]);
  return out;
}
LineOp values_of(Numbers (*places)(const Numbers&)) {
  return [=](const Numbers& x) { return at_places(x, places(x)); };
}
Numbers log_sums(const Numbers& x) {
  Numbers out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double most = -kInf;
    long double sum = 0;
    for (std::size_t j = 0; j <= i; ++j)
      if (x[j] > most) most = x[j];
    for (std::size_t j = 0; j <= i; ++j)
      sum += x[j] == most ? 1.0L : std::exp(static_cast<long double>(x[j]) - most);
    out.push_back(static_cast<double>(most + std::log(sum)));
  }
  return out;
}
/// The place of each element is the number of those that come before it.
Numbers order_of(const Numbers& x, bool descending) {
  Numbers out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::size_t before = 0;
    for (std::size_t j = 0; j < x.size(); ++j)
      before += (descending ? less(x[i], x[j]) : less(x[j], x[i])) || (alike(x[i], x[j]) && j < i);
    out[before] = static_cast<double>(i);
  }
  return out;
}
LineOp order(bool descending) {
  return [=](const Numbers& x) { return order_of(x, descending); };
}
LineOp ordered(bool descending) {
  return [=](const Numbers& x) { return at_places(x, order_of(x, descending)); };
}
LineOp first_of(const LineOp& op, std::int64_t start, std::int64_t count) {
  return [=](const Numbers& x) {
    const Numbers all = op(x);
    return Numbers(all.begin() + start, all.begin() + start + count);
  };
}

const std::vector<Counts> kSizes{{0, 3, 2}, {2, 0, 3},  {3, 2, 0}, {1, 1, 1},
                                 {2, 5, 3}, {1, 70, 2}, {9, 1, 80}};

/// What `make` gives of three dims along each of them, forward and reverse, is what `expected`
/// gives of an array along a dim.
void check_lines(DType dtype, const std::function<Tensors(const Tensor&, std::int64_t)>& make,
                 const std::function<std::vector<Array>(const Array&, std::size_t)>& expected,
                 std::int64_t least = 0) {
  SCOPED_TRACE(dtype_name(dtype));
  OnRanks ranks(must(traced({{dtype, kThreeDims}},
                            [&](const Tensors& in) {
                              Tensors out;
                              for (const std::int64_t dim : {0, 1, -1})
                                for (const Tensor& y : make(in[0], dim)) out.push_back(y);
                              return out;
                            })),
                1);
  std::mt19937_64 random(7);
  for (const Counts& sizes : kSizes) {
    if (*std::ranges::min_element(sizes) < least) continue;
    const Array x = random_array(random, dtype, sizes, true);
    std::vector<Array> all;
    for (const std::size_t dim : {0U, 1U, 2U})
      for (const Array& array : expected(x, dim)) all.push_back(array);
    expect_everywhere(ranks, {x}, all, dtype == DType::F32 ? 2e-5 : 1e-12);
  }
}

TEST(Order, Scans_AlongAnyDimInBothDirections) {
  for (const DType dtype : kDTypes)
    check_lines(
        dtype,
        [](const Tensor& x, std::int64_t dim) {
          Tensors out;
          for (const Direction way : {Direction::Forward, Direction::Reverse}) {
            const Taken most = cummax(x, dim, way), least = cummin(x, dim, way);
            for (const Tensor& y :
                 {cumsum(x, dim, way), most.values, most.indices, least.values, least.indices})
              out.push_back(y);
          }
          return out;
        },
        [](const Array& x, std::size_t dim) {
          std::vector<Array> out;
          const LineOp most = places_of_largest, least = places_of_smallest;
          for (const bool reverse : {false, true}) {
            const auto add = [&](DType of, const LineOp& op, bool indices) {
              out.push_back(by_lines(x, dim, of, reverse ? turned(op, indices) : op));
            };
            add(x.dtype(), sums(x.dtype()), false);
            add(x.dtype(), values_of(places_of_largest), false);
            add(DType::I64, most, true);
            add(x.dtype(), values_of(places_of_smallest), false);
            add(DType::I64, least, true);
          }
          return out;
        });
}

TEST(Order, ProductsAndLogarithmsOfSums_AlongAnyDimInBothDirections) {
  for (const DType dtype : {DType::F64, DType::F32})
    check_lines(
        dtype,
        [](const Tensor& x, std::int64_t dim) {
          const Tensor near = tanh(x) * 0.25 + 1.0;  // products that stay in range
          return Tensors{cumprod(near, dim), cumprod(near, dim, Direction::Reverse),
                         logcumsumexp(x, dim), logcumsumexp(x, dim, Direction::Reverse)};
        },
        [](const Array& x, std::size_t dim) {
          Array near(x.dtype(), x.sizes());
          for (std::int64_t i = 0; i < x.elements(); ++i)
            near.set(i, std::tanh(x.at(i)) * 0.25 + 1);
          const DType of = x.dtype();
          return std::vector<Array>{
              by_lines(near, dim, of, products(of)), by_lines(near, dim, of, turned(products(of))),
              by_lines(x, dim, of, log_sums), by_lines(x, dim, of, turned(log_sums))};
        });
  check_lines(
      DType::U8, [](const Tensor& x, std::int64_t dim) { return Tensors{cumprod(x, dim)}; },
      [](const Array& x, std::size_t dim) {
        return std::vector<Array>{by_lines(x, dim, DType::U8, products(DType::U8))};
      });
}

TEST(Order, Sorting_IsStableInBothOrders_NotANumberGreatest) {
  for (const DType dtype : kDTypes)
    check_lines(
        dtype,
        [](const Tensor& x, std::int64_t dim) {
          const Taken up = sort(x, dim), down = sort(x, dim, true);
          return Tensors{up.values, up.indices, down.values, argsort(x, dim, true)};
        },
        [](const Array& x, std::size_t dim) {
          return std::vector<Array>{by_lines(x, dim, x.dtype(), ordered(false)),
                                    by_lines(x, dim, DType::I64, order(false)),
                                    by_lines(x, dim, x.dtype(), ordered(true)),
                                    by_lines(x, dim, DType::I64, order(true))};
        });
}

LineOp middle(bool indices) {
  return [=](const Numbers& x) {
    const Numbers places = order_of(x, false);
    std::size_t at = (x.size() - 1) / 2;
    const auto nan = [&](double place) { return std::isnan(x[static_cast<std::size_t>(place)]); };
    if (std::ranges::any_of(places, nan))
      at = static_cast<std::size_t>(std::ranges::find_if(places, nan) - places.begin());
    return Numbers{indices ? places[at] : at_places(x, places)[at]};
  };
}

TEST(Order, TopkKthvalueAndMedian_AlongAnyDim) {
  for (const DType dtype : kDTypes)
    check_lines(
        dtype,
        [](const Tensor& x, std::int64_t dim) {
          const SymInt some = x.size(dim) / 2;
          const Taken most = topk(x, some, dim), least = topk(x, some, dim, false),
                      kth = kthvalue(x, x.size(dim) - some, dim, Keep::Keep),
                      central = median(x, dim, Keep::Keep);
          return Tensors{most.values,
                         most.indices,
                         least.values,
                         least.indices,
                         kth.values,
                         kth.indices,
                         central.values,
                         central.indices,
                         unsqueeze(kthvalue(x, 1, dim).values, dim),
                         unsqueeze(median(x, dim).indices, dim)};
        },
        [](const Array& x, std::size_t dim) {
          const std::int64_t n = x.sizes()[dim], some = n / 2, k = n - some - 1;
          const DType of = x.dtype(), index = DType::I64;
          return std::vector<Array>{by_lines(x, dim, of, some, first_of(ordered(true), 0, some)),
                                    by_lines(x, dim, index, some, first_of(order(true), 0, some)),
                                    by_lines(x, dim, of, some, first_of(ordered(false), 0, some)),
                                    by_lines(x, dim, index, some, first_of(order(false), 0, some)),
                                    by_lines(x, dim, of, 1, first_of(ordered(false), k, 1)),
                                    by_lines(x, dim, index, 1, first_of(order(false), k, 1)),
                                    by_lines(x, dim, of, 1, middle(false)),
                                    by_lines(x, dim, index, 1, middle(true)),
                                    by_lines(x, dim, of, 1, first_of(ordered(false), 0, 1)),
                                    by_lines(x, dim, index, 1, middle(true))};
        },
        1);
}

TEST(Order, OfANumber_IsThatNumber) {
  OnRanks ranks(must(traced({{DType::F64, {}}},
                            [](const Tensors& in) {
                              const Taken order = sort(in[0], 0, true), most = cummax(in[0], -1);
                              const Taken first = topk(in[0], 1), middle = median(in[0], 0);
                              return Tensors{order.values, order.indices,
                                             most.values,  cumsum(in[0], 0, Direction::Reverse),
                                             first.values, kthvalue(in[0], 1).indices,
                                             middle.values};
                            })),
                1);
  const Array x = f64({}, {2.5}), zero = integers({}, {0});
  expect_everywhere(ranks, {x}, {x, zero, x, x, x, zero, x});
}

TEST(Order, Diff_IsOneFewer_OfNoneNone) {
  OnRanks ranks(must(traced({{DType::I64, {dynamic(4, 0), dynamic(4, 0)}}},
                            [](const Tensors& in) {
                              return Tensors{diff(in[0], 0), diff(in[0])};
                            })),
                1);
  expect_everywhere(ranks, {integers({2, 3}, {1, 4, 9, 2, 2, 2})},
                    {integers({1, 3}, {1, -2, -7}), integers({2, 2}, {3, 5, 0, 0})});
  expect_everywhere(ranks, {integers({0, 1}, {})}, {integers({0, 1}, {}), integers({0, 0}, {})});
}

/// How many of the row are below the value, or not above it; not-a-number is greatest.
std::int64_t count_below(const Array& sorted, std::int64_t row, double value, bool right) {
  const std::int64_t n = sorted.sizes().back();
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = sorted.at(row * n + i);
    count += less(x, value) || (right && alike(x, value));
  }
  return count;
}

TEST(Order, Searchsorted_CountsWhatIsBelow_PerRowAndForAll) {
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(dtype_name(dtype));
    OnRanks ranks(must(traced({{dtype, {dynamic(4, 0), dynamic(4, 0)}},
                               {dtype, {dynamic(4, 0), dynamic(4, 0)}},
                               {dtype, {dynamic(4, 0)}}},
                              [](const Tensors& in) {
                                const Tensor rows = sort(in[0]).values, line = sort(in[2]).values;
                                return Tensors{
                                    searchsorted(rows, in[1]), searchsorted(rows, in[1], true),
                                    searchsorted(line, in[1]), bucketize(in[1], line, true)};
                              })),
                  1);
    std::mt19937_64 random(3);
    for (const auto& [rows, n, m] :
         std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>{
             {3, 7, 5}, {1, 1, 1}, {2, 0, 3}, {4, 5, 0}, {0, 2, 2}, {2, 40, 30}}) {
      const Array a = random_array(random, dtype, {rows, n}, true),
                  b = random_array(random, dtype, {rows, m}, true),
                  c = random_array(random, dtype, {n}, true);
      std::vector<Array> expected;
      for (int o = 0; o < 4; ++o) expected.push_back(Array::zeros(DType::I64, {rows, m}));
      for (std::int64_t i = 0; i < rows * m; ++i)
        for (std::size_t o = 0; o < 4; ++o)
          expected[o].set(i, static_cast<double>(count_below(o < 2 ? a : c, o < 2 ? i / m : 0,
                                                             b.at(i), o % 2 == 1)));
      expect_everywhere(ranks, {a, b, c}, expected);
    }
  }
}

TEST(Order, Bincount_OfAKnownLengthAndOfOneThatTheDataGive) {
  OnRanks ranks(must(traced({{DType::I32, {dynamic(4, 0)}}, {DType::F64, {dynamic(4, 0)}}},
                            [](const Tensors& in) {
                              return Tensors{bincount(in[0], 6), bincount(in[0], 6, in[1]),
                                             bincount(in[0]), bincount(in[0], {}, in[1])};
                            })),
                1);
  const auto i32 = [](const Numbers& values) {
    return Array::of(DType::I32, {static_cast<std::int64_t>(values.size())}, values);
  };
  expect_everywhere(ranks, {i32({4, 1, 1, 4, 0}), f64({5}, {0.5, 2, 3, 1, 7})},
                    {integers({6}, {1, 2, 0, 0, 2, 0}), f64({6}, {7, 5, 0, 0, 1.5, 0}),
                     integers({5}, {1, 2, 0, 0, 2}), f64({5}, {7, 5, 0, 0, 1.5})});
  expect_everywhere(ranks, {i32({}), f64({0}, {})},
                    {integers({6}, {0, 0, 0, 0, 0, 0}), f64({6}, {0, 0, 0, 0, 0, 0}),
                     integers({0}, {}), f64({0}, {})});
  for (const double wrong : {6.0, -1.0}) {
    const OnRanks::Run run = ranks.everywhere({named({i32({1, wrong}), f64({2}, {1, 1})})});
    ASSERT_FALSE(run.ranks[0]->has_value());
    EXPECT_NE(run.ranks[0]->error().message.find("indices must be at least 0 and less than 6"),
              std::string::npos)
        << run.ranks[0]->error().message;
  }
}

TEST(Order, ValuesByTheirPlaces_NeedNoCheckAndNoVote) {
  const Graph graph =
      must(traced({{DType::F64, {dynamic(4, 0), dynamic(5, 0)}}}, [](const Tensors& x) {
        const Tensor& t = x[0];
        Tensors out;
        for (const std::int64_t dim : {0, 1})
          for (const bool turned : {false, true})
            for (const Taken& taken :
                 {sort(t, dim, turned), topk(t, t.size(dim), dim, turned),
                  cummax(t, dim, turned ? Direction::Reverse : Direction::Forward)})
              out.insert(out.end(), {taken.values, taken.indices});
        return out;
      }));
  EXPECT_FALSE(error_sync_points(graph).at_end) << graph.text();
  const auto steps = generate(graph).value().steps;
  EXPECT_EQ(std::ranges::count(steps, Step::Kind::IndexCheck, &Step::kind), 0);
  // The same places in another tensor may lie outside.
  const Graph other =
      must(traced({{DType::F64, {dynamic(4, 0)}}, {DType::F64, {dynamic(6, 0)}}},
                  [](const Tensors& x) { return Tensors{index_select(x[1], argsort(x[0]))}; }));
  EXPECT_TRUE(error_sync_points(other).at_end) << other.text();
}

TEST(Order, WhatDoesNotFit_IsRefusedInOneSentence) {
  const auto words = [](DType dtype, const std::vector<test::Dim>& dims,
                        const std::function<Tensor(const Tensor&)>& body) {
    const Result<Graph> graph =
        traced({{dtype, dims}}, [&](const Tensors& in) { return Tensors{body(in[0])}; });
    EXPECT_FALSE(graph.has_value());
    const std::string text = graph ? std::string() : graph.error().message;
    EXPECT_NE(text.find("order_test.cpp:"), std::string::npos) << text;
    return text;
  };
  const auto says = [](const std::string& text, const char* expected) {
    EXPECT_NE(text.find(expected), std::string::npos) << text;
  };
  const std::vector<test::Dim> two{4, 3};
  says(words(DType::F64, two, [](const Tensor& x) { return cumsum(x); }),
       "cumsum: which dim of f64[4, 3]? name it");
  says(words(DType::F64, two, [](const Tensor& x) { return cumprod(x, 2); }),
       "cumprod: a tensor with 2 dims has no dim 2");
  says(words(DType::I64, two, [](const Tensor& x) { return logcumsumexp(x, 0); }), "logcumsumexp");
  says(words(DType::Bool, two, [](const Tensor& x) { return argsort(x); }), "argsort");
  says(words(DType::Bool, two, [](const Tensor& x) { return cummin(x, 0).values; }),
       "cummin: takes numbers, not bools; cast first");
  says(words(DType::F64, two, [](const Tensor& x) { return topk(x, 5, 0).values; }),
       "topk: needs at least 5 along dim 0, but the tensor is f64[4, 3]");
  says(words(DType::F64, two, [](const Tensor& x) { return topk(x, -1).values; }),
       "topk: there are no -1 elements");
  says(words(DType::F64, {}, [](const Tensor& x) { return topk(x, 2).values; }),
       "topk: a number has no 2 elements");
  says(words(DType::F64, two, [](const Tensor& x) { return kthvalue(x, 0).values; }),
       "kthvalue: k is 0, and 1 means the smallest");
  says(words(DType::F64, {0}, [](const Tensor& x) { return median(x).values; }),
       "median: needs at least 1 along dim 0");
  says(words(DType::F64, two, [](const Tensor& x) { return searchsorted(x, cast(x, DType::F32)); }),
       "searchsorted: dtypes differ: f64 and f32; cast() one of them");
  says(words(DType::F64, two, [](const Tensor& x) { return searchsorted(x, sum(x)); }),
       "searchsorted: takes a 1-D sequence, or one per row of f64[], not f64[4, 3]");
  says(words(DType::F64, {}, [](const Tensor& x) { return searchsorted(x, x); }),
       "searchsorted: takes a 1-D sequence, or one per row of f64[], not f64[]");
  says(words(DType::F64, two, [](const Tensor& x) { return bucketize(x, x); }),
       "bucketize: takes 1-D boundaries, not f64[4, 3]");
  says(words(DType::F64, {4}, [](const Tensor& x) { return bincount(x); }),
       "bincount: takes 1-D ints, not f64[4]");
  says(words(DType::I64, two, [](const Tensor& x) { return var(x); }),
       "var: takes floating-point numbers; cast first");
  says(words(DType::I64, two, [](const Tensor& x) { return norm(x); }),
       "norm: takes floating-point numbers; cast first");
  says(words(DType::F64, two,
             [](const Tensor& x) {
               return flip(x, {0, -2});
             }),
       "flip: a dim is named twice");
}

TEST(Order, TooManyOfAKnownDim_IsAnErrorOfTheRun) {
  OnRanks ranks(must(traced({{DType::F64, {dynamic(4, 0)}}},
                            [](const Tensors& in) { return Tensors{topk(in[0], 3).values}; })),
                1);
  const OnRanks::Run run = ranks.everywhere({named({f64({2}, {1, 2})})});
  ASSERT_FALSE(run.ranks[0]->has_value());
  EXPECT_NE(run.ranks[0]->error().message.find("topk needs enough elements along its dim"),
            std::string::npos)
      << run.ranks[0]->error().message;
}

}  // namespace
}  // namespace lockstep::worker::order_test
