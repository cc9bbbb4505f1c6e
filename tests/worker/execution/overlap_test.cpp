// Collectives between devices while kernels run: values, memory and failures are as without, and
// what needs no result of a collective does not wait for it. The emulated device delivers results
// as late as it may and refuses memory that both streams use in no order.
#include "graph_builder.h"
#include "on_ranks.h"
#include "random_exchange.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/device/device_pool.h>

namespace lockstep::worker::overlap_test {
namespace {

using shapes::Expr;
using Way = OnRanks::Way;

TEST(Overlap, RandomExchanges_AreAsInterpreted) {
  int overlaps = 0;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const int ranks = 1 + static_cast<int>(seed % 4);
    const RandomExchange exchange(seed, ranks);
    OnRanks on_ranks(exchange.graph(), ranks);
    (void)on_ranks.everywhere(exchange.inputs());
    overlaps += on_ranks.on_devices(exchange.inputs(), Way::Direct).overlaps;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(overlaps, 40);
}

/// A sum over all ranks beside `chain` sums along the vector; their end needs both.
Graph beside_graph(int chain) {
  GraphBuilder g("beside");
  const NodeId x = g.input("x", DType::F64, {Expr(64)});
  NodeId y = g.op(Op::Tanh, {x});
  const NodeId all = g.collective(Op::AllReduce, y, 0);
  for (int k = 0; k < chain; ++k) y = g.op(Op::Cumsum, {y});
  g.output(g.op(Op::Add, {y, all}));
  return g.take();
}

TEST(Overlap, KernelsThatNeedNoResult_RunMeanwhile) {
  constexpr int kRanks = 2, kChain = 3;
  OnRanks ranks(beside_graph(kChain), kRanks);
  std::vector<Inputs> inputs(kRanks);
  for (Inputs& one : inputs) one["x"] = Array::of(DType::F64, {64}, std::vector<double>(64, 0.5));
  // On each rank: the chain one by one, or its recording. What needs the result has waited for it.
  EXPECT_EQ(ranks.on_devices(inputs, Way::Staged).overlaps, 0);
  EXPECT_EQ(ranks.on_devices(inputs, Way::Direct).overlaps,
            kRanks * kChain);  // so short a scan is one kernel
}

TEST(Overlap, MemoryUnderWay_IsTakenBackBeforeThereIsTooLittle) {
  for (std::uint64_t seed : {3, 7}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const RandomExchange exchange(seed, 1);
    OnRanks alone(exchange.graph(), 1);
    const auto least = [&](Way way) {
      constexpr std::size_t kMost = 1 << 16;
      std::size_t capacity = 0;
      const auto runs = [&] {
        const auto run = alone.on_devices(exchange.inputs(), way, [&](int, EmulatedDevice& device) {
          device.set_capacity(capacity);
        });
        return run.ranks[0]->has_value();
      };
      while (capacity < kMost && !runs()) capacity += DevicePool::kGrain;
      EXPECT_LT(capacity, kMost);
      return capacity;
    };
    EXPECT_EQ(least(Way::Direct), least(Way::Staged));
  }
}

TEST(Overlap, AnyCallThatFails_IsOneErrorAndLeavesNothing) {
  const RandomExchange exchange(5, 1);
  const auto built = build_emulated(generate(exchange.graph(), Target::Cuda).value()).value();
  const SystemClock clock;
  const auto inputs = exchange.inputs();
  int told = 0;
  for (int n = 0, calls = 1; n <= calls; ++n) {
    SCOPED_TRACE(testing::Message() << "call " << n);
    run_alone([&](collectives::Communicator& communicator, RunHost& host) {
      const auto device = std::make_shared<EmulatedDevice>();
      auto executable = Executable::load(built.program, built.units, clock, device).value();
      HostWithData with_data(host, communicator, *device);
      const int before = device->calls();
      // The first time none does.
      if (n > 0) device->fail_call(n - 1);
      const auto got = executable->run(inputs[0], communicator, with_data);
      if (n == 0) calls = device->calls() - before;
      if (got.has_error()) {
        ++told;
        EXPECT_EQ(got.error().code, Code::Environment);
        EXPECT_TRUE(
            got.error().message.ends_with(" failed on rank 1's emulated device: as it was told to"))
            << got.error().message;
        EXPECT_EQ(device->live_bytes(), 0U);
      }
      EXPECT_EQ(device->events(), 0U);
      EXPECT_EQ(device->disorder(), "");
    });
  }
  EXPECT_GT(told, 40);
}

}  // namespace
}  // namespace lockstep::worker::overlap_test
