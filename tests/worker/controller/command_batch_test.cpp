// Batches of commands on their way to thousands of workers: the job's own rounds over a simulated
// network.
#include <bit>
#include <deque>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <lockstep/collectives/simulated/simulated.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/worker/controller/workers/command_batch.h>

namespace lockstep::worker::command_batch_test {
namespace {

using collectives::BroadcastRound;
using collectives::VirtualNetwork;

/// A step of training with 32 parameters.
Command call(std::uint64_t number) {
  CallFrame out{FrameNumber{0}, number, Handle{1000 + 33 * number}, 33, 7, false, {}};
  for (std::uint64_t i = 0; i < 34; ++i)
    out.inputs.push_back({fmt::format("parameters[{}]", i), Kind::Tensor, Handle{33 * number + i},
                          i < 33, 0, {}});
  return out;
}

struct Spread {
  Duration time{0};
  std::uint64_t most_taken = 0;     // messages of one worker
  std::size_t bytes = 0;            // of the batch
};

/// `calls` from worker 0 to `workers`, each hop of which takes `hop`. All have them, whole.
Spread spread(int workers, int calls, Duration hop) {
  std::vector<Command> commands;
  std::vector<Bytes> bytes;
  for (int i = 0; i < calls; ++i) {
    commands.push_back(call(static_cast<std::uint64_t>(i)));
    bytes.push_back(encode(commands.back()));
  }
  VirtualNetwork network({.size = workers, .least_delay = hop, .most_delay = hop});
  std::deque<BroadcastRound> rounds;
  for (int w = 0; w < workers; ++w)
    rounds.emplace_back(Rank{w}, workers, Rank{0}, w == 0 ? encode_batch(bytes) : Bytes{});
  for (int w = 0; w < workers; ++w)
    network.communicator(Rank{w}).start(rounds[static_cast<std::size_t>(w)]);
  while (network.step()) {
  }
  Spread out;
  out.time = network.clock().now() - Instant{0};
  out.bytes = rounds[0].result().size();
  for (int w = 0; w < workers; ++w) {
    const auto told = decode_batch(rounds[static_cast<std::size_t>(w)].result());
    EXPECT_TRUE(told && *told == commands) << "worker " << w;
    out.most_taken = std::max(out.most_taken, network.traffic(Rank{w}).messages);
  }
  return out;
}

TEST(CommandBatch, OnFourThousandWorkers_ReachesAllInTwelveHops) {
  constexpr Duration kHop = std::chrono::microseconds(5);
  for (const int workers : {2, 3, 64, 1000, 4096}) {
    SCOPED_TRACE(workers);
    const int hops = std::bit_width(static_cast<unsigned>(workers - 1));
    const Spread one = spread(workers, 1, kHop);
    EXPECT_LE(one.time, hops * kHop);
    EXPECT_GE(one.time, (hops - 1) * kHop);
    EXPECT_EQ(one.most_taken, 1U);
    EXPECT_LE(one.bytes, 1200U) << "of 34 inputs";
  }
  // Calls that come together cost no hop more.
  const Spread many = spread(4096, 10, kHop);
  EXPECT_EQ(many.time, 12 * kHop);
  EXPECT_EQ(many.most_taken, 1U);
}

}  // namespace
}  // namespace lockstep::worker::command_batch_test
