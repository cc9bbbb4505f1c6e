// Jagged tensors against plain loops in double: segments, padding, features; values and gradients,
// interpreted and compiled, with symbolic sizes.
#include <cmath>
#include <limits>
#include <numeric>

#include "traced_run.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/jagged/padding.h>
#include <lockstep/worker/tensor/jagged/segments.h>

namespace lockstep::worker::segment_test {
namespace {

using test::random_f64;
using test::refusal;
using test::TracedRun;
using In = const std::vector<Tensor>&;
using I = std::int64_t;
using Lengths = std::vector<I>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Array ints(std::vector<I> sizes, const std::vector<I>& values) {
  Array out(DType::I64, std::move(sizes));
  std::copy(values.begin(), values.end(), out.data_as<I>());
  return out;
}
Array ints(const std::vector<I>& values) { return ints({static_cast<I>(values.size())}, values); }
Array floats(std::vector<I> sizes, const std::vector<double>& values) {
  return Array::of(DType::F64, std::move(sizes), values);
}
I total(const Lengths& lengths) { return std::accumulate(lengths.begin(), lengths.end(), I{0}); }

/// None, empty ones, one, and long ones.
const std::vector<Lengths>& all_lengths() {
  static const std::vector<Lengths> all{{},        {0},       {1},          {5},         {0, 0},
                                        {2, 0, 1}, {0, 3, 0}, {1, 1, 1, 1}, {5, 2, 0, 6}};
  return all;
}

/// Calls see(segment, first row, length).
template <class See>
void for_segments(const Lengths& lengths, See see) {
  I row = 0;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    see(static_cast<I>(s), row, lengths[s]);
    row += lengths[s];
  }
}

/// f64 [segments or rows, width], each element by `of(first row, length, column)` of its segment.
template <class Of>
Array by_segment(const Lengths& lengths, I width, Of of) {
  Array out = Array::zeros(DType::F64, {static_cast<I>(lengths.size()), width});
  for_segments(lengths, [&](I s, I row, I length) {
    for (I j = 0; j < width; ++j) out.set(s * width + j, of(row, length, j));
  });
  return out;
}

TEST(Segments, TotalsOfRows_AsByLoops) {
  TracedRun program({random_f64(1, {7, 3}), ints({2, 0, 5})}, [](Trace&, In x) {
    const Jagged rows{x[0], x[1]};
    return std::vector{segment_sum(rows), segment_mean(rows), segment_max(rows), segment_min(rows),
                       segment_norm(rows)};
  });
  for (const Lengths& lengths : all_lengths())
    for (const I width : {0, 1, 2, 5}) {
      const Array x = random_f64(3, {total(lengths), width});
      const auto reduced = [&](double start, auto join) {
        return by_segment(lengths, width, [&](I row, I length, I j) {
          double out = start;
          for (I i = row; i < row + length; ++i) out = join(out, x.at(i * width + j));
          return out;
        });
      };
      const Array sums = reduced(0, [](double a, double b) { return a + b; });
      const Array squares = reduced(0, [](double a, double b) { return a + b * b; });
      Array means = sums.clone(), norms = squares.clone();
      for (I i = 0; i < sums.elements(); ++i) {
        means.set(i,
                  sums.at(i) / static_cast<double>(lengths[static_cast<std::size_t>(i / width)]));
        norms.set(i, std::sqrt(squares.at(i)));
      }
      EXPECT_TRUE(
          same(program.run({x, ints(lengths)}),
               {sums, means, reduced(-kInfinity, [](double a, double b) { return std::max(a, b); }),
                reduced(kInfinity, [](double a, double b) { return std::min(a, b); }), norms},
               1e-12))
          << lengths.size() << " segments, width " << width;
    }
}

TEST(Segments, LargestAndSmallestInts_AlsoOfNoRows) {
  constexpr I kLowest = std::numeric_limits<I>::min(), kHighest = std::numeric_limits<I>::max();
  TracedRun program({ints({1, 2, 3}), ints({1, 2})}, [](Trace&, In x) {
    const Jagged rows{x[0], x[1]};
    return std::vector{segment_max(rows), segment_min(rows), segment_sum(rows)};
  });
  EXPECT_TRUE(same(program.run({ints({kLowest, -4, kHighest, 7}), ints({1, 0, 3})}),
                   {ints({kLowest, kLowest, kHighest}), ints({kLowest, kHighest, -4}),
                    ints({kLowest, 0, kLowest + 2})},
                   0));
}

TEST(Segments, GradientsOfTotals_EqualOnesShare) {
  TracedRun program({random_f64(1, {7}), ints({2, 0, 5}), random_f64(1, {3})}, [](Trace&, In x) {
    const Jagged rows{x[0], x[1]};
    std::vector<Tensor> out;
    // Of an empty segment nothing is said: its weight would make not-a-number of the mean.
    const Tensor real = x[1] > 0;
    for (const Tensor& y : {segment_sum(rows), segment_mean(rows), segment_max(rows),
                            segment_min(rows), segment_norm(rows)})
      out.push_back(grad(sum(where(real, y * x[2], 0.0)), {x[0]})[0]);
    return out;
  });
  const Array x = floats({7}, {3, 4, 9, 9, 1, 0, 0}), weight = floats({4}, {2, 5, 12, 7});
  EXPECT_TRUE(same(program.run({x, ints({2, 0, 3, 2}), weight}),
                   {floats({7}, {2, 2, 12, 12, 12, 7, 7}), floats({7}, {1, 1, 4, 4, 4, 3.5, 3.5}),
                    floats({7}, {0, 2, 6, 6, 0, 3.5, 3.5}), floats({7}, {2, 0, 0, 0, 12, 3.5, 3.5}),
                    floats({7}, {1.2, 1.6, 108 / std::sqrt(163.0), 108 / std::sqrt(163.0),
                                 12 / std::sqrt(163.0), 0, 0})},
                   1e-12));
}

TEST(Segments, SoftmaxAndScans_AsByLoops_NothingPassesFromOneSegmentToTheNext) {
  TracedRun program({random_f64(1, {7, 3}), ints({2, 0, 5})}, [](Trace&, In x) {
    const Jagged rows{x[0], x[1]};
    return std::vector{segment_softmax(rows).values, segment_cumsum(rows).values,
                       segment_of_rows(rows), place_of_rows(rows)};
  });
  for (const Lengths& lengths : all_lengths())
    for (const I width : {0, 1, 3}) {
      Array x = random_f64(5, {total(lengths), width});
      for (I i = 0; i < x.elements(); ++i) x.set(i, x.at(i) * 500);  // exp of these overflows
      if (x.elements() > 0) x.set(0, std::nan(""));
      Array softmaxes = x.clone(), sums = x.clone();
      std::vector<I> segment, place;
      for_segments(lengths, [&](I s, I row, I length) {
        for (I i = 0; i < length; ++i) segment.push_back(s), place.push_back(i);
        for (I j = 0; j < width; ++j) {
          double most = -kInfinity, powers = 0, sum = 0;
          for (I i = row; i < row + length; ++i) most = std::max(most, x.at(i * width + j));
          for (I i = row; i < row + length; ++i) powers += std::exp(x.at(i * width + j) - most);
          for (I i = row; i < row + length; ++i) {
            sums.set(i * width + j, sum += x.at(i * width + j));
            softmaxes.set(i * width + j, std::exp(x.at(i * width + j) - most) / powers);
          }
        }
      });
      EXPECT_TRUE(same(program.run({x, ints(lengths)}),
                       {softmaxes, sums, ints(segment), ints(place)}, 1e-12))
          << lengths.size() << " segments, width " << width;
    }
}

TEST(Segments, TotalsOfHalves_RoundOnce) {
  TracedRun program({random_f64(1, {7}), ints({2, 0, 5})}, [](Trace&, In x) {
    const Jagged halves{cast(x[0], DType::F16), x[1]};
    const Jagged ones{cast(x[0] * 0.0, DType::BF16), x[1]};
    return std::vector{cast(segment_mean(halves), DType::F64),
                       cast(segment_norm(halves), DType::F64),
                       cast(segment_softmax(ones).values, DType::F64)};
  });
  // The squares and the total of the second segment are beyond f16.
  Array x(DType::F64, {1002});
  for (I i = 0; i < x.elements(); ++i) x.set(i, i < 2 ? 1 : 625);
  const std::vector<Array> got = program.run({x, ints({2, 1000})});
  EXPECT_TRUE(same({got[0]}, {floats({2}, {1, 625})}, 0));
  EXPECT_TRUE(same({got[1]}, {floats({2}, {1.4140625, 19760})}, 0));
  EXPECT_EQ(got[2].at(0), 0.5);
  EXPECT_EQ(got[2].at(2), 0.00099945068359375) << "1/1000 in bf16";
}

TEST(Segments, LengthsAndOffsets_OneFromTheOther) {
  TracedRun program({ints({2, 0, 5})}, [](Trace&, In x) {
    return std::vector{offsets_of(x[0]), lengths_of(offsets_of(x[0]))};
  });
  for (const Lengths& lengths : all_lengths()) {
    std::vector<I> offsets{0};
    for (const I length : lengths) offsets.push_back(offsets.back() + length);
    EXPECT_TRUE(same(program.run({ints(lengths)}), {ints(offsets), ints(lengths)}, 0));
  }
}

TEST(Segments, OffsetsThatAreNone_AreOneSentence) {
  TracedRun program({ints({0, 2, 7})}, [](Trace&, In x) { return std::vector{lengths_of(x[0])}; });
  EXPECT_TRUE(same(program.run({ints({0})}), {ints(Lengths{})}, 0));
  EXPECT_TRUE(same(program.run({ints({0, 0, 3, 3})}), {ints({0, 3, 0})}, 0));
  const auto says = [&](const Lengths& offsets, const std::string& words) {
    const std::string text = program.failure({ints(offsets)});
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_NE(text.find("segment_test.cpp:"), std::string::npos) << text;
  };
  says({}, "lengths_of needs at least one offset");
  says({1, 2, 7}, "was given offsets of which the first is not 0");
  says({-3}, "was given offsets of which the first is not 0");
  says({0, 4, 2, 7},
       "was given offsets that change by -2 at element 2, but they must not decrease");
  says({0, 4, 4, 3}, "was given offsets that change by -1 at element 3");
}

TEST(Segments, LengthsThatDoNotFit_AreOneSentence) {
  TracedRun program({random_f64(1, {7}), ints({2, 0, 5})}, [](Trace&, In x) {
    return std::vector{segment_sum({x[0], x[1]})};
  });
  for (const Lengths& lengths : std::vector<Lengths>{{2, 3}, {9}, {-1, 7}, {}}) {
    const std::string text = program.failure({random_f64(1, {6}), ints(lengths)});
    EXPECT_NE(text.find("they must be at least 0 and add up to 6"), std::string::npos) << text;
    EXPECT_NE(text.find("segment_test.cpp:"), std::string::npos) << text;
  }
}

TEST(Segments, WrongOperands_AreRefusedWithTheReason) {
  const std::vector<Array> like{random_f64(1, {7}), ints({2, 0, 5}), ints({2, 1}, {3, 4})};
  const auto text = [&](Tensor (*op)(In)) {
    return refusal(like, [&](Trace&, In x) { return std::vector{op(x)}; });
  };
  EXPECT_NE(text([](In x) {
              return segment_sum({x[0], x[0]});
            }).find("takes i64 or i32 lengths of 1 dim"),
            std::string::npos);
  EXPECT_NE(text([](In x) {
              return segment_sum({x[0], x[2]});
            }).find("takes i64 or i32 lengths of 1 dim"),
            std::string::npos);
  EXPECT_NE(text([](In x) {
              return segment_sum({sum(x[0]), x[1]});
            }).find("have no rows"),
            std::string::npos);
  EXPECT_NE(text([](In x) {
              return segment_mean({x[1], x[1]});
            }).find("floating-point numbers"),
            std::string::npos);
  EXPECT_NE(
      text([](In x) { return from_padded(x[0], x[1]).values; }).find("[segments, length, ..]"),
      std::string::npos);
  EXPECT_NE(text([](In x) {
              return split_features({x[0], x[2]})[0].values;
            }).find("a number of the"),
            std::string::npos);
}

/// dense [S, size, width] with `fill` behind each segment.
Array padded_by_loops(const Array& x, const Lengths& lengths, I size, I width, double fill) {
  Array out(x.dtype(), {static_cast<I>(lengths.size()), size, width});
  for (I i = 0; i < out.elements(); ++i) out.set(i, fill);
  for_segments(lengths, [&](I s, I row, I length) {
    for (I i = 0; i < length * width; ++i) out.set(s * size * width + i, x.at(row * width + i));
  });
  return out;
}

TEST(Padding, ThereAndBack_WithGradients_ByTheLongestAndByABound) {
  TracedRun program({random_f64(1, {7, 3}), ints({2, 0, 5}), random_f64(1, {3, 9, 3})},
                    [](Trace&, In x) {
                      const Jagged rows{x[0], x[1]};
                      const SymInt bound = x[2].size(1);
                      const Tensor shortest = to_padded(rows), dense = to_padded(rows, bound, -1.5);
                      const Jagged back = from_padded(x[2], x[1], x[0].size(0));
                      return std::vector{shortest,
                                         dense,
                                         cast(padding_mask(x[1], bound), DType::I64),
                                         back.values,
                                         from_padded(shortest, x[1]).values,
                                         grad(sum(dense * x[2]), {x[0]})[0],
                                         grad(sum(to_padded(rows, bound) * x[2]), {x[0]})[0],
                                         grad(sum(back.values * x[0]), {x[2]})[0]};
                    });
  for (const Lengths& lengths : all_lengths())
    for (const I width : {0, 1, 3})
      for (const I more : {0, 2}) {
        const I most = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
        const I bound = most + more, segments = static_cast<I>(lengths.size());
        const Array x = random_f64(5, {total(lengths), width}),
                    y = random_f64(6, {segments, bound, width});
        std::vector<I> mask;
        Array back = x.clone();
        for_segments(lengths, [&](I s, I row, I length) {
          for (I i = 0; i < bound; ++i) mask.push_back(i < length ? 1 : 0);
          for (I i = 0; i < length * width; ++i)
            back.set(row * width + i, y.at(s * bound * width + i));
        });
        const Array zeros_behind = padded_by_loops(x, lengths, bound, width, 0);
        EXPECT_TRUE(same(program.run({x, ints(lengths), y}),
                         {padded_by_loops(x, lengths, most, width, 0),
                          padded_by_loops(x, lengths, bound, width, -1.5),
                          ints({segments, bound}, mask), back, x, back, back, zeros_behind},
                         1e-12))
            << lengths.size() << " segments, width " << width << ", bound " << bound;
      }
}

TEST(Padding, IntsAndBoolsAndHalfs_AreMovedAsTheyAre) {
  TracedRun program({ints({1, 2, 3}), ints({2, 1})}, [](Trace&, In x) {
    const auto there_and_back = [&](DType dtype) {
      const Tensor dense = to_padded({cast(x[0], dtype), x[1]}, 2);
      return cast(dense, DType::F64);
    };
    return std::vector{to_padded({x[0], x[1]}, 2, 7), there_and_back(DType::Bool),
                       there_and_back(DType::BF16)};
  });
  EXPECT_TRUE(same(
      program.run({ints({5, 0, 6}), ints({2, 1})}),
      {ints({2, 2}, {5, 0, 6, 7}), floats({2, 2}, {1, 0, 1, 0}), floats({2, 2}, {5, 0, 6, 0})}, 0));
}

TEST(Padding, SegmentLongerThanTheBound_IsOneSentence) {
  TracedRun program({random_f64(1, {7}), ints({2, 0, 5})}, [](Trace&, In x) {
    return std::vector{to_padded({x[0], x[1]}, 3)};
  });
  EXPECT_EQ(program.run({random_f64(1, {4}), ints({3, 1})})[0].elements(), 6);
  const std::string text = program.failure({random_f64(1, {6}), ints({2, 4})});
  EXPECT_NE(text.find("to_padded at "), std::string::npos) << text;
  EXPECT_NE(text.find("was given index 3"), std::string::npos) << text;
  EXPECT_NE(text.find("less than 3"), std::string::npos) << text;
}

TEST(Padding, LengthsOfMoreThanThereIs_AreOneSentence) {
  TracedRun program({random_f64(1, {3, 4}), ints({2, 0, 4})},
                    [](Trace&, In x) { return std::vector{from_padded(x[0], x[1]).values}; });
  EXPECT_EQ(program.run({random_f64(1, {2, 2}), ints({2, 1})})[0].elements(), 3);
  for (const Lengths& lengths : std::vector<Lengths>{{1'000'000'000'000'000, 1}, {3, 0}, {-1, 2}}) {
    const std::string text = program.failure({random_f64(1, {2, 2}), ints(lengths)});
    EXPECT_NE(text.find("segment_test.cpp:"), std::string::npos) << text;
  }
}

TEST(Padding, ALengthBeyondTheRows_IsOneSentence) {
  TracedRun program({random_f64(1, {7}), ints({2, 0, 5})}, [](Trace&, In x) {
    return std::vector{to_padded({x[0], x[1]})};
  });
  for (const I length : {I{1} << 40, I{1} << 62}) {
    const std::string text = program.failure({random_f64(1, {5}), ints({length, 0, 0, 0, 5})});
    EXPECT_NE(text.find("they must be at least 0 and add up to 5"), std::string::npos) << text;
  }
}

TEST(Padding, LengthsThatAreNone_AreOneSentence) {
  const std::vector<Array> like{random_f64(1, {3, 4}), ints({2, 0, 4}), ints({}, {2})};
  const auto with = [&](auto use) {
    return refusal(like, [&](Trace&, In x) { return std::vector{use(x)}; });
  };
  EXPECT_EQ(with([](In x) { return padding_mask(cast(x[1], DType::I16), 4); }),
            "padding_mask: takes i64 or i32 lengths of 1 dim, not i16[s2]");
  EXPECT_EQ(with([](In x) { return padding_mask(x[2], 4); }),
            "padding_mask: takes i64 or i32 lengths of 1 dim, not i64[]");
  EXPECT_EQ(with([](In x) { return from_padded(x[0], x[2]).values; }),
            "from_padded: takes i64 or i32 lengths of 1 dim, not i64[]");
  EXPECT_EQ(with([](In x) { return x[0] * longest(cast(x[1], DType::I16)); }),
            "longest: takes i64 or i32 lengths of 1 dim, not i16[s2]");
}

TEST(Features, None_AreNoParts) {
  TracedRun program({floats({0}, {}), ints({0, 4}, {}), random_f64(1, {3})},
                    [](Trace&, In x) {
                      EXPECT_TRUE(split_features({x[0], x[1]}).empty());
                      return std::vector{x[2] * 2.0};
                    },
                    {0});
  EXPECT_EQ(program.run({floats({0}, {}), ints({0, 2}, {}), floats({1}, {3})})[0].at(0), 6);
}

TEST(Features, ApartAndTogether_AlsoAbsentOnes) {
  TracedRun program({random_f64(1, {9, 2}), ints({3, 4}, {1, 1, 1, 1, 0, 0, 0, 0, 2, 1, 1, 1})},
                    [](Trace&, In x) {
                      const KeyedJagged all{x[0], x[1]};
                      const std::vector<Jagged> each = split_features(all);
                      const KeyedJagged turned = join_features({each[2], each[1], each[0]});
                      return std::vector{
                          each[0].values,
                          each[1].values,
                          each[2].values,
                          each[2].lengths,
                          turned.values,
                          turned.lengths,
                          feature_of_rows(all),
                          segment_sum(all_features(all)),
                          grad(sum(each[2].values * 3.0) + sum(each[0].values), {x[0]})[0]};
                    },
                    {3});
  for (const std::vector<I>& lengths : std::vector<std::vector<I>>{
           {1, 2, 0, 0, 3, 1}, {0, 0, 0, 0, 0, 0}, {0, 0, 4, 0, 0, 0}, {}}) {
    const I batch = static_cast<I>(lengths.size()) / 3, rows = total(lengths);
    const Array x = random_f64(7, {rows, 2});
    I count[3] = {0, 0, 0};
    std::vector<I> feature, turned_lengths, last;
    for (I f = 0; f < 3; ++f)
      for (I b = 0; b < batch; ++b) count[f] += lengths[static_cast<std::size_t>(f * batch + b)];
    for (I f = 0; f < 3; ++f) feature.insert(feature.end(), static_cast<std::size_t>(count[f]), f);
    for (const I f : {2, 1, 0})
      for (I b = 0; b < batch; ++b)
        turned_lengths.push_back(lengths[static_cast<std::size_t>(f * batch + b)]);
    for (I b = 0; b < batch; ++b) last.push_back(turned_lengths[static_cast<std::size_t>(b)]);
    const auto part = [&](I first, I length) {
      Array out(DType::F64, {length, 2});
      for (I i = 0; i < length * 2; ++i) out.set(i, x.at(first * 2 + i));
      return out;
    };
    const Array a = part(0, count[0]), b = part(count[0], count[1]),
                c = part(count[0] + count[1], count[2]);
    Array turned(DType::F64, {rows, 2}), slope(DType::F64, {rows, 2});
    I at = 0;
    for (const Array& each : {c, b, a})
      for (I i = 0; i < each.elements(); ++i) turned.set(at++, each.at(i));
    for (I i = 0; i < rows * 2; ++i)
      slope.set(i, i / 2 < count[0] ? 1 : i / 2 < count[0] + count[1] ? 0 : 3);
    Array sums = Array::zeros(DType::F64, {3 * batch, 2});
    for_segments(lengths, [&](I s, I row, I length) {
      for (I i = 0; i < length * 2; ++i)
        sums.set(s * 2 + i % 2, sums.at(s * 2 + i % 2) + x.at(row * 2 + i));
    });
    EXPECT_TRUE(same(
        program.run({x, ints({3, batch}, lengths)}),
        {a, b, c, ints(last), turned, ints({3, batch}, turned_lengths), ints(feature), sums, slope},
        1e-12));
  }
}

}  // namespace
}  // namespace lockstep::worker::segment_test
