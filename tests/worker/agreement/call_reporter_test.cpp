// What a coordinator is told of calls, between real processes.
#include <numeric>
#include <thread>

#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/agree/agreement/call_reporter.h>
#include <lockstep/worker/agreement.h>

namespace lockstep::worker::call_reporter_test {
namespace {

using namespace std::chrono_literals;
using coordinator::CallEvent;

class CallTelling : public testing::Test {
 protected:
  CallTelling() : group(std::move(collectives::mpi_communicator(nullptr, {}).value())) {
    agreement.driver().observe(reporter);
  }
  Result<Agreed> call(std::int64_t rows) {
    return agreement.agree("step", Inputs().tensor("x", {rows, 3}).build(), build);
  }
  std::unique_ptr<collectives::Communicator> group;
  std::shared_ptr<coordinator::Feed> feed = std::make_shared<coordinator::Feed>();
  CallReporter reporter{feed};
  Agreement agreement{*group, "world", {.recompile_limit = 2, .settle = false}};
  Agreement::Build build = [](int, const Decision& decision) -> Result<Built> {
    std::this_thread::sleep_for(5ms);
    return Built{decision.digest(), {}};
  };
};

TEST_F(CallTelling, CompiledCalls_SayWhyAndWhatTheyTook) {
  ASSERT_TRUE(call(5));
  ASSERT_TRUE(call(5));
  ASSERT_TRUE(call(7));
  const auto first = feed->take(), second = feed->take();
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(feed->take()) << "the call that ran what was there is counted only";
  EXPECT_EQ(first->frame, "step");
  EXPECT_EQ(first->group, "world");
  EXPECT_EQ(first->outcome, CallEvent::Outcome::Compiled);
  EXPECT_EQ(first->entry, 0);
  EXPECT_EQ(first->attempts, 1U);
  EXPECT_EQ(first->reason, "first call of the frame");
  EXPECT_EQ(first->decisions, "x: f32[5, 3]");
  EXPECT_GE(first->trace, 5ms);
  EXPECT_LT(first->trace, 5s) << "of this call, not of all";
  EXPECT_NE(first->graph, shapes::Fingerprint{});
  EXPECT_EQ(second->entry, 1);
  EXPECT_GT(second->call, first->call);
  EXPECT_EQ(second->reason, "entry 0: x.size(0) is 7, the entry has 5");
  const coordinator::CallCounters counted = feed->counters();
  EXPECT_EQ(counted.compiled, 2U);
  EXPECT_EQ(counted.reused, 1U);
  EXPECT_GE(counted.votes, 3U);
  EXPECT_GE(counted.trace, 10ms);
  EXPECT_GE(counted.exchanges, 2U);
  const RoundCounts& rounds = counted.rounds;
  EXPECT_EQ(rounds.votes[RoundEnd::Resolved], 2U) << "a call that fits no entry is a miss on all";
  EXPECT_EQ(rounds.votes[RoundEnd::Agreed], counted.votes - 2);
  EXPECT_EQ(rounds.exchanges[RoundEnd::Agreed], counted.exchanges);
  const auto sum = [](const SpanCounts& spans) {
    return std::accumulate(spans.buckets.begin(), spans.buckets.end(), std::uint64_t{0});
  };
  EXPECT_EQ(sum(rounds.wait), counted.votes);
  EXPECT_EQ(sum(rounds.wire), counted.votes + counted.exchanges);
}

TEST_F(CallTelling, RanksThatDiffer_AreCountedAsSuch) {
  if (group->size() == 1) return;
  ASSERT_TRUE(call(5));
  const RoundCounts before = feed->counters().rounds;
  const bool other = group->rank().value == 1;
  EXPECT_FALSE(
      agreement.agree(other ? "back" : "step", Inputs().tensor("x", {5, 3}).build(), build));
  const RoundCounts after = feed->counters().rounds;
  EXPECT_EQ(after.votes[RoundEnd::Diverged], before.votes[RoundEnd::Diverged] + 1);
  EXPECT_EQ(after.exchanges[RoundEnd::Diverged], before.exchanges[RoundEnd::Diverged] + 1);
  EXPECT_EQ(after.votes[RoundEnd::Resolved], before.votes[RoundEnd::Resolved]);
}

TEST_F(CallTelling, RankThatWouldFitAlone_SaysSo) {
  if (group->size() == 1) return;
  const bool other = group->rank().value == 1;
  ASSERT_TRUE(call(5));
  ASSERT_TRUE(call(other ? 7 : 5));
  (void)feed->take();
  const auto event = feed->take();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->reason, other ? "entry 0: x.size(0) is 7, the entry has 5"
                                 : "an entry fits this rank, but not every rank");
}

TEST_F(CallTelling, ErrorsAndFallbacks_AreToldWithTheirReason) {
  ASSERT_TRUE(call(5));
  ASSERT_TRUE(call(7));
  ASSERT_TRUE(call(1)) << "past the limit";
  build = [](int, const Decision&) -> Result<Built> {
    return Status{Code::CompileError, "no space left", {}, {}};
  };
  EXPECT_FALSE(agreement.agree("other", Inputs().tensor("x", {2}).build(), build));
  (void)feed->take(), (void)feed->take();
  const auto fallback = feed->take(), error = feed->take();
  ASSERT_TRUE(fallback && error);
  EXPECT_EQ(fallback->outcome, CallEvent::Outcome::Fallback);
  EXPECT_EQ(fallback->reason.substr(0, 9), "entry 0: ") << fallback->reason;
  EXPECT_EQ(error->outcome, CallEvent::Outcome::Error);
  EXPECT_EQ(error->code, Code::CompileError);
  EXPECT_EQ(error->frame, "other");
  EXPECT_NE(error->reason.find("no space left"), std::string::npos) << error->reason;
  EXPECT_EQ(feed->counters().fallbacks, 1U);
  EXPECT_EQ(feed->counters().errors, 1U);
}

}  // namespace
}  // namespace lockstep::worker::call_reporter_test
