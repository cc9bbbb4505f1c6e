// Indexing by tensors of indices, beside plain loops: interpreted, compiled for the host, and on an
// emulated device.
#include <cmath>
#include <optional>

#include "index_runs.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/bounded/dispatch.h>
#include <lockstep/worker/tensor/jagged/feature_exchange.h>
#include <lockstep/worker/tensor/jagged/padding.h>
#include <lockstep/worker/tensor/jagged/segments.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>
#include <lockstep/worker/tensor/layers/embeddings.h>
#include <lockstep/worker/tensor/layers/losses.h>

namespace lockstep::worker::index_test {
namespace {

using namespace index_runs;

Array gathered(const Array& x, std::size_t dim, const Array& index) {
  Array out(x.dtype(), index.sizes());
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    Numbers place = place_of(i, index.sizes());
    place[dim] = static_cast<std::int64_t>(index.at(i));
    out.set(i, x.at(offset_of(place, x.sizes())));
  }
  return out;
}

TEST(Index, Gather_TakesTheElementAtTheIndexAlongTheDim) {
  std::mt19937_64 random(1);
  const In index{DType::I64, std::vector<Dim>(3, dynamic(3, 0))};
  const Graph graph =
      must(traced_together({{DType::F64, std::vector<Dim>(3, dynamic(4, 0))}, index, index, index},
                           [](const std::vector<Tensor>& in) {
                             return std::vector{gather(in[0], 0, in[1]), gather(in[0], 1, in[2]),
                                                gather(in[0], -1, in[3])};
                           }));
  OnRanks ranks(graph, 1);
  for (const Numbers& sizes : {Numbers{4, 3, 5}, {1, 1, 1}, {2, 2, 2}, {5, 1, 2}})
    for (const std::int64_t less : {0, 1, 5}) {
      const Array x = random_array(random, DType::F64, sizes);
      std::vector<Array> given{x}, expected;
      for (std::size_t d = 0; d < 3; ++d) {
        Numbers index_sizes;
        for (const std::int64_t size : sizes)
          index_sizes.push_back(std::max<std::int64_t>(0, size - less));
        index_sizes[d] = 3;
        given.push_back(some_indices(random, index_sizes, sizes[d]));
        expected.push_back(gathered(x, d, given.back()));
      }
      expect_everywhere(ranks, given, expected);
    }
}

TEST(Index, Gather_OfANumberAndOfBools) {
  const Graph number =
      must(traced({{DType::F32, {}}, {DType::I64, {}}},
                  [](const std::vector<Tensor>& in) { return gather(in[0], 0, in[1]); }));
  OnRanks ranks(number, 1);
  const std::vector<double> value{2.5}, zero{0};
  expect_everywhere(ranks, {Array::of(DType::F32, {}, value), Array::of(DType::I64, {}, zero)},
                    Array::of(DType::F32, {}, value));
  const Graph bools =
      must(traced({{DType::Bool, {3}}, {DType::I64, {dynamic(2, 0)}}},
                  [](const std::vector<Tensor>& in) { return gather(in[0], 0, in[1]); }));
  OnRanks more(bools, 1);
  const std::vector<double> flags{1, 0, 0}, picked{0, 1, 0, 0};
  expect_everywhere(more, {Array::of(DType::Bool, {3}, flags), integers({4}, {2, 0, 1, 1})},
                    Array::of(DType::Bool, {4}, picked));
}

TEST(Index, Gather_OutOfRangeOnOneRank_IsTheSameErrorOnAll) {
  const Graph graph = must(traced(
      {{DType::F64, {dynamic(4, 0), dynamic(3, 0)}}, {DType::I64, {dynamic(4, 0), dynamic(2, 0)}}},
      [](const std::vector<Tensor>& in) { return gather(in[0], 1, in[1]); }));
  OnRanks ranks(graph, 3);
  std::mt19937_64 random(2);
  const Array x = random_array(random, DType::F64, {2, 3});
  for (const std::int64_t wrong : {3, -1}) {
    std::vector<Inputs> inputs(3, named({x, integers({2, 2}, {0, 1, 2, 0})}));
    inputs[1] = named({x, integers({2, 2}, {0, 1, wrong, 0})});
    const OnRanks::Run run = ranks.everywhere(inputs);
    for (const auto& outcome : run.ranks) {
      ASSERT_FALSE(outcome->has_value());
      EXPECT_NE(outcome->error().message.find(
                    "was given index " + std::to_string(wrong) +
                    " in element 2 of its index, but indices must be at least 0 and less than 3"),
                std::string::npos)
          << outcome->error().message;
      EXPECT_NE(outcome->error().message.find("gather at index_test.cpp:"), std::string::npos);
    }
  }
}

TEST(Index, Gather_OutOfRangeWhereOnlyTheGradientIsNeeded_IsAnError) {
  const Graph graph = must(traced({{DType::F64, {dynamic(4, 0), 3}}, {DType::I64, {2, 2}}},
                                  [](const std::vector<Tensor>& in) {
                                    return grad(sum(gather(in[0], 1, in[1])), {in[0]})[0];
                                  }));
  OnRanks ranks(graph, 1);
  const Array x = Array::zeros(DType::F64, {2, 3});
  const std::vector<double> counts{1, 0, 1, 0, 2, 0};
  expect_everywhere(ranks, {x, integers({2, 2}, {0, 2, 1, 1})},
                    Array::of(DType::F64, {2, 3}, counts));
  const OnRanks::Run run = ranks.everywhere({named({x, integers({2, 2}, {0, 3, 1, 1})})});
  ASSERT_FALSE(run.ranks[0]->has_value());
  EXPECT_NE(run.ranks[0]->error().message.find("gather at index_test.cpp:"), std::string::npos);
}

/// Of x [3, 3], indices [s0] and lengths [2] of i32 and of i64, in every way of running.
void expect_alike_of_both(const Bodies& body) {
  const auto outputs = [&](DType dtype) {
    OnRanks ranks(
        must(traced_together({{DType::F64, {3, 3}}, {dtype, {dynamic(2, 0)}}, {dtype, {2}}}, body)),
        1);
    const auto numbers = [&](const std::vector<double>& values) {
      Array out = Array::zeros(dtype, {2});
      for (std::int64_t i = 0; i < 2; ++i) out.set(i, values[static_cast<std::size_t>(i)]);
      return out;
    };
    Array x = Array::zeros(DType::F64, {3, 3});
    for (std::int64_t i = 0; i < 9; ++i) x.set(i, std::sin(static_cast<double>(i)));
    const OnRanks::Run run =
        ranks.everywhere({{{"a", x}, {"b", numbers({1, 0})}, {"c", numbers({1, 1})}}});
    EXPECT_TRUE(run.ranks[0]->has_value()) << run.ranks[0]->error().text();
    return run.ranks[0]->has_value() ? run.ranks[0]->value() : std::vector<Array>();
  };
  const std::vector<Array> narrow = outputs(DType::I32);
  EXPECT_FALSE(narrow.empty());
  EXPECT_TRUE(same(narrow, outputs(DType::I64), 0));
}

TEST(Index, NarrowIndices_AreAsGoodAsWideOnes) {
  const auto body = [](const std::vector<Tensor>& in) {
    const Tensor &x = in[0], &at = in[1], &counts = in[2];
    const Tensor rows = index_select(x, at);
    return std::vector{
        rows,
        index_select(x, 1, at),
        gather(x, 0, expand(unsqueeze(at, 1), {-1, 3})),
        take_along_dim(x, unsqueeze(at, 1), 0),
        scatter(x, 0, unsqueeze(at, 1), 7.0),
        scatter_add(x, 0, unsqueeze(at, 1), slice(rows, 1, 0, 1)),
        scatter_reduce(x, 0, unsqueeze(at, 1), slice(rows, 1, 1, 1), ScatterReduce::Amax),
        index_add(x, 0, at, rows),
        index_add(5, at, rows),
        index_copy(x, 0, at, rows),
        index_fill(x, 0, at, 4.0),
        x[{at, 1 - at}],
        x[at],
        index_put(x, {at}, 2.0, true),
        take(x, at),
        put(x, at, take(x, at) * 3.0),
        one_hot(at, 4, DType::F64),
        repeat_interleave(rows, counts, 0),
        segment_matmul(rows, expand(reshape(x, {1, 3, 3}), {2, 3, 3}), counts),
        embedding(at, x, 1),
        embedding_bag(at, x, {.lengths = counts}),
        embedding_bag(at, x, {.offsets = counts - 1}),
        cross_entropy(rows, at),
        nll_loss(rows, at)};
  };
  expect_alike_of_both(body);
}

TEST(Index, NarrowLengthsAndTargets_AreAsGoodAsWideOnes) {
  expect_alike_of_both([](const std::vector<Tensor>& in) {
    const Tensor &x = in[0], &at = in[1], &counts = in[2];
    const Jagged rows{index_select(x, at), counts};
    const Tensor padded = to_padded(rows, 2);
    const Tensor two = cast(stack({at, counts}, 0), counts.dtype());
    const KeyedJagged keyed{index_select(x, arange(*x.trace(), 3)), two};
    const Dispatched sent = dispatch(index_select(x, at), at, 3, at_most(2));
    std::vector<Tensor> out{offsets_of(counts),
                            lengths_of(counts - 1),
                            segment_of_rows(rows),
                            place_of_rows(rows),
                            segment_sum(rows),
                            segment_prod(rows),
                            segment_mean(rows),
                            segment_max(rows),
                            segment_softmax(rows).values,
                            segment_cumsum(rows).values,
                            padded,
                            to_padded(rows),
                            from_padded(padded, counts).values,
                            from_padded(padded, counts, rows.values.size(0)).lengths,
                            padding_mask(counts, 3),
                            x * longest(counts),
                            all_features(keyed).lengths,
                            feature_of_rows(keyed),
                            split_features(keyed)[1].values,
                            join_features({rows, rows}).lengths,
                            exchange_features(keyed, std::vector{Rank{0}, Rank{0}}).lengths,
                            sent.rows,
                            sent.counts,
                            combine(sent.rows, sent.place)};
    for (const Tensor& y : out)
      EXPECT_NE(y.dtype(), DType::I32) << "what is made of lengths is i64";
    return out;
  });
}

TEST(Index, Gather_WhatDoesNotFit_IsRefusedInOneSentence) {
  const auto words = [](const In& x, const In& index, std::int64_t dim) {
    return refusal(traced(
        {x, index}, [&](const std::vector<Tensor>& in) { return gather(in[0], dim, in[1]); }));
  };
  EXPECT_NE(words({DType::F64, {4}}, {DType::I16, {2}}, 0)
                .find("gather: takes i64 or i32 indices, not i16[2]; cast first"),
            std::string::npos);
  EXPECT_NE(words({DType::F64, {4, 3}}, {DType::I64, {2}}, 0)
                .find("gather: takes an index of as many dims as x, not i64[2] for f64[4, 3]"),
            std::string::npos);
  EXPECT_NE(words({DType::F64, {4, 3}}, {DType::I64, {4, 5}}, 0)
                .find("gather: the index is larger than x but along its dim (5 and 3)"),
            std::string::npos);
  EXPECT_NE(words({DType::F64, {4, 3}}, {DType::I64, {4, 3}}, 2)
                .find("gather: a tensor with 2 dims has no dim 2"),
            std::string::npos);
}

TEST(Index, Take_CountsFromTheEndWhereNegative) {
  const Graph graph =
      must(traced({{DType::F64, {dynamic(4, 0), dynamic(3, 0)}}, {DType::I64, {dynamic(4, 0), 2}}},
                  [](const std::vector<Tensor>& in) { return take(in[0], in[1]); }));
  OnRanks ranks(graph, 1);
  std::mt19937_64 random(3);
  const Array x = random_array(random, DType::F64, {2, 3});
  const Numbers at{0, -1, 5, -6, 3, 3};
  Array expected(DType::F64, {3, 2});
  for (std::size_t i = 0; i < at.size(); ++i)
    expected.set(static_cast<std::int64_t>(i), x.at(at[i] < 0 ? at[i] + 6 : at[i]));
  expect_everywhere(ranks, {x, integers({3, 2}, at)}, expected);
  expect_everywhere(ranks, {x, integers({0, 2}, {})}, Array(DType::F64, {0, 2}));
  for (const std::int64_t wrong : {6, -7}) {
    const OnRanks::Run run = ranks.everywhere({named({x, integers({1, 2}, {0, wrong})})});
    ASSERT_FALSE(run.ranks[0]->has_value());
    const std::string message = run.ranks[0]->error().message;
    EXPECT_NE(message.find("take at index_test.cpp:"), std::string::npos) << message;
    EXPECT_NE(message.find("was given index " + std::to_string(wrong) +
                           " in element 1 of its index, but indices must be at least -6 and less "
                           "than 6"),
              std::string::npos)
        << message;
  }
}

/// What `at`, per dim of x a tensor or nothing, takes; all tensors have the sizes of the first.
Array indexed(const Array& x, const std::vector<std::optional<Array>>& at) {
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < at.size(); ++d)
    if (at[d]) dims.push_back(d);
  const Numbers& batch = at[dims[0]]->sizes();
  const std::size_t front = dims.back() - dims[0] + 1 == dims.size() ? dims[0] : 0;
  Numbers sizes;
  for (std::size_t d = 0; d < x.sizes().size(); ++d) {
    if (sizes.size() == front) sizes.insert(sizes.end(), batch.begin(), batch.end());
    if (d >= at.size() || !at[d]) sizes.push_back(x.sizes()[d]);
  }
  if (sizes.size() == front) sizes.insert(sizes.end(), batch.begin(), batch.end());
  Array out(x.dtype(), sizes);
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    Numbers place = place_of(i, sizes);
    const auto from = place.begin() + static_cast<std::ptrdiff_t>(front);
    const Numbers which(from, from + static_cast<std::ptrdiff_t>(batch.size()));
    place.erase(from, from + static_cast<std::ptrdiff_t>(batch.size()));
    for (const std::size_t d : dims) {
      const auto index = static_cast<std::int64_t>(at[d]->at(offset_of(which, batch)));
      place.insert(place.begin() + static_cast<std::ptrdiff_t>(d),
                   index < 0 ? index + x.sizes()[d] : index);
    }
    out.set(i, x.at(offset_of(place, x.sizes())));
  }
  return out;
}

