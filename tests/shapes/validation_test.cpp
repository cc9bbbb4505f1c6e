// What an environment was asked against what it emits.
#include <gtest/gtest.h>

#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {
namespace {

constexpr Range kSize{2, Range::kMax}, kCount{0, Range::kMax};

TEST(Asked, WhatTheProgramReliesOn_IsLoggedAsAsked) {
  ShapeEnv env;
  const Expr x = env.backed("x.size(0)", 6, kSize), u = env.unbacked("n.item()", kCount, {"t", 1});
  EXPECT_FALSE(env.evaluate(equal(x, 5), {"t", 2}));
  EXPECT_TRUE(env.evaluate(not_equal(2 * x, 10), {"t", 3}));  // proven
  env.check(less(u, x), {"t", 4});
  env.check(less_equal(u, x), {"t", 5});  // proven
  EXPECT_EQ(env.to_int(x + 1, {"t", 6}), 7);
  EXPECT_TRUE(env.evaluate_or(equal(u, 3), true, {"t", 7}));  // open: the fallback
  EXPECT_THROW((void)env.evaluate(equal(u, 3), {"t", 8}), DataDependentError);
  EXPECT_TRUE(env.statically_true(less(u, x)));
  std::vector<std::string> log;
  for (const auto& asked : env.asked()) {
    log.push_back(asked.where.text() + " " + asked.predicate.text() + (asked.answer ? "" : " not"));
  }
  EXPECT_EQ(log, (std::vector<std::string>{"t:2 s0 == 5 not", "t:3 s0 != 5", "t:4 s0 > u0",
                                           "t:5 s0 >= u0", "t:6 s0 == 6"}));
  EXPECT_EQ(env.record({false, 0}).range, Range::of(6));
  EXPECT_EQ(env.record({false, 0}).declared, kSize);
}

}  // namespace
}  // namespace lockstep::shapes
