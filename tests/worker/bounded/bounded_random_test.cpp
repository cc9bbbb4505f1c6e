// Counts with a bound and experts of a capacity in random graphs: what is computed of them is what
// the plain way gives, in which counts are read back.
#include <algorithm>
#include <random>

#include "on_ranks.h"
#include "worker/trace/function_runs.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/bounded/dispatch.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/index_ops.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::bounded_random_test {
namespace {

using namespace test;  // NOLINT: everything here traces and runs functions

using Random = std::mt19937_64;

std::int64_t waits(const Graph& graph) {
  return std::ranges::count_if(
      graph.nodes, [](const Node& node) { return op_row(node.op).kind == OpClass::HostSync; });
}

/// The first `rows` rows of x, zeros where it has fewer.
Array resized(const Array& x, std::int64_t rows) {
  std::vector<std::int64_t> sizes = x.sizes();
  sizes[0] = rows;
  Array out = Array::zeros(x.dtype(), sizes);
  for (std::int64_t i = 0; i < std::min(x.elements(), out.elements()); ++i) out.set(i, x.at(i));
  return out;
}

/// Some elementwise step of two values of equal sizes, none of which overflows.
Tensor stepped(Random& random, const Tensor& a, const Tensor& b) {
  switch (random() % 7) {
    case 0:
      return a * tanh(b) + 0.25;
    case 1:
      return tanh(a) - abs(b) * 0.5;
    case 2:
      return where(a > b, a, b * 0.5);
    case 3:
      return exp(-abs(a)) + b * 0.75;
    case 4:
      return maximum(a, b) * 0.5;
    case 5:
      return log(abs(a) + 1.0) * b;
    default:
      return sqrt(b * b + 1.0) - 0.5 * a;
  }
}

constexpr std::int64_t kBound = 9;

/// Of x f64 [s0, 3], v f64 [s0] and m bool [s0]: outputs of which the first `exact` add nothing up
/// or add in one order, then totals.
struct RandomSelection {
  std::uint64_t seed;
  bool bounded;
  std::size_t* rows_of_outputs;  // how many of the first outputs are rows
  std::size_t* exact;

  Tensors operator()(const Tensors& in) const {
    Random random(seed);
    const Tensor &x = in[0], &v = in[1], &m = in[2];
    const Bounded some = bounded ? select_rows(x, m, at_most(kBound)) : Bounded{x[m], {}};
    const Bounded each = bounded ? masked_select(v, m, at_most(kBound)) : Bounded{v[m], {}};
    const Tensor at = bounded ? nonzero(m, at_most(kBound)).values : nonzero(m);
    // Behind what is present it is place 0, so a row of x, which has to be there.
    const Tensor looked_up = index_select(x, squeeze(at, 1)) * 0.5;
    std::vector<Tensor> rows{some.values, expand(unsqueeze(each.values, 1), some.values.sizes()),
                             looked_up};
    for (std::size_t k = 4 + random() % 5; k > 0; --k) {
      const Tensor a = rows[random() % rows.size()], b = rows[random() % rows.size()];
      rows.push_back(stepped(random, a, b));
    }
    const auto there = [&](const Tensor& y) {
      return bounded ? expand(unsqueeze(present(some), 1), y.sizes()) : y > -1e300;
    };
    Tensors out, totals;
    for (const std::size_t k : {rows.size() - 1, rows.size() - 2})
      out.push_back(where(there(rows[k]), rows[k], 0.0));
    *rows_of_outputs = out.size();
    Tensor loss = sum(looked_up * cast(there(looked_up), DType::F64));
    for (int k = 0; k < 3; ++k) {
      const Tensor y = rows[random() % rows.size()];
      out.push_back(amin(where(there(y), y, 1e9)));
      totals.push_back(sum(y * cast(there(y), DType::F64)));
      loss = loss + totals.back() * 0.5;
    }
    const Tensors by = grad(loss, {x, v});
    out.insert(out.end(), by.begin(), by.end());
    *exact = out.size();
    out.push_back(bounded ? some.count : scalar(some.values.size(0)));
    out.insert(out.end(), totals.begin(), totals.end());
    return out;
  }
};

/// Within 1e-12 of the largest.
void expect_close(const Array& got, const Array& expected) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  double largest = 1;
  for (std::int64_t i = 0; i < expected.elements(); ++i)
    largest = std::max(largest, std::abs(expected.at(i)));
  for (std::int64_t i = 0; i < expected.elements(); ++i)
    EXPECT_NEAR(got.at(i), expected.at(i), 1e-12 * largest) << "element " << i;
}