TEST(Index, SeveralTensors_StayInPlaceWhereAdjacentElseGoFirst) {
  std::mt19937_64 random(4);
  const In list{DType::I64, {dynamic(2, 0), 2}};
  // Which dims of four are indexed, by a bit each.
  const auto has = [](int which, std::size_t d) { return (which >> d & 1) == 1; };
  const Graph graph = must(
      traced_together({{DType::F64, std::vector<Dim>(4, dynamic(3, 0))}, list, list, list, list},
                      [&](const std::vector<Tensor>& in) {
                        std::vector<Tensor> results;
                        for (int which = 1; which < 16; ++which) {
                          std::vector<Index> at;
                          for (std::size_t d = 0; which >> d != 0; ++d)
                            at.push_back(has(which, d) ? Index(in[d + 1]) : Index());
                          results.push_back(index(in[0], at));
                        }
                        return results;
                      }));
  OnRanks ranks(graph, 1);
  for (const std::int64_t m : {0, 1, 3}) {
    const Numbers sizes{2, 3, 4, 5};
    std::vector<Array> given{random_array(random, DType::F64, sizes)}, expected;
    for (const std::int64_t size : sizes) {
      given.push_back(some_indices(random, {m, 2}, 2 * size));
      for (std::int64_t i = 0; i < 2 * m; ++i)
        given.back().set(i, given.back().at(i) - static_cast<double>(size));
    }
    for (int which = 1; which < 16; ++which) {
      std::vector<std::optional<Array>> at(4);
      for (std::size_t d = 0; d < 4; ++d)
        if (has(which, d)) at[d] = given[d + 1];
      expected.push_back(indexed(given[0], at));
    }
    expect_everywhere(ranks, given, expected);
  }
}

