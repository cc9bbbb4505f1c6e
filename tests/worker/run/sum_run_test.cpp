// Which dims are the run of a sum, and the order of its terms.
#include <gtest/gtest.h>

#include <lockstep/worker/compile/sums/sum_order.h>

namespace lockstep::worker::sum_run_test {
namespace {

using I = std::int64_t;

TEST(SumRun, ReducedNeighbours_TheInnermostOfThem) {
  const auto run = [](std::vector<I> reduced) {
    const SumRun out = sum_run(3, reduced);
    return std::tuple(out.first, out.last, out.rows);
  };
  EXPECT_EQ(run({1, 2}), std::tuple(1, 3, true));
  EXPECT_EQ(run({0, 2}), std::tuple(2, 3, true));
  EXPECT_EQ(run({0, 1}), std::tuple(0, 2, false));
  EXPECT_EQ(run({1}), std::tuple(1, 2, false));
  EXPECT_EQ(run({}), std::tuple(0, 0, false));
}

struct Joined {
  template <class T>
  static constexpr T first = T(0);
  static void add(double& total, double term) { total += term; }
};

// One batch after another each of the last two would be lost beside 1e16.
TEST(SumOfTerms, Batches_AreJoinedPairwise) {
  SumOfTerms<Joined> terms;
  terms.add(1e16);
  for (I i = 1; i < kSumTerms; ++i) terms.add(0);
  for (I i = 0; i < 3 * kSumTerms; ++i) terms.add(1.0 / kSumTerms);
  EXPECT_EQ(terms.total(), 1e16 + 2);
}

}  // namespace
}  // namespace lockstep::worker::sum_run_test