TEST(BoundedRandom, SelectionsInRandomGraphs_AreThePlainWay) {
  const std::vector<In> inputs{{DType::F64, {dynamic(5, 1), 3}},
                               {DType::F64, {dynamic(5, 1)}},
                               {DType::Bool, {dynamic(5, 1)}}};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::size_t rows = 0, exact = 0;
    const Graph bounded = must(traced(inputs, RandomSelection{seed, true, &rows, &exact}));
    const Graph plain = must(traced(inputs, RandomSelection{seed, false, &rows, &exact}));
    ASSERT_EQ(waits(bounded), 0) << bounded.text();
    ASSERT_GT(waits(plain), 0);
    OnRanks ranks(bounded, 1), plainly(plain, 1);
    Random random(seed);
    for (const std::int64_t n : {1, 2, 5, 31}) {
      Array m(DType::Bool, {n});
      std::int64_t trues = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const bool chosen = random() % 2 == 0 && trues < kBound;
        m.set(i, chosen ? 1 : 0);
        trues += chosen ? 1 : 0;
      }
      const Inputs given = named(
          {random_array(random, DType::F64, {n, 3}), random_array(random, DType::F64, {n}), m});
      const auto expected = plainly.interpreted({given});
      const auto got = seed % 16 == 0 ? ranks.everywhere({given}) : ranks.interpreted({given});
      ASSERT_TRUE(expected.ranks[0]->has_value()) << expected.ranks[0]->error().text();
      ASSERT_TRUE(got.ranks[0]->has_value()) << got.ranks[0]->error().text();
      const std::vector<Array>&plain_values = expected.ranks[0]->value(),
            &values = got.ranks[0]->value();
      ASSERT_EQ(values.size(), plain_values.size());
      for (std::size_t k = 0; k < values.size(); ++k) {
        SCOPED_TRACE("output " + std::to_string(k) + ", n " + std::to_string(n));
        if (k > exact) {
          expect_close(values[k], plain_values[k]);
        } else if (trues > 0 || k < rows || k + 2 >= exact) {  // amin of nothing is another number
          EXPECT_TRUE(same({values[k]},
                           {k < rows ? resized(plain_values[k], kBound) : plain_values[k]}, 0));
        }
      }
    }
  }
}

constexpr std::int64_t kRanks = 2, kHere = 3, kExperts = kRanks * kHere;

/// What experts make of their rows, by chance: rows [.., D], and weights that broadcast with them.
Tensor made(Random random, const Tensor& rows, const Tensor& w) {
  Tensor y = rows;
  for (int k = 0; k < 3; ++k) y = stepped(random, y * w, rows + 0.5);
  return y;
}

/// Rows that found no room are zeros, as is their gradient. Inputs: expert i64 [R], kept bool [R],
/// w f64 [experts here, 2], x f64 [R, 2].
Tensors dispatched(std::uint64_t seed, std::int64_t room, const Tensors& in) {
  const Tensor &expert = in[0], &w = in[2], &x = in[3];
  const Dispatched sent = dispatch(x, expert, kExperts, at_most(room));
  const Received here = send_to_owners(sent);
  const Tensor there = arange(*x.trace(), room) < unsqueeze(here.counts, 2);  // [here, ranks, room]
  const Tensor made_here = made(Random(seed), here.rows, unsqueeze(w, 1));
  const Tensor kept = where(unsqueeze(reshape(there, {kHere, kRanks * room}), 2), made_here, 0.0);
  const Tensor y = combine(send_back(kept), sent.place);
  const Tensors by = grad(sum(y * y), {w, x});
  return {y, here.counts, by[0], by[1]};
}

