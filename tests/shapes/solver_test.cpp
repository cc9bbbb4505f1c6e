// The solver itself; built only where there is one.
#include <string>

#include <gtest/gtest.h>

#include "validation/solver.h"

namespace lockstep::shapes::solver_test {
namespace {

TEST(Solver, Limit_IsCountedInSteps) {
  const std::string hard =
      "(declare-const a Int)(declare-const b Int)(declare-const c Int)"
      "(assert (and (< 1 a 1000) (< 1 b 1000) (< 1 c 1000)))"
      "(assert (= (+ (* a a a) (* b b b)) (* c c c)))";
  const auto answer = solve(hard, 10'000);
  EXPECT_EQ(answer.outcome, SolverAnswer::Outcome::Unknown);
  EXPECT_EQ(solve("(declare-const s0 Int)(assert (= (* 2 s0) (- 14)))", 10'000).model.at("s0"), -7);
  EXPECT_EQ(solve("(assert", 10'000).outcome, SolverAnswer::Outcome::Unknown);
}

}  // namespace
}  // namespace lockstep::shapes::solver_test
