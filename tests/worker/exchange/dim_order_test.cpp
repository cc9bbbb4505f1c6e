// Orders of dims against their definition, and their join.
#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/worker/agree/exchange/dim_order.h>

namespace lockstep::worker::dim_order_test {
namespace {

using Numbers = std::vector<std::int64_t>;
using Dims = std::vector<std::size_t>;

/// As the text has it, dim by dim.
Dims expected(const Numbers& sizes, const Numbers& strides) {
  Dims dims(sizes.size());
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  if (std::count(sizes.begin(), sizes.end(), 0) > 0) return dims;
  Dims sorted;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1) sorted.push_back(d);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  auto next = sorted.begin();
  for (std::size_t& dim : dims)
    if (sizes[dim] > 1) dim = *next++;
  return dims;
}

Dims places(std::int64_t order, std::size_t ndim) {
  const auto found = places_of(order, ndim);
  return found ? Dims(found->begin(), found->begin() + static_cast<std::ptrdiff_t>(ndim))
               : Dims{99};
}

/// All lists of `count` of these numbers.
std::vector<Numbers> lists(std::size_t count, const Numbers& of) {
  std::vector<Numbers> out{{}};
  for (; count > 0; --count) {
    std::vector<Numbers> longer;
    for (const Numbers& list : out)
      for (const std::int64_t number : of) {
        longer.push_back(list);
        longer.back().push_back(number);
      }
    out = std::move(longer);
  }
  return out;
}

TEST(DimOrder, EverySizeAndStride_UpToFourDims_IsAsSorted) {
  for (std::size_t ndim = 0; ndim <= 4; ++ndim)
    for (const Numbers& sizes : lists(ndim, {0, 1, 2, 7}))
      for (const Numbers& strides : lists(ndim, {0, 1, 2, 14}))
        ASSERT_EQ(places(dim_order(sizes, strides), ndim), expected(sizes, strides))
            << testing::PrintToString(sizes) << " by " << testing::PrintToString(strides);
}

TEST(DimOrder, EveryPermutation_HasACodeOfItsOwn_AndReadsBack) {
  for (std::size_t ndim = 0; ndim <= 6; ++ndim) {
    Dims order(ndim);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::set<std::int64_t> codes;
    std::size_t permutations = 0;
    do {
      Numbers sizes(ndim), strides(ndim);
      for (std::size_t d = 0; d < ndim; ++d) sizes[d] = static_cast<std::int64_t>(d) + 2;
      std::int64_t next = 1;
      for (std::size_t p = ndim; p-- > 0; next *= sizes[order[p]]) strides[order[p]] = next;
      const std::int64_t code = dim_order(sizes, strides);
      EXPECT_EQ(places(code, ndim), order);
      EXPECT_EQ(code == 0, std::is_sorted(order.begin(), order.end()));
      EXPECT_TRUE(is_joined_order(code, ndim));
      codes.insert(code);
      ++permutations;
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(codes.size(), permutations);
    EXPECT_EQ(codes.count(kMixedOrder) + codes.count(kNoOrder), 0U);
  }
}

TEST(DimOrder, Vector_05_ContiguousOfAnySize_IsOneOrder) {
  EXPECT_EQ(dim_order(Numbers{6, 4}, Numbers{4, 1}), 0);
  EXPECT_EQ(dim_order(Numbers{9, 5}, Numbers{5, 1}), 0);
  EXPECT_EQ(dim_order(Numbers{9, 5, 7}, Numbers{70, 14, 2}), 0) << "with room between elements";
  EXPECT_EQ(dim_order(Numbers{}, Numbers{}), 0);
}

TEST(DimOrder, DimOfOneElement_DiffersInNothing) {
  const Numbers last_inside{1, 28, 4};  // places 1, 2, 0 of (4, 7, x)
  EXPECT_EQ(dim_order(Numbers{4, 7, 9}, last_inside),
            dim_order(Numbers{4, 7, 9}, Numbers{1, 99, 5}));
  EXPECT_EQ(dim_order(Numbers{1, 4}, Numbers{1, 1}), dim_order(Numbers{5, 4}, Numbers{4, 1}));
  // Channels last, of a batch of one and of three.
  EXPECT_EQ(dim_order(Numbers{1, 3, 5, 6}, Numbers{3, 1, 18, 3}),
            dim_order(Numbers{3, 3, 5, 6}, Numbers{90, 1, 18, 3}));
}

TEST(DimOrder, SixteenDims_FillTheCode_AndMoreCountAsContiguous) {
  Numbers sizes(16, 2), strides(16);
  for (std::size_t d = 0; d < 16; ++d) strides[d] = std::int64_t{1} << d;
  const std::int64_t turned = dim_order(sizes, strides);
  EXPECT_EQ(turned, -1) << "each dim d at place 15 - d";
  EXPECT_EQ(places(turned, 16).front(), 15U);
  EXPECT_FALSE(places_of(turned, 15));
  sizes.push_back(2);
  strides.push_back(0);
  EXPECT_EQ(dim_order(sizes, strides), 0);
}

TEST(DimOrder, WordsThatAreNoOrder_AreRefused) {
  for (const std::int64_t word : {kMixedOrder, kNoOrder, INT64_MIN, INT64_MAX})
    EXPECT_FALSE(places_of(word, 16)) << word;
  const std::int64_t turned = dim_order(Numbers{2, 3}, Numbers{1, 2});
  EXPECT_TRUE(places_of(turned, 2));
  EXPECT_TRUE(places_of(turned, 3));
  EXPECT_FALSE(places_of(turned, 1));
  EXPECT_TRUE(is_joined_order(kMixedOrder, 2));
  EXPECT_FALSE(is_joined_order(kNoOrder, 2));
}

TEST(DimOrder, Join_IsAFunctionOfTheSetOfOrders) {
  std::vector<std::int64_t> words{kMixedOrder, kNoOrder};
  for (const Numbers& strides : lists(3, {1, 2, 3}))
    words.push_back(dim_order(Numbers{4, 4, 4}, strides));
  for (const std::int64_t a : words) {
    EXPECT_EQ(join_orders(a, a), a);
    EXPECT_EQ(join_orders(a, kNoOrder), a);
    EXPECT_EQ(join_orders(a, kMixedOrder), kMixedOrder);
    for (const std::int64_t b : words) {
      if (a != kNoOrder && b != kNoOrder) {
        EXPECT_EQ(join_orders(a, b), a == b ? a : kMixedOrder);
      }
      EXPECT_EQ(join_orders(a, b), join_orders(b, a));
      for (const std::int64_t c : words)
        ASSERT_EQ(join_orders(join_orders(a, b), c), join_orders(a, join_orders(b, c)));
    }
  }
}

}  // namespace
}  // namespace lockstep::worker::dim_order_test