TEST(Index, Brackets_AreTheSame) {
  std::mt19937_64 random(6);
  const Graph graph = must(traced({{DType::F64, {4, 3}}, {DType::I64, {2}}, {DType::I64, {2, 1}}},
                                  [](const std::vector<Tensor>& in) {
                                    const Tensor grid = in[0][{in[2], in[1]}];
                                    const Tensor columns = in[0][in[1]][{{}, in[1]}];
                                    return cat({grid, columns, in[0][{in[1]}][{{}, in[1]}]}, 0);
                                  }));
  OnRanks ranks(graph, 1);
  const Array x = random_array(random, DType::F64, {4, 3});
  const Numbers at{1, 0}, rows{3, 2};  // rows: as -1 and 2
  Array expected(DType::F64, {6, 2});
  for (std::int64_t i = 0; i < 12; ++i) {
    const auto row = static_cast<std::size_t>(i / 2 % 2);
    expected.set(i, x.at((i < 4 ? rows[row] : at[row]) * 3 + at[static_cast<std::size_t>(i % 2)]));
  }
  expect_everywhere(ranks, {x, integers({2}, at), integers({2, 1}, {-1, 2})}, expected);
}

TEST(Index, MasksAmongIndices_StandForThePlacesOfWhatIsTrue) {
  const Graph graph = must(traced_together(
      {{DType::F64, {dynamic(4, 0), 3, 2}}, {DType::Bool, {dynamic(4, 0)}}, {DType::I64, {}}},
      [](const std::vector<Tensor>& in) {
        const std::vector<Index> at{in[1], {}, in[2]};
        return std::vector{index(in[0], at), index_put(in[0], at, 9.0),
                           in[0][{{}, select(in[0], 0, 0) > 0.0}]};
      }));
  OnRanks ranks(graph, 1);
  std::mt19937_64 random(7);
  Array x = random_array(random, DType::F64, {3, 3, 2});
  for (const std::int64_t i : {0, 1, 2, 3, 4, 5}) x.set(i, i == 1 || i == 4 ? 2.0 : -1.0);
  const std::vector<double> flags{1, 0, 1}, last{-1};
  Array rows(DType::F64, {2, 3}), put(DType::F64, {3, 3, 2}), chosen(DType::F64, {3, 2});
  for (std::int64_t i = 0; i < 18; ++i) put.set(i, i % 2 == 1 && i / 6 != 1 ? 9.0 : x.at(i));
  for (std::int64_t i = 0; i < 6; ++i) {
    rows.set(i, x.at(i / 3 * 12 + i % 3 * 2 + 1));
    chosen.set(i, x.at(i / 2 * 6 + (i % 2 == 0 ? 1 : 4)));
  }
  expect_everywhere(ranks, {x, Array::of(DType::Bool, {3}, flags), Array::of(DType::I64, {}, last)},
                    {rows, put, chosen});
}

TEST(Index, TakeAlongDim_BroadcastsAndCountsFromTheEnd) {
  std::mt19937_64 random(5);
  const Graph graph = must(
      traced({{DType::F32, {dynamic(3, 0), 1, 4}}, {DType::I64, {1, dynamic(2, 0), dynamic(5, 0)}}},
             [](const std::vector<Tensor>& in) { return take_along_dim(in[0], in[1], 2); }));
  OnRanks ranks(graph, 1);
  for (const std::int64_t n : {0, 1, 3})
    for (const std::int64_t m : {0, 2}) {
      const Array x = random_array(random, DType::F32, {n, 1, 4});
      Array at = some_indices(random, {1, m, 5}, 8);
      for (std::int64_t i = 0; i < at.elements(); ++i) at.set(i, at.at(i) - 4);
      Array expected(DType::F32, {n, m, 5});
      for (std::int64_t i = 0; i < expected.elements(); ++i)
        expected.set(
            i, x.at(i / (m * 5) * 4 + (static_cast<std::int64_t>(at.at(i % (m * 5))) + 4) % 4));
      expect_everywhere(ranks, {x, at}, expected);
    }
}

}  // namespace
}  // namespace lockstep::worker::index_test
