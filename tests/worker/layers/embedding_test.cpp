// Embeddings and attention against plain loops in double.
#include <cmath>
#include <limits>
#include <numeric>

#include "traced_run.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/layers/attention.h>
#include <lockstep/worker/tensor/layers/embeddings.h>

namespace lockstep::worker::embedding_test {
namespace {

using test::random_f64;
using test::refusal;
using test::TracedRun;
using In = const std::vector<Tensor>&;
using I = std::int64_t;

/// Numbers of rows below `rows`.
Array numbers(std::vector<I> sizes, I rows) {
  Array out = Array::zeros(DType::I64, std::move(sizes));
  for (I i = 0; i < out.elements(); ++i) out.set(i, static_cast<double>((i * 5 + 1) % rows));
  return out;
}

TEST(Embeddings, RowsByNumber_AndNoGradientForThePadding) {
  TracedRun program({numbers({3, 2}, 4), random_f64(1, {4, 6})}, [](Trace&, In x) {
    std::vector<Tensor> out;
    for (const std::optional<I> padding : {std::optional<I>(), {1}, {-2}}) {
      const Tensor y = embedding(x[0], x[1], padding);
      out.push_back(y);
      out.push_back(grad(sum(y * y), {x[1]})[0]);
    }
    return out;
  });
  for (const I n : {0, 1, 2, 5})
    for (const I m : {0, 1, 2, 5}) {
      const Array index = numbers({n, 2}, 4), table = random_f64(2, {4, m});
      Array rows = Array::zeros(DType::F64, {n, 2, m});
      std::vector<Array> grads(3, Array::zeros(DType::F64, {4, m}));
      for (Array& gradient : grads) gradient = gradient.clone();
      for (I i = 0; i < n * 2; ++i)
        for (I j = 0; j < m; ++j) {
          const I row = static_cast<I>(index.at(i)), at = row * m + j;
          rows.set(i * m + j, table.at(at));
          grads[0].set(at, grads[0].at(at) + 2 * table.at(at));
          if (row != 1) grads[1].set(at, grads[1].at(at) + 2 * table.at(at));
          if (row != 2) grads[2].set(at, grads[2].at(at) + 2 * table.at(at));
        }
      EXPECT_TRUE(same(program.run({index, table}),
                       {rows, grads[0], rows, grads[1], rows, grads[2]}, 1e-12));
    }
}

/// Rows of each bag, without those of the padding, brought together.
Array bags_by_loops(const std::vector<std::vector<I>>& bags, const Array& table, BagMode mode,
                    const std::vector<std::vector<double>>& weights = {}, I padding = -1) {
  const I width = table.sizes()[1];
  Array out = Array::zeros(DType::F64, {static_cast<I>(bags.size()), width});
  for (std::size_t b = 0; b < bags.size(); ++b)
    for (I j = 0; j < width; ++j) {
      double total = 0, best = -std::numeric_limits<double>::infinity(), count = 0;
      for (std::size_t k = 0; k < bags[b].size(); ++k) {
        if (bags[b][k] == padding) continue;
        const double value = table.at(bags[b][k] * width + j);
        total += weights.empty() ? value : weights[b][k] * value;
        best = std::max(best, value);
        ++count;
      }
      if (count == 0) continue;
      out.set(static_cast<I>(b) * width + j, mode == BagMode::Sum    ? total
                                             : mode == BagMode::Mean ? total / count
                                                                     : best);
    }
  return out;
}

TEST(EmbeddingBags, RowsOfTheIndex_AsByLoops) {
  TracedRun program({numbers({3, 4}, 4), random_f64(1, {4, 6}), random_f64(1, {3, 4})}, [](Trace&,
                                                                                           In x) {
    std::vector<Tensor> out;
    for (const BagMode mode : {BagMode::Sum, BagMode::Mean, BagMode::Max}) {
      out.push_back(embedding_bag(x[0], x[1], {.mode = mode}));
      out.push_back(embedding_bag(x[0], x[1], {.mode = mode, .padding_idx = 1}));
    }
    out.push_back(embedding_bag(x[0], x[1], {.mode = BagMode::Sum, .per_sample_weights = x[2]}));
    return out;
  });
  for (const I n : {0, 1, 2, 5})
    for (const I length : {0, 1, 2, 5}) {
      const Array index = numbers({n, length}, 4), table = random_f64(2, {4, 3}),
                  weight = random_f64(3, {n, length});
      std::vector<std::vector<I>> bags(static_cast<std::size_t>(n));
      std::vector<std::vector<double>> weights(bags.size());
      for (I i = 0; i < n * length; ++i) {
        bags[static_cast<std::size_t>(i / length)].push_back(static_cast<I>(index.at(i)));
        weights[static_cast<std::size_t>(i / length)].push_back(weight.at(i));
      }
      std::vector<Array> expected;
      for (const BagMode mode : {BagMode::Sum, BagMode::Mean, BagMode::Max}) {
        expected.push_back(bags_by_loops(bags, table, mode));
        expected.push_back(bags_by_loops(bags, table, mode, {}, 1));
      }
      expected.push_back(bags_by_loops(bags, table, BagMode::Sum, weights));
      EXPECT_TRUE(same(program.run({index, table, weight}), expected, 1e-12)) << n << " " << length;
    }
}

TEST(EmbeddingBags, OneBehindTheOther_ByOffsetsOrLengths) {
  TracedRun program(
      {numbers({7}, 4), random_f64(1, {4, 6}), numbers({3}, 2), numbers({3}, 2), numbers({5}, 2),
       random_f64(1, {7})},
      [](Trace&, In x) {
        const auto bag = [&](BagOptions options) { return embedding_bag(x[0], x[1], options); };
        return std::vector{bag({.lengths = x[2], .mode = BagMode::Sum}),
                           bag({.lengths = x[2], .padding_idx = 1}),
                           bag({.lengths = x[2], .mode = BagMode::Max}),
                           bag({.offsets = x[3], .mode = BagMode::Max, .padding_idx = 1}),
                           bag({.offsets = x[3], .mode = BagMode::Sum, .per_sample_weights = x[5]}),
                           bag({.offsets = x[4], .include_last_offset = true})};
      });
  for (const std::vector<I>& lengths :
       std::vector<std::vector<I>>{{}, {0}, {1}, {2, 0, 3}, {0, 0, 5, 1}}) {
    I total = 0;
    std::vector<I> starts;
    for (const I length : lengths) starts.push_back(total), total += length;
    std::vector<I> edges = starts;
    edges.push_back(total);
    const auto count = static_cast<I>(lengths.size());
    const Array index = numbers({total}, 4), table = random_f64(2, {4, 3}),
                weight = random_f64(3, {total});
    std::vector<std::vector<I>> bags(lengths.size());
    std::vector<std::vector<double>> weights(lengths.size());
    for (std::size_t b = 0; b < lengths.size(); ++b)
      for (I i = starts[b]; i < starts[b] + lengths[b]; ++i) {
        bags[b].push_back(static_cast<I>(index.at(i)));
        weights[b].push_back(weight.at(i));
      }
    EXPECT_TRUE(same(
        program.run({index, table, integers({count}, lengths), integers({count}, starts),
                     integers({count + 1}, edges), weight}),
        {bags_by_loops(bags, table, BagMode::Sum), bags_by_loops(bags, table, BagMode::Mean, {}, 1),
         bags_by_loops(bags, table, BagMode::Max), bags_by_loops(bags, table, BagMode::Max, {}, 1),
         bags_by_loops(bags, table, BagMode::Sum, weights),
         bags_by_loops(bags, table, BagMode::Mean)},
        1e-12));
  }
}

TEST(Embeddings, WrongNumbers_FailInTheRun) {
  const Array table = random_f64(1, {4, 3});
  TracedRun program({numbers({5}, 4), table, numbers({2}, 2)}, [](Trace&, In x) {
    return std::vector{embedding(x[0], x[1]), embedding_bag(x[0], x[1], {.lengths = x[2]})};
  });
  EXPECT_NE(
      program.failure({integers({2}, {1, 4}), table, integers({1}, {2})}).find("was given index"),
      std::string::npos);
  EXPECT_NE(
      program.failure({integers({2}, {1, -1}), table, integers({1}, {2})}).find("was given index"),
      std::string::npos);
  EXPECT_NE(program.failure({integers({2}, {1, 2}), table, integers({2}, {2, 1})}), "");
}

std::string refused(const std::vector<Array>& like, const std::function<Tensor(In)>& body) {
  return refusal(like, [&](Trace&, In x) { return std::vector{body(x)}; }, {1, 2, 3, 4, 5, 6, 7});
}

TEST(Embeddings, WhatDoesNotFit_IsRefused) {
  const std::vector<Array> x{random_f64(1, {4, 3}), numbers({5}, 4), numbers({2, 3}, 4),
                             Array::zeros(DType::I16, {2}), random_f64(1, {2, 3})};
  EXPECT_EQ(refused(x, [](In t) { return embedding(t[3], t[0]); }),
            "embedding: the index is i16[2], and has to be i64 or i32; cast first");
  EXPECT_EQ(refused(x, [](In t) { return embedding(t[1], t[1]); }),
            "embedding: takes a table [rows, width], not i64[5]");
  EXPECT_EQ(refused(x, [](In t) { return embedding(t[1], t[0], 4); }),
            "embedding: padding_idx 4 is no row of f64[4, 3]");
  EXPECT_EQ(refused(x, [](In t) { return embedding_bag(t[1], t[0]); }),
            "embedding_bag: an index of one dim needs offsets or lengths, and not both");
  EXPECT_EQ(refused(x, [](In t) { return embedding_bag(t[2], t[0], {.lengths = t[1]}); }),
            "embedding_bag: the rows of an index of two dims are the bags; leave offsets out");
  EXPECT_EQ(
      refused(x, [](In t) { return embedding_bag(t[2], t[0], {.per_sample_weights = t[4]}); }),
      "embedding_bag: per_sample_weights are for sums");
}

/// softmax(q k^T * scale + bias) v, bias of minus infinity where nothing is seen.
Array attention_by_loops(const Array& q, const Array& k, const Array& v, double scale,
                         const std::function<double(I row, I column)>& bias) {
  const I batch = q.sizes()[0], rows = q.sizes()[1], columns = k.sizes()[1], width = q.sizes()[2],
          wide = v.sizes()[2];
  Array out = Array::zeros(DType::F64, {batch, rows, wide});
  for (I b = 0; b < batch; ++b)
    for (I i = 0; i < rows; ++i) {
      double total = 0;
      std::vector<double> parts;
      for (I j = 0; j < columns; ++j) {
        double score = 0;
        for (I d = 0; d < width; ++d)
          score += q.at((b * rows + i) * width + d) * k.at((b * columns + j) * width + d);
        parts.push_back(std::exp(score * scale + bias(i, j)));
        total += parts.back();
      }
      for (I j = 0; j < columns && total > 0; ++j)
        for (I d = 0; d < wide; ++d) {
          const I at = (b * rows + i) * wide + d;
          out.set(at, out.at(at) + parts[static_cast<std::size_t>(j)] / total *
                                       v.at((b * columns + j) * wide + d));
        }
    }
  return out;
}

TEST(Attention, MaskedCausalAndFree_AsByLoops) {
  const double inf = std::numeric_limits<double>::infinity();
  TracedRun program(
      {random_f64(1, {2, 3, 4}), random_f64(1, {2, 5, 4}), random_f64(1, {2, 5, 6})},
      [&](Trace&, In x) {
        const auto attention = [&](AttentionOptions options) {
          return scaled_dot_product_attention(x[0], x[1], x[2], options);
        };
        const Sizes square{x[0].size(1), x[1].size(1)};
        const Tensor seen = iota(square, 1) < iota(square, 0);  // the first row sees nothing
        const Tensor masked = attention({.mask = seen});
        std::vector<Tensor> out{
            attention({}), attention({.is_causal = true, .scale = 0.3}), masked,
            attention({.mask = where(seen, cast(iota(square, 1), DType::F64) * 0.1, -inf)})};
        for (const Tensor& gradient : grad(sum(masked * masked), {x[0], x[1], x[2]}))
          out.push_back(gradient);
        return out;
      });
  for (const I n : {0, 1, 2, 5})
    for (const I m : {0, 1, 2, 5}) {
      const Array q = random_f64(2, {2, n, 4}), k = random_f64(3, {2, m, 4}),
                  v = random_f64(4, {2, m, 3});
      const auto before = [&](I i, I j) { return j < i ? 0.0 : -inf; };
      std::vector<Array> got = program.run({q, k, v});
      const std::vector<Array> expected{
          attention_by_loops(q, k, v, 0.5, [](I, I) { return 0.0; }),
          attention_by_loops(q, k, v, 0.3, [&](I i, I j) { return j <= i ? 0.0 : -inf; }),
          attention_by_loops(q, k, v, 0.5, before), attention_by_loops(q, k, v, 0.5, [&](I i, I j) {
            return before(i, j) + 0.1 * static_cast<double>(j);
          })};
      for (std::size_t o = expected.size(); o < got.size(); ++o)
        for (I i = 0; i < got[o].elements(); ++i) EXPECT_TRUE(std::isfinite(got[o].at(i)));
      got.resize(expected.size());
      EXPECT_TRUE(same(got, expected, 1e-11)) << n << " " << m;
    }
}

/// Rows first to first + count.
Array part_of(const Array& x, I first, I count) {
  std::vector<I> sizes = x.sizes();
  const I row = x.elements() / std::max<I>(1, sizes[0]);
  sizes[0] = count;
  Array out(x.dtype(), sizes);
  for (I i = 0; i < count * row; ++i) out.set(i, x.at(first * row + i));
  return out;
}

TEST(JaggedAttention, EachSegmentByItself_AsByLoops) {
  TracedRun program(
      {random_f64(1, {7, 4}), random_f64(1, {7, 4}), random_f64(1, {7, 6}), numbers({3}, 9)},
      [](Trace&, In x) {
        const Jagged query{x[0], x[3]};
        const auto attention = [&](JaggedAttentionOptions options) {
          return jagged_attention(query, x[1], x[2], options).values;
        };
        const Tensor causal = attention({.is_causal = true, .scale = 0.3});
        std::vector<Tensor> out{attention({}), causal, attention({.at_most = SymInt(9)})};
        // Two heads of equal width are two runs over columns of their own.
        const SymInt rows = x[0].size(0);
        const auto two = [&](const Tensor& t) { return reshape(cat({t, t}, 1), {rows, 2, -1}); };
        out.push_back(jagged_attention({two(x[0]), x[3]}, two(x[1]), two(x[2])).values);
        for (const Tensor& gradient : grad(sum(causal * causal), {x[0], x[1], x[2]}))
          out.push_back(gradient);
        return out;
      });
  for (const std::vector<double>& lengths :
       std::vector<std::vector<double>>{{}, {0}, {1}, {3, 0, 5}, {0, 0, 1, 1, 4}}) {
    const double total = std::accumulate(lengths.begin(), lengths.end(), 0.0);
    const I rows = static_cast<I>(total), segments = static_cast<I>(lengths.size());
    const Array q = random_f64(2, {rows, 4}), k = random_f64(3, {rows, 4}),
                v = random_f64(4, {rows, 3});
    Array free = Array::zeros(DType::F64, {rows, 3}), causal = free.clone(),
          heads = Array::zeros(DType::F64, {rows, 2, 3});
    I first = 0;
    for (const double length : lengths) {
      const I n = static_cast<I>(length);
      const auto batched = [&](const Array& x) {
        const Array some = part_of(x, first, n);
        return Array::of(
            DType::F64, {1, n, x.sizes()[1]},
            std::vector<double>(some.data_as<double>(), some.data_as<double>() + some.elements()));
      };
      const Array one =
          attention_by_loops(batched(q), batched(k), batched(v), 0.5, [](I, I) { return 0.0; });
      const Array other = attention_by_loops(batched(q), batched(k), batched(v), 0.3, [](I i, I j) {
        return j <= i ? 0.0 : -std::numeric_limits<double>::infinity();
      });
      for (I i = 0; i < n * 3; ++i) {
        free.set(first * 3 + i, one.at(i)), causal.set(first * 3 + i, other.at(i));
        for (const I head : {0, 1}) heads.set((first + i / 3) * 6 + head * 3 + i % 3, one.at(i));
      }
      first += n;
    }
    std::vector<Array> got =
        program.run({q, k, v, Array::of(DType::I64, {segments}, lengths)}, 1e-11);
    for (std::size_t o = 4; o < got.size(); ++o)
      for (I i = 0; i < got[o].elements(); ++i) EXPECT_TRUE(std::isfinite(got[o].at(i)));
    got.resize(4);
    EXPECT_TRUE(same(got, {free, causal, free, heads}, 1e-11)) << segments;
  }
}

TEST(RotaryEmbedding, PairsAreTurnedByTheirAngles) {
  TracedRun program({random_f64(1, {2, 3, 6}), numbers({3}, 100)}, [](Trace&, In x) {
    return std::vector{rotary_embedding(x[0], x[1]),
                       rotary_embedding(x[0], x[1], {.form = RotaryForm::Interleaved, .base = 50})};
  });
  for (const I n : {0, 1, 2, 5})
    for (const I half : {0, 1, 2, 5}) {
      const Array x = random_f64(2, {2, n, 2 * half}), places = numbers({n}, 1000);
      std::vector<Array> expected;
      for (const bool split : {true, false}) {
        Array out = Array::zeros(DType::F64, x.sizes());
        for (I row = 0; row < 2 * n; ++row)
          for (I i = 0; i < half; ++i) {
            const double angle =
                places.at(row % n) *
                std::pow(split ? 10000 : 50, -static_cast<double>(i) / static_cast<double>(half));
            const I first = row * 2 * half + (split ? i : 2 * i),
                    second = first + (split ? half : 1);
            out.set(first, x.at(first) * std::cos(angle) - x.at(second) * std::sin(angle));
            out.set(second, x.at(second) * std::cos(angle) + x.at(first) * std::sin(angle));
          }
        expected.push_back(out);
      }
      EXPECT_TRUE(same(program.run({x, places}), expected, 1e-11)) << n << " " << half;
    }
  const std::vector<Array> odd{random_f64(1, {2, 3}), numbers({2}, 4)};
  EXPECT_EQ(refused(odd, [](In t) { return rotary_embedding(t[0], t[1]); }),
            "rotary_embedding: the last dim has pairs, and 3 is odd");
  EXPECT_EQ(refused(odd, [](In t) { return rotary_embedding(t[0], t[0]); }),
            "rotary_embedding: takes x [.., L, D] and positions of fewer dims, not f64[2, 3] and "
            "f64[2, 3]");
}

}  // namespace
}  // namespace lockstep::worker::embedding_test
