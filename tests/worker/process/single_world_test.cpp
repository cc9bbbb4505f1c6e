// A build without MPI: a job of one process, with everything that a job has.
#include <cstdlib>
#include <stdexcept>

#include <gtest/gtest.h>

#include <lockstep/worker/job.h>

namespace lockstep::worker::single_world_test {
namespace {

struct Rows {
  Tensor x, counts;
  template <class V>
  void fields(V& v) {
    v("x", x), v("counts", counts);
  }
};

struct Total {
  Tensor y;
  template <class V>
  void fields(V& v) {
    v("y", y);
  }
};

Settings quiet() {
  Settings settings;
  settings.log = {"off"};
  settings.cache_dir = TEST_CACHE;
  return settings;
}

Result<std::unique_ptr<Job>> start() {
  return Job::init(nullptr, nullptr, {.settings = quiet(), .summary = false});
}

Rows rows(std::int64_t n, std::int64_t counted) {
  Array x(DType::F64, {n}), counts(DType::I64, {1});
  for (std::int64_t i = 0; i < n; ++i) x.set(i, 2);
  *counts.data_as<std::int64_t>() = counted;
  return {x, counts};
}

/// Every collective, the sizes of one of them from data.
Total everything(const Rows& in, const Group& group) {
  const Sizes to = tolist(in.counts, Values::NonNegative);
  const Sizes from = tolist(all_to_all_single(in.counts), Values::NonNegative);
  const Tensor there = all_to_all_single(in.x, from, to);
  const Tensor mine = reshape(sum(there), {1});
  return {all_reduce(sum(all_gather(mine)) + sum(reduce_scatter(broadcast(mine, Rank{0})))) +
          all_reduce(sum(in.x), collectives::Reduce::Sum, group)};
}

TEST(SingleWorld, JobOfOneProcess_HasEveryCollectiveAndRound) {
  auto made = start();
  ASSERT_TRUE(made) << made.error().text();
  Job& job = **made;
  EXPECT_EQ(job.size(), 1);
  const auto group = job.group("all of one", RankSet::of(Rank{0}));
  ASSERT_TRUE(group) << group.error().text();
  bool throws = false;
  auto step = job.frame<Rows, Total>("step", [&](const Rows& in) {
    if (throws) throw std::runtime_error("no more data");
    return everything(in, *group);
  });
  step.prefetch(rows(3, 3));
  for (std::int64_t n = 3; n < 6; ++n) {
    step.prefetch(rows(n + 1, n + 1));
    const auto out = step(rows(n, n));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(out->y.array().at(0), 6.0 * static_cast<double>(n));
  }
  const auto refused = step(rows(6, 5));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::RuntimeAssert) << refused.error().text();
  throws = true;
  auto other = job.frame<Rows, Total>("other", [&](const Rows& in) -> Total {
    if (throws) throw std::runtime_error("no more data");
    return {in.x};
  });
  const auto thrown = other(rows(2, 2));
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().code, Code::TraceError) << thrown.error().text();
  throws = false;
  EXPECT_TRUE(other(rows(2, 2)));
  EXPECT_TRUE(job.settle());
  EXPECT_TRUE(job.more(true).value());
  EXPECT_FALSE(job.more(false).value());
  EXPECT_TRUE(job.resync());
  EXPECT_TRUE(step(rows(4, 4)));
  EXPECT_TRUE(job.finish());
}

TEST(SingleWorld, OneProcessOfALauncher_IsAJobOfOne) {
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_TRUE(start());
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
}

TEST(SingleWorld, CommunicatorOfMpi_IsRefused) {
  const auto made = Job::attach(0, {.settings = quiet(), .summary = false});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::Environment);
  EXPECT_NE(made.error().message.find("LOCKSTEP_WITH_MPI=ON"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::worker::single_world_test
