// The agreement over communicators: the driver on a simulated network, the library call on a fake.
#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/fake.h>
#include <lockstep/collectives/simulated.h>
#include <lockstep/worker/agreement.h>

namespace lockstep::worker {
namespace {

using collectives::NetworkOptions;
using collectives::VirtualNetwork;

CallHost plain_host() {
  CallHost host;
  host.trace = [](const Decision& decision) {
    TraceReport report;
    report.graph = decision.digest();
    return report;
  };
  host.compile = [] { return std::optional<Status>(); };
  return host;
}

/// Ranks that make calls over a simulated network.
class Job {
 public:
  explicit Job(const NetworkOptions& options)
      : network(options), frames(static_cast<std::size_t>(options.size), Frame("f")) {}

  std::vector<CallOutcome> call(const std::vector<Inputs>& inputs) {
    std::vector<std::unique_ptr<CallMachine>> machines;
    std::vector<std::unique_ptr<CallDriver>> drivers;
    const CallHost host = plain_host();
    for (std::size_t r = 0; r < frames.size(); ++r) {
      const Rank rank{static_cast<std::int32_t>(r)};
      RoundKey key;
      key.frame = "f";
      key.call = calls;
      machines.push_back(std::make_unique<CallMachine>(rank, network.size(), config, key, frames[r],
                                                       inputs[r].build()));
      drivers.push_back(std::make_unique<CallDriver>(network.communicator(rank), *machines[r], host,
                                                     network.clock()));
    }
    ++calls;
    std::vector<bool> over(frames.size());
    do {
      for (std::size_t r = 0; r < drivers.size(); ++r)
        if (!over[r]) over[r] = drivers[r]->poll();
    } while (network.step());
    std::vector<CallOutcome> out;
    for (std::size_t r = 0; r < drivers.size(); ++r) {
      if (static_cast<int>(r) == crashed) continue;
      EXPECT_TRUE(over[r]) << "rank " << r << " does not end";
      if (over[r]) out.push_back(drivers[r]->outcome());
    }
    return out;
  }

  VirtualNetwork network;
  std::vector<Frame> frames;
  DecisionConfig config;
  std::uint64_t calls = 0;
  int crashed = -1;
};

TEST(CallDriver, OnASimulatedNetwork_EndsAsTheFoldDoes_ForOneToNineRanks) {
  for (int size = 1; size <= 9; ++size) {
    SCOPED_TRACE(size);
    Job job({.size = size, .seed = static_cast<std::uint64_t>(size)});
    VirtualRanks folded(size);
    for (int call = 0; call < 6; ++call) {
      std::vector<Inputs> inputs;
      for (int r = 0; r < size; ++r)
        inputs.push_back(
            call == 4 && r == size - 1
                ? Inputs().tensor("x", {4, 4, 4})
                : Inputs().tensor("x", {1 + (r * call) % 7, 3}).integer("n", call / 3));
      const auto expected = folded.call(inputs);
      const auto outcomes = job.call(inputs);
      ASSERT_EQ(outcomes.size(), expected.size());
      for (std::size_t r = 0; r < outcomes.size(); ++r)
        EXPECT_EQ(outcome_text(outcomes[r]), outcome_text(expected[r])) << "call " << call;
    }
    for (int r = 0; r < size; ++r)
      EXPECT_EQ(job.frames[static_cast<std::size_t>(r)].digest(), folded.frame(0).digest());
  }
}

TEST(CallDriver, Payloads_AreAtMostFourPerExchange_AndOneVoteInTheSteadyState) {
  constexpr int kSize = 64;
  Job job({.size = kSize});
  const std::vector<Inputs> same(kSize, Inputs().tensor("x", {5, 3}));
  (void)job.call(same);
  std::vector<std::uint64_t> before;
  for (int r = 0; r < kSize; ++r) before.push_back(job.network.traffic({r}).messages);
  (void)job.call(same);
  for (int r = 0; r < kSize; ++r) {
    const auto traffic = job.network.traffic({r});
    EXPECT_LE(traffic.messages - before[static_cast<std::size_t>(r)], 6U);
  }
  // A miss that elects a hint donor: four votes, one exchange, one broadcast.
  std::vector<Inputs> jagged(kSize, Inputs().tensor("x", {6, 3}));
  jagged[0] = Inputs().tensor("x", {1, 3});
  for (int r = 0; r < kSize; ++r)
    before[static_cast<std::size_t>(r)] = job.network.traffic({r}).messages;
  EXPECT_EQ(outcome_text(job.call(jagged)[5]), "compiled 1");
  for (int r = 0; r < kSize; ++r)
    EXPECT_LE(job.network.traffic({r}).messages - before[static_cast<std::size_t>(r)], 4U * 6 + 4);
}

TEST(CallDriver, ALostRank_IsAnErrorOnEveryOther_AndNothingIsCommitted) {
  Job job({.size = 4});
  job.crashed = 2;
  job.network.crash({2}, Instant{0});
  const auto outcomes = job.call(std::vector<Inputs>(4, Inputs().tensor("x", {5})));
  ASSERT_EQ(outcomes.size(), 3U);
  for (const CallOutcome& outcome : outcomes)
    EXPECT_EQ(outcome.kind, CallOutcome::Kind::Error) << outcome_text(outcome);
  for (const Frame& frame : job.frames) EXPECT_TRUE(frame.entries.empty());
}

TEST(Agreement, LibraryCall_BuildsOnAMissOnly_AndReturnsTheDecision) {
  const auto group = collectives::fake_communicator({0}, 4);
  ASSERT_TRUE(group);
  const SystemClock clock;
  Agreement agreement(**group, "world", {}, clock);
  int built = 0;
  const Agreement::Build build = [&built](int entry, const Decision&) -> Result<Built> {
    EXPECT_EQ(entry, built++);
    return Built{};
  };
  const auto agree = [&](std::int64_t size) {
    return agreement.agree("step", Inputs().tensor("x", {size}).build(), build);
  };
  auto first = agree(5);
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_TRUE(first->is_new);
  EXPECT_EQ(decision_text(*first->decision), "x: f32[5]");
  EXPECT_FALSE(agree(5)->is_new);
  EXPECT_EQ(agree(6)->entry, 1);
  EXPECT_EQ(agree(7)->entry, 1);
  EXPECT_EQ(built, 2);
  EXPECT_EQ(agreement.times().votes, 3 + 1 + 3 + 1);
  EXPECT_EQ(agreement.times().exchanges, 2);
}

TEST(Agreement, LibraryCall_BuildFails_IsTheErrorAndTheNextCallWorks) {
  const auto group = collectives::fake_communicator({0}, 2);
  const SystemClock clock;
  Agreement agreement(**group, "world", {}, clock);
  bool works = false;
  const Agreement::Build build = [&works](int, const Decision&) -> Result<Built> {
    if (!works) return Status{Code::CompileError, "no compiler", {}, {}};
    return Built{};
  };
  const Observation seen = Inputs().tensor("x", {5}).build();
  const auto failed = agreement.agree("step", seen, build);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::CompileError);
  works = true;
  EXPECT_TRUE(agreement.agree("step", seen, build)->is_new);
}

}  // namespace
}  // namespace lockstep::worker
