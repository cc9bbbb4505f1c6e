#include <random>

#include <gtest/gtest.h>

#include <lockstep/shapes/expr/dynamism.h>

namespace lockstep::shapes::dynamism_test {
namespace {

using Sizes = std::vector<std::int64_t>;

Dynamism tensor(const Sizes& sizes) { return Dynamism::of_tensor(sizes); }
Seen is(std::int64_t v) { return Seen::constant(v); }
const Seen any = Seen::dynamic();
SeenDims cells(std::vector<Seen> dims) { return {SeenDims::State::Tuple, std::move(dims)}; }
const SeenDims all_dynamic{SeenDims::State::Dynamic, {}};

TEST(Dynamism, BatchOfTwoSizes_MakesThatDimDynamic) {
  const auto joined = join(tensor({5, 10}), tensor({6, 10}));
  EXPECT_EQ(joined.size, cells({any, is(10)}));
  EXPECT_EQ(joined.smallest, (Sizes{5, 10}));
  EXPECT_TRUE(joined.size.dynamic(0));
  EXPECT_FALSE(joined.size.dynamic(1));
}

TEST(Dynamism, Vector_09_MergeOfSizeObservations) {
  EXPECT_EQ(join(tensor({4, 4}), tensor({4, 6})).size, cells({is(4), any}));
  EXPECT_EQ(join(tensor({4, 4}), tensor({4})).size, all_dynamic);
  EXPECT_EQ(join(Dynamism{}, tensor({4})), tensor({4}));
}

TEST(Dynamism, OtherNumberOfDims_IsDynamicAsAWholeAndKeepsTheSmallest) {
  const auto joined = join(tensor({4, 2}), tensor({3}));
  EXPECT_EQ(joined.size, all_dynamic);
  EXPECT_EQ(joined.smallest, (Sizes{3, 2}));
  EXPECT_EQ(join(joined, tensor({9, 1})).smallest, (Sizes{3, 1}));
}

TEST(Dynamism, EmptyAndNot_IsDynamic) {
  const auto joined = join(tensor({0, 4}), tensor({3, 4}));
  EXPECT_EQ(joined.size, cells({any, is(4)}));
  EXPECT_EQ(joined.smallest, (Sizes{0, 4}));
}

TEST(Dynamism, TensorAgainstInt_IsDynamicInEveryField) {
  const auto joined = join(tensor({10}), Dynamism::of_int(12));
  EXPECT_EQ(joined.scalar, any);
  EXPECT_EQ(joined.size, all_dynamic);
  EXPECT_EQ(joined.smallest, (Sizes{10}));
  EXPECT_TRUE(joined.size.dynamic(7));
}

TEST(Dynamism, Vector_08_TwoInts_AreDynamic) {
  EXPECT_EQ(join(Dynamism::of_int(3), Dynamism::of_int(3)), Dynamism::of_int(3));
  EXPECT_EQ(join(Dynamism::of_int(3), Dynamism::of_int(4)).scalar, any);
}

TEST(Dynamism, Unset_IsNotDynamic) { EXPECT_FALSE(Dynamism{}.size.dynamic(0)); }

Seen random_cell(std::mt19937_64& random) {
  const auto n = static_cast<std::int64_t>(random() % 3);
  switch (random() % 3) {
    case 0:
      return Seen::unset();
    case 1:
      return Seen::constant(n);
    default:
      return Seen::dynamic();
  }
}

SeenDims random_dims(std::mt19937_64& random) {
  const auto kind = random() % 6;
  if (kind == 0) return {};
  if (kind == 1) return all_dynamic;
  std::vector<Seen> dims(random() % 3);
  for (auto& cell : dims) cell = random_cell(random);
  return cells(std::move(dims));
}

Dynamism random_dynamism(std::mt19937_64& random) {
  if (random() % 3 == 0) {
    Sizes sizes(random() % 4);
    for (auto& size : sizes) size = static_cast<std::int64_t>(random() % 4);
    return tensor(sizes);
  }
  Dynamism out{random_cell(random), random_dims(random), Sizes(random() % 3)};
  for (auto& size : out.smallest) {
    size = random() % 4 == 0 ? INT64_MAX : static_cast<std::int64_t>(random() % 4);
  }
  return out;
}

TEST(Dynamism, Join_IsCommutativeAssociativeIdempotentWithBottom) {
  const std::uint64_t seed = 2026;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 100000; ++i) {
    const auto a = random_dynamism(random), b = random_dynamism(random),
               c = random_dynamism(random);
    ASSERT_EQ(join(a, b), join(b, a)) << "seed " << seed << ", triple " << i;
    ASSERT_EQ(join(join(a, b), c), join(a, join(b, c))) << "seed " << seed << ", triple " << i;
    ASSERT_EQ(join(a, a), a) << "seed " << seed << ", triple " << i;
    ASSERT_EQ(join(a, Dynamism{}), a) << "seed " << seed << ", triple " << i;
    // The join is above both: joining again changes nothing.
    ASSERT_EQ(join(join(a, b), b), join(a, b)) << "seed " << seed << ", triple " << i;
  }
}

}  // namespace
}  // namespace lockstep::shapes::dynamism_test
