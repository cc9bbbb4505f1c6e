// Measuring and fitting: a model is found again from the times that it gives, and real rounds have
// times.
#include <random>

#include <gtest/gtest.h>

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/worker/simulator/cost/calibration.h>

namespace lockstep::worker::simulator::calibration_test {
namespace {

constexpr int kSources = 200;

/// What the model says of the groups that are measured.
Measured times_of(const NetworkModel& network) {
  Measured out{.groups = {}, .bytes = 90'000};
  for (const int ranks : {2, 3, 4, 8, 16})
    out.groups.push_back({ranks, predicted_vote_ns(network, ranks),
                          predicted_exchange_ns(network, ranks, kSources)});
  const TreeBytes both{.up = {90'000, 90'000}, .down = 90'000};
  NetworkModel free = network;
  free.join_bytes_per_us = free.read_bytes_per_us = 0;
  RankClocks clocks(free, 2);
  clocks.tree_join(both);
  out.round_trip_ns = clocks.latest();
  out.sources = kSources;
  out.join_bytes_per_us = network.join_bytes_per_us;
  out.cores = network.cores_per_host;
  return out;
}

bool near(std::int64_t a, std::int64_t b) { return std::abs(a - b) <= 5 + std::max(a, b) / 50; }

TEST(Calibration, TimesOfAModel_GiveThatModel) {
  std::mt19937_64 random(9);
  const auto up_to = [&](std::uint64_t most) { return static_cast<std::int64_t>(random() % most); };
  for (int i = 0; i < 50; ++i) {
    NetworkModel network{
        .name = {},
        .between = {},
        .within = {.latency_ns = 300 + up_to(30'000), .bytes_per_us = 500 + up_to(9000)},
        .ranks_per_host = INT32_MAX,
        .cores_per_host = 2,
        .join_bytes_per_us = 1000 + up_to(9000),
        .read_bytes_per_us = 300 + up_to(3000)};
    for (const std::int32_t ranks : {3, 4, 8, 16})
      network.crowds.push_back({ranks, 300 + up_to(90'000), 30 + up_to(3000)});
    const NetworkModel found = fitted(times_of(network));
    EXPECT_TRUE(near(found.within.latency_ns, network.within.latency_ns)) << i;
    EXPECT_TRUE(near(found.within.bytes_per_us, network.within.bytes_per_us)) << i;
    EXPECT_TRUE(near(found.read_bytes_per_us, network.read_bytes_per_us)) << i;
    EXPECT_EQ(found.within, found.between);
    EXPECT_EQ(found.crowds.size(), network.crowds.size());
    for (const int ranks : {2, 3, 5, 8, 11, 16, 40}) {
      EXPECT_TRUE(near(predicted_vote_ns(found, ranks), predicted_vote_ns(network, ranks)))
          << i << ", " << ranks << " ranks";
      EXPECT_TRUE(near(predicted_exchange_ns(found, ranks, kSources),
                       predicted_exchange_ns(network, ranks, kSources)))
          << i << ", " << ranks << " ranks";
    }
  }
}

TEST(Calibration, SenselessTimes_GiveAModelStill) {
  const NetworkModel found = fitted({.groups = {{2, 5000, 10}, {4, 10, 10}},
                                     .bytes = 96'000,
                                     .round_trip_ns = 10,
                                     .sources = kSources,
                                     .join_bytes_per_us = 1,
                                     .cores = 1});
  EXPECT_GE(found.within.latency_ns, 0);
  EXPECT_GE(found.within.bytes_per_us, 1);
  EXPECT_GE(found.read_bytes_per_us, 1);
  EXPECT_GE(found.crowds.at(0).latency_ns, 0);
  EXPECT_GE(found.crowds.at(0).read_bytes_per_us, 1);
}

TEST(Calibration, RealRounds_TakeTime) {
  const auto alone = collectives::fake_communicator(Rank{0}, 2).value();
  const Effort little{.batches = 3, .calls = 20};
  EXPECT_GT(*vote_ns(*alone, little), 0);
  EXPECT_GT(*round_trip_ns(*alone, 50'000, little), 0);
  EXPECT_GT(joined_per_us(50, little), 0);
}

}  // namespace
}  // namespace lockstep::worker::simulator::calibration_test