/// By counts that are exchanged and read back, of the rows that are kept.
Tensors counted(std::uint64_t seed, const Tensors& in) {
  const Tensor &w = in[2], &x = in[3], &kept = in[1];
  const Tensor expert = in[0][kept], rows = x[kept];
  const Tensor order = argsort(expert), mine = bincount(expert, kExperts);
  const Tensor theirs = all_to_all_single(mine);
  const auto by_rank = [&](const Tensor& counts) {
    return tolist(sum(reshape(counts, {kRanks, kHere}), {1}), Values::NonNegative);
  };
  const Sizes to = by_rank(mine), from = by_rank(theirs);
  const Tensor received = all_to_all_single(index_select(rows, order), from, to);
  const Tensor of = repeat_interleave(arange(theirs.size(0)) % kHere, theirs, 0);
  const Tensor done = made(Random(seed), received, index_select(w, of));
  const Tensor sorted = all_to_all_single(done, to, from);
  const Tensor back = index_add(rows.size(0), order, sorted);
  const Tensor y = index_put(zeros_like(x), {kept}, back);
  const Tensors by = grad(sum(y * y), {w, x});
  return {y, transpose(reshape(theirs, {kRanks, kHere}), 0, 1), by[0], by[1]};
}

TEST(DispatchRandom, RandomExpertsOverRanks_AreTheCountedWay) {
  const DecisionBuilder decision = DecisionBuilder()
                                       .tensor("aa", DType::I64, {dynamic(5, 0)})
                                       .tensor("ab", DType::Bool, {dynamic(5, 0)})
                                       .tensor("ac", DType::F64, {kHere, 2})
                                       .tensor("ad", DType::F64, {dynamic(5, 0), 2});
  const auto graph_of = [&](const Body& body) {
    return must(trace(setup(decision.get(), kRanks), [&](Trace& t) {
      const Tensors out =
          body({t.tensor_input(0), t.tensor_input(1), t.tensor_input(2), t.tensor_input(3)});
      for (std::size_t i = 0; i < out.size(); ++i) t.output(numbered(i), out[i]);
    }));
  };
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto room = static_cast<std::int64_t>(1 + random() % 4);
    const Graph fixed = graph_of([&](const Tensors& in) { return dispatched(seed, room, in); });
    const Graph plain = graph_of([&](const Tensors& in) { return counted(seed, in); });
    EXPECT_EQ(waits(fixed), 0) << fixed.text();
    ASSERT_GT(waits(plain), 0);
    OnRanks ranks(fixed, kRanks), plainly(plain, kRanks);
    for (int call = 0; call < 4; ++call) {
      std::vector<Inputs> given;
      for (std::int64_t r = 0; r < kRanks; ++r) {
        const auto rows = static_cast<std::int64_t>(random() % 15);
        const Array expert = random_indices(random, rows, kExperts);
        Array kept(DType::Bool, {rows});
        std::vector<std::int64_t> used(kExperts, 0);
        for (std::int64_t i = 0; i < rows; ++i)
          kept.set(i, used[static_cast<std::size_t>(expert.at(i))]++ < room ? 1 : 0);
        given.push_back(named({expert, kept, random_array(random, DType::F64, {kHere, 2}),
                               random_array(random, DType::F64, {rows, 2})}));
      }
      const auto expected = plainly.interpreted(given);
      const auto got = seed % 6 == 0 ? ranks.everywhere(given) : ranks.interpreted(given);
      for (std::size_t r = 0; r < kRanks; ++r) {
        SCOPED_TRACE("rank " + std::to_string(r) + ", call " + std::to_string(call));
        ASSERT_TRUE(expected.ranks[r]->has_value()) << expected.ranks[r]->error().text();
        ASSERT_TRUE(got.ranks[r]->has_value()) << got.ranks[r]->error().text();
        const auto &a = got.ranks[r]->value(), &b = expected.ranks[r]->value();
        for (const std::size_t k : {0, 1, 3}) EXPECT_TRUE(same({a[k]}, {b[k]}, 0)) << k;
        expect_close(a[2], b[2]);  // of the weights: added up over other rows in between
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::worker::bounded_random_test
