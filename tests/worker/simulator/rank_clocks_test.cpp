// The clocks of ranks against the rounds themselves: on the simulated network where every message
// takes the same time, and by a driver of rounds that prices every message by itself.
#include <functional>
#include <memory>
#include <random>

#include "priced_rounds.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/simulated/simulated.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>
#include <lockstep/worker/simulator/cost/rank_clocks.h>

namespace lockstep::worker::simulator::rank_clocks_test {
namespace {

using collectives::BroadcastRound;
using collectives::Round;
using collectives::TreeRound;
using collectives::VirtualNetwork;
using collectives::VoteRound;

enum class Kind { Vote, Exchange, Broadcast };
struct Step {
  Kind kind = Kind::Vote;
  Rank root{};
  std::vector<std::size_t> lengths{};  // of the ranks' payloads
};

Bytes longer(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  const auto& longest = lower.size() > higher.size() ? lower : higher;
  Bytes out(longest.begin(), longest.end());
  if (lower.size() != higher.size()) out.emplace_back();
  return out;
}

std::unique_ptr<Round> round_of(const Step& step, Rank self, int size) {
  const Bytes mine(step.lengths[static_cast<std::size_t>(self.value)]);
  switch (step.kind) {
    case Kind::Vote:
      return std::make_unique<VoteRound>(self, size, collectives::Vote{});
    case Kind::Exchange:
      return std::make_unique<TreeRound>(self, size, mine, longer);
    default:
      return std::make_unique<BroadcastRound>(self, size, step.root, mine);
  }
}

struct Case {
  std::vector<std::int64_t> arrivals;
  std::vector<Step> steps;
};

Case random_case(std::mt19937_64& random, int size) {
  Case out;
  const std::uint64_t ragged = random() % 3 == 0 ? 1 : 1 + random() % 100'000;
  for (int r = 0; r < size; ++r)
    out.arrivals.push_back(static_cast<std::int64_t>(random() % ragged));
  for (std::size_t n = 1 + random() % 4; n > 0; --n) {
    Step step{.kind = static_cast<Kind>(random() % 3)};
    step.root = Rank{static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(size))};
    for (int r = 0; r < size; ++r) step.lengths.push_back(random() % 5000);
    out.steps.push_back(std::move(step));
  }
  return out;
}

std::uint64_t joined(const Step& step, std::int32_t low, std::int32_t high, TreeBytes& out) {
  if (low > high) return 0;
  const std::int32_t head = low + (high - low) / 2;
  Bytes all(step.lengths[static_cast<std::size_t>(head)]);
  if (low < head) all = longer(Bytes(joined(step, low, head - 1, out)), all);
  if (head < high) all = longer(all, Bytes(joined(step, head + 1, high, out)));
  out.up[static_cast<std::size_t>(head)] = static_cast<std::uint32_t>(all.size());
  return all.size();
}

std::vector<std::int64_t> by_clocks(const Case& of, const NetworkModel& network) {
  const auto size = static_cast<std::int32_t>(of.arrivals.size());
  RankClocks clocks(network, size);
  std::copy(of.arrivals.begin(), of.arrivals.end(), clocks.now().begin());
  for (const Step& step : of.steps) {
    TreeBytes bytes{.up = std::vector<std::uint32_t>(of.arrivals.size()), .down = 0};
    switch (step.kind) {
      case Kind::Vote:
        clocks.vote();
        break;
      case Kind::Exchange:
        bytes.down = joined(step, 0, size - 1, bytes);
        clocks.tree_join(bytes);
        break;
      case Kind::Broadcast:
        clocks.broadcast(step.root, step.lengths[static_cast<std::size_t>(step.root.value)]);
    }
  }
  return {clocks.now().begin(), clocks.now().end()};
}

/// Every message takes `delay`.
std::vector<std::int64_t> on_network(const Case& of, std::int64_t delay) {
  const auto size = static_cast<std::int32_t>(of.arrivals.size());
  VirtualNetwork network(
      {.size = size, .least_delay = Duration(delay), .most_delay = Duration(delay)});
  std::vector<std::int64_t> ends(of.arrivals.size());
  std::vector<std::size_t> at(of.arrivals.size(), 0);
  std::vector<std::unique_ptr<Round>> rounds(of.arrivals.size());
  const auto next = [&](std::int32_t r) {
    const auto i = static_cast<std::size_t>(r);
    if (at[i] == of.steps.size()) {
      ends[i] = network.clock().now().count();
      return;
    }
    rounds[i] = round_of(of.steps[at[i]++], Rank{r}, size);
    network.communicator(Rank{r}).start(*rounds[i]);
  };
  for (std::int32_t r = 0; r < size; ++r)
    network.call_at(Instant(of.arrivals[static_cast<std::size_t>(r)]), [&next, r] { next(r); });
  do {
    for (auto ended = network.take_ended(); !ended.empty(); ended = network.take_ended())
      for (const Rank rank : ended) next(rank.value);
  } while (network.step());
  return ends;
}

TEST(RankClocks, FixedDelays_GiveTheTimesOfTheSimulatedNetwork) {
  std::mt19937_64 random(5);
  for (int size = 1; size <= 33; ++size)
    for (int i = 0; i < 6; ++i) {
      const Case of = random_case(random, size);
      const auto delay = static_cast<std::int64_t>(1 + random() % 30'000);
      const NetworkModel network{
          .name = "fixed", .between = {.latency_ns = delay, .bytes_per_us = 0}, .within = {}};
      ASSERT_EQ(by_clocks(of, network), on_network(of, delay)) << size << " ranks, case " << i;
    }
}

TEST(RankClocks, PricedMessages_GiveTheTimesOfTheRoundsThemselves) {
  std::mt19937_64 random(6);
  const auto up_to = [&](std::uint64_t most) { return static_cast<std::int64_t>(random() % most); };
  for (int size = 1; size <= 33; ++size)
    for (int i = 0; i < 12; ++i) {
      const Case of = random_case(random, size);
      const NetworkModel network{
          .name = "random",
          .between = {.latency_ns = up_to(5000), .bytes_per_us = up_to(3000)},
          .within = {.latency_ns = up_to(500), .bytes_per_us = up_to(9000)},
          .ranks_per_host = static_cast<std::int32_t>(1 + up_to(40)),
          .cores_per_host = static_cast<std::int32_t>(up_to(5)),
          .join_bytes_per_us = up_to(9000),
          .read_bytes_per_us = up_to(3000),
          .crowds = {{6, up_to(9000), 1 + up_to(900)}, {20, up_to(9000), 1 + up_to(900)}}};
      PricedRounds rounds(network, of.arrivals);
      for (const Step& step : of.steps) {
        std::vector<std::unique_ptr<Round>> all;
        for (std::int32_t r = 0; r < size; ++r) all.push_back(round_of(step, Rank{r}, size));
        rounds.run(all, step.kind == Kind::Exchange);
      }
      ASSERT_EQ(by_clocks(of, network), rounds.now()) << size << " ranks, case " << i;
    }
}

TEST(RankClocks, AVoteOfManyRanks_TakesALatencyPerHop) {
  const auto rdma = parse_network("rdma", "");
  ASSERT_TRUE(rdma);
  RankClocks clocks(*rdma, 131'072);
  clocks.vote();
  EXPECT_EQ(clocks.latest(), 17 * (1500 + 6));
}

}  // namespace
}  // namespace lockstep::worker::simulator::rank_clocks_test
