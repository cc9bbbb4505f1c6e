// Remainders against enumeration.
#include <cstdio>
#include <random>

#include <gtest/gtest.h>

#include <lockstep/shapes/expr/modular_set.h>

namespace lockstep::shapes::modular_set_test {
namespace {

constexpr std::int64_t kWindow = 60;

ModularSet random_set(std::mt19937_64& random) {
  if (random() % 4 == 0) return ModularSet::of(static_cast<std::int64_t>(random() % 21) - 10);
  return ModularSet::of(static_cast<std::int64_t>(random() % 40),
                        1 + static_cast<std::int64_t>(random() % 12));
}

TEST(ModularSet, Arithmetic_HoldsEveryResult) {
  std::mt19937_64 random(77);
  for (int round = 0; round < 4000; ++round) {
    const ModularSet a = random_set(random), b = random_set(random);
    const ModularSet plus = a + b, times = a * b, either = unite(a, b);
    const auto both = intersect(a, b);
    for (std::int64_t x = -kWindow; x <= kWindow; ++x) {
      const bool in_one = a.contains(x) || b.contains(x);
      ASSERT_TRUE(!in_one || either.contains(x)) << "seed 77, round " << round << " at " << x;
      const bool in_both = a.contains(x) && b.contains(x);
      ASSERT_EQ(both && both->contains(x), in_both) << "seed 77, round " << round << " at " << x;
      if (!a.contains(x)) continue;
      for (std::int64_t y = -kWindow; y <= kWindow;
           y += 1 + static_cast<std::int64_t>(random() % 3)) {
        if (!b.contains(y)) continue;
        ASSERT_TRUE(plus.contains(x + y)) << "seed 77, round " << round;
        ASSERT_TRUE(times.contains(x * y)) << "seed 77, round " << round;
      }
    }
  }
}

TEST(ModularSet, Products_KeepCommonFactors) {
  EXPECT_EQ(ModularSet::of(0, 4) * ModularSet::of(0, 6), ModularSet::of(0, 24));
  EXPECT_EQ(ModularSet::of(2, 4) * ModularSet::of(3), ModularSet::of(6, 12));
  EXPECT_EQ(ModularSet::of(1, 3) + ModularSet::of(2, 6), ModularSet::of(0, 3));
}

TEST(ModularSet, NumbersPastTheLimit_AreOpenNotWrong) {
  const ModularSet huge = ModularSet::of(INT64_MAX);
  EXPECT_TRUE(huge.contains(INT64_MAX) && huge.contains(0));
  const ModularSet large = ModularSet::of(5, 2'000'000'011);
  EXPECT_EQ(large * ModularSet::of(0, 2), ModularSet::of(0, 2));
  EXPECT_EQ(intersect(large, ModularSet::of(4, 1'999'999'973)), large);
}

}  // namespace
}  // namespace lockstep::shapes::modular_set_test
