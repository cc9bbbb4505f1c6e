// What ranks tell of their calls, put together.
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include <lockstep/coordinator/client/feed.h>
#include <lockstep/coordinator/service/call_log.h>

namespace lockstep::coordinator::call_log_test {
namespace {

using shapes::Fingerprint;
using std::chrono::milliseconds;
using std::chrono::seconds;

CallEvent compiled(std::uint64_t call, std::uint64_t graph) {
  CallEvent event;
  event.frame = "train_step";
  event.call = call;
  event.graph = {0, graph};
  event.entry = static_cast<std::int32_t>(call);
  event.reason = "first call";
  return event;
}

TEST(CallLog, RanksThatToldTheSame_AreOneVersion) {
  CallLog history;
  for (const int r : {2, 0, 1, 3}) {
    CallEvent event = compiled(0, r == 3 ? 8 : 7);
    event.compile = milliseconds(r == 1 ? 900 : 10);
    event.reason = "tokens.size(0) is " + std::to_string(r / 2);
    history.take(Rank{r}, event, seconds(r));
  }
  ASSERT_EQ(history.calls().size(), 1U);
  const ReportedCall& call = history.calls()[0];
  EXPECT_EQ(call.told, RankSet::all(4));
  EXPECT_EQ(call.event.reason, "tokens.size(0) is 0") << "that of the lowest rank";
  ASSERT_EQ(call.versions.size(), 2U);
  EXPECT_EQ(call.versions[0].graph, (Fingerprint{0, 7}));
  EXPECT_EQ(call.versions[0].ranks, RankSet::all(3));
  EXPECT_EQ(call.versions[1].ranks, RankSet::of(Rank{3}));
  ASSERT_EQ(call.reasons.size(), 2U);
  EXPECT_EQ(call.compile_slowest, Rank{1});
  EXPECT_EQ(call.compile_most, milliseconds(900));
  EXPECT_EQ(history.frames().at("train_step").compiled, 1U) << "calls, not ranks";
}

TEST(CallLog, GraphText_IsAskedOfOneRankAndAgainWhereItDoesNotCome) {
  CallLog history;
  EXPECT_FALSE(history.wanted(compiled(0, 0), seconds(0))) << "no graph";
  EXPECT_EQ(history.wanted(compiled(0, 7), seconds(0)), (Fingerprint{0, 7}));
  EXPECT_FALSE(history.wanted(compiled(0, 7), seconds(9)));
  EXPECT_EQ(history.wanted(compiled(0, 7), seconds(10)), (Fingerprint{0, 7}));
  history.take_graph({0, 9}, "nobody asked for it");
  EXPECT_EQ(history.graph_text({0, 9}), nullptr);
  history.take_graph({0, 7}, "n0 = input");
  EXPECT_FALSE(history.wanted(compiled(0, 7), seconds(100)));
  ASSERT_NE(history.graph_text({0, 7}), nullptr);
  EXPECT_EQ(*history.graph_text({0, 7}), "n0 = input");
}

/// Against sets that forget nothing: whatever is told, counts and sets are those, and nothing grows
/// beyond its limit.
TEST(CallLog, RandomTelling_IsBoundedAndComplete) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  CallLog history;
  std::map<std::uint64_t, std::map<std::uint64_t, std::set<int>>> oracle;  // call, graph, ranks
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t call = static_cast<std::uint64_t>(i / 10) + random() % 3;
    const std::uint64_t graph = 1 + random() % 100;
    const int rank = static_cast<int>(random() % 32);
    CallEvent event = compiled(call, graph);
    event.reason = std::to_string(random() % 40);
    event.frame = "frame" + std::to_string(call % 3);
    history.take(Rank{rank}, event, milliseconds(i));
    oracle[call][graph].insert(rank);
    if (const auto wanted = history.wanted(event, milliseconds(i)))
      history.take_graph(*wanted, std::to_string(wanted->low));
  }
  ASSERT_EQ(history.calls().size(), CallLog::kMostCalls);
  int texts = 0;
  for (std::uint64_t graph = 0; graph <= 100; ++graph)
    if (const std::string* text = history.graph_text({0, graph})) {
      ++texts;
      EXPECT_EQ(*text, std::to_string(graph));
    }
  EXPECT_GT(texts, 0);
  EXPECT_LE(texts, static_cast<int>(CallLog::kMostGraphs));
  for (std::size_t i = 0; i < history.calls().size(); ++i) {
    const ReportedCall& call = history.calls()[i];
    EXPECT_EQ(call.serial, history.calls().front().serial + i);
    EXPECT_LE(call.versions.size(), ReportedCall::kMostVersions);
    EXPECT_LE(call.reasons.size(), ReportedCall::kMostReasons);
    const auto& told = oracle.at(call.event.call);
    RankSet everyone;
    for (const Version& version : call.versions)
      for (const int rank : told.at(version.graph.low)) {
        EXPECT_TRUE(version.ranks.contains(Rank{rank}));
        everyone.insert(RankSet::of(Rank{rank}));
      }
    EXPECT_EQ(call.told, everyone);
  }
}

TEST(Feed, WhatNobodyTakes_GoesOldestFirst) {
  Feed feed;
  for (std::uint64_t i = 0; i < Feed::kMostEvents + 5; ++i) feed.tell(compiled(i, 1));
  EXPECT_EQ(feed.take()->call, 5U);
  std::size_t left = 0;
  while (feed.take()) ++left;
  EXPECT_EQ(left, Feed::kMostEvents - 1);
  for (std::uint64_t i = 0; i < Feed::kMostGraphs + 1; ++i)
    feed.keep({{0, i}, std::string(i == 3 ? kGraphTextBytes + 9 : 1, 'x')});
  EXPECT_FALSE(feed.graph({0, 0}));
  EXPECT_EQ(feed.graph({0, 3})->text.size(), kGraphTextBytes);
  CallCounters counted{.reused = 4, .votes = 9, .compile = milliseconds(3)};
  std::uint64_t value = 50;
  for (std::uint64_t* number : counted.rounds.numbers()) *number = ++value;
  feed.count(counted);
  EXPECT_EQ(feed.counters(), counted);
}

}  // namespace
}  // namespace lockstep::coordinator::call_log_test
