// The agreement with real rounds: call machines over a simulated network, the library call on a
// fake communicator.
#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/collectives/simulated/simulated.h>
#include <lockstep/worker/agreement.h>

namespace lockstep::worker::agreement_test {
namespace {

using collectives::BroadcastRound;
using collectives::NetworkOptions;
using collectives::Round;
using collectives::TreeRound;
using collectives::VirtualNetwork;
using collectives::VoteRound;

/// The round that an action asks for; null where it asks for none.
std::unique_ptr<Round> round_of(const Action& action, Rank self, int size) {
  if (const auto* vote = std::get_if<action::Vote>(&action))
    return std::make_unique<VoteRound>(self, size, vote->mine, vote->combine);
  if (const auto* to_join = std::get_if<action::TreeJoin>(&action))
    return std::make_unique<TreeRound>(self, size, to_join->mine, to_join->join);
  if (const auto* broadcast = std::get_if<action::Broadcast>(&action))
    return std::make_unique<BroadcastRound>(self, size, broadcast->root, broadcast->mine);
  return nullptr;
}

void report(CallMachine& machine, const Round& round) {
  if (const auto* vote = dynamic_cast<const VoteRound*>(&round))
    machine.voted(vote->result());
  else if (const auto* tree = dynamic_cast<const TreeRound*>(&round))
    machine.joined(tree->result());
  else
    machine.joined(dynamic_cast<const BroadcastRound&>(round).result());
}

/// Ranks that make calls over a simulated network, with the rounds of a real job.
class Job {
 public:
  explicit Job(const NetworkOptions& options)
      : network(options), frames(static_cast<std::size_t>(options.size), CodeCache("f")) {}

  /// The outcomes of the ranks that come to an end.
  std::vector<CallOutcome> call(const std::vector<Inputs>& inputs) {
    machines_.clear();
    rounds_.clear();
    for (std::size_t r = 0; r < frames.size(); ++r) {
      RoundKey key;
      key.frame = "f";
      key.round = key.call = calls;
      machines_.push_back(std::make_unique<CallMachine>(Rank{static_cast<std::int32_t>(r)},
                                                        network.size(), config, key, frames[r],
                                                        inputs[r].build()));
      rounds_.push_back(nullptr);
    }
    ++calls;
    for (std::size_t r = 0; r < frames.size(); ++r) advance(r);
    do {
      for (auto ended = network.take_ended(); !ended.empty(); ended = network.take_ended())
        for (const Rank rank : ended) end_round(static_cast<std::size_t>(rank.value));
    } while (network.step());
    std::vector<CallOutcome> out;
    for (const auto& machine : machines_)
      if (const auto* finish = std::get_if<action::Finish>(&machine->next()))
        out.push_back(finish->outcome);
    return out;
  }

  VirtualNetwork network;
  std::vector<CodeCache> frames;
  DecisionConfig config;
  std::uint64_t calls = 0;

 private:
  void advance(std::size_t r) {
    CallMachine& machine = *machines_[r];
    while (!std::holds_alternative<action::Finish>(machine.next())) {
      const Rank self{static_cast<std::int32_t>(r)};
      rounds_[r] = round_of(machine.next(), self, network.size());
      if (rounds_[r]) return network.communicator(self).start(*rounds_[r]);
      if (const auto* trace = std::get_if<action::Trace>(&machine.next())) {
        TraceReport traced;
        traced.graph = trace->decision->digest();
        machine.traced(std::move(traced));
      } else {
        machine.compiled(std::nullopt);
      }
    }
  }
  void end_round(std::size_t r) {
    const auto done = network.communicator(Rank{static_cast<std::int32_t>(r)}).poll();
    const std::unique_ptr<Round> round = std::move(rounds_[r]);
    if (done)
      report(*machines_[r], *round);
    else
      machines_[r]->failed(done.error());
    advance(r);
  }

  std::vector<std::unique_ptr<CallMachine>> machines_;
  std::vector<std::unique_ptr<Round>> rounds_;
};

TEST(CallMachine, OnASimulatedNetwork_EndsAsTheFoldDoes_ForOneToNineRanks) {
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

TEST(CallMachine, Payloads_AreAtMostFourPerExchange_AndOneVoteInTheSteadyState) {
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

TEST(UpstreamMissing, LateRank_OnlyTakesLonger) {
  Job on_time({.size = 4}), late({.size = 4});
  late.network.slow({2}, std::chrono::seconds(1));
  const std::vector<Inputs> inputs(4, Inputs().tensor("x", {5}));
  for (int call = 0; call < 3; ++call) {
    const auto expected = on_time.call(inputs), outcomes = late.call(inputs);
    ASSERT_EQ(outcomes.size(), 4U);
    for (std::size_t r = 0; r < 4; ++r)
      EXPECT_EQ(outcome_text(outcomes[r]), outcome_text(expected[r]));
  }
  EXPECT_GE(late.network.clock().now(), std::chrono::seconds(1));
}

TEST(UpstreamMissing, DeadRank_IsAnErrorOnEveryOther_AndNothingIsCommitted) {
  Job job({.size = 4});
  job.network.crash({2}, Instant{0});
  const auto outcomes = job.call(std::vector<Inputs>(4, Inputs().tensor("x", {5})));
  ASSERT_GE(outcomes.size(), 3U);
  for (const CallOutcome& outcome : outcomes)
    EXPECT_EQ(outcome.kind, CallOutcome::Kind::Error) << outcome_text(outcome);
  for (const CodeCache& frame : job.frames) EXPECT_TRUE(frame.entries.empty());
}

TEST(Agreement, LibraryCall_BuildsOnAMissOnly_AndReturnsTheDecision) {
  const auto group = collectives::fake_communicator({0}, 4);
  ASSERT_TRUE(group);
  Agreement agreement(**group, "world", {});
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

TEST(Agreement, GroupThatMirrorsItsRank_AnswersAsThatRankDoes) {
  for (const int self : {0, 2}) {
    const auto group = collectives::fake_communicator({self}, 3);
    CallDriver driver(**group, {});
    RoundKey key;
    key.kind = RoundKey::Kind::Verify;
    EXPECT_EQ(driver.broadcast_from_lowest(key, 41).value(), 41) << "rank " << self;
    EXPECT_TRUE(driver.any_rank(key, true).value());
    EXPECT_FALSE(driver.any_rank(key, false).value());
  }
}

TEST(Agreement, LibraryCall_PastTheLimit_FallsBackWithoutBuilding) {
  const auto group = collectives::fake_communicator({0}, 2);
  Agreement agreement(**group, "world", {.recompile_limit = 1});
  int built = 0;
  const Agreement::Build build = [&built](int, const Decision&) -> Result<Built> {
    ++built;
    return Built{};
  };
  (void)agreement.agree("step", Inputs().boolean("b", true).build(), build);
  const auto agreed = agreement.agree("step", Inputs().boolean("b", false).build(), build);
  ASSERT_TRUE(agreed);
  EXPECT_EQ(agreed->run, Agreed::Run::Fallback);
  EXPECT_EQ(built, 1);
}

TEST(Agreement, LibraryCall_BuildFails_IsTheErrorAndTheNextCallWorks) {
  const auto group = collectives::fake_communicator({0}, 2);
  Agreement agreement(**group, "world", {});
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
}  // namespace lockstep::worker::agreement_test
