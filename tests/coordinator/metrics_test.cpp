// What machines read of the coordinator: metrics, events, traces and the dump, from the production
// core fed by hand.
#include "exposition_lint.h"
#include "watched_ranks.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/coordinator/documents/dump_document.h>
#include <lockstep/coordinator/documents/trace_document.h>
#include <lockstep/coordinator/server/metrics.h>

namespace lockstep::coordinator::metrics_test {
namespace {

using Json = nlohmann::json;
using std::chrono::microseconds;

struct Watched : WatchedRanks {
  using WatchedRanks::WatchedRanks;
  EventLog event_log;
  RejectedFrames rejected{};

  /// 2026-11-21 20:00:00 UTC, and on with the ranks' clock.
  [[nodiscard]] WallTime wall() const {
    return WallTime(seconds(1'795'291'200) +
                    std::chrono::duration_cast<WallTime::duration>(now - seconds(1000)));
  }
  std::vector<Json> look() {
    std::vector<Json> out;
    for (const std::string& line : event_log.look(service, now, wall())) {
      EXPECT_TRUE(line.ends_with('\n'));
      EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
      out.push_back(Json::parse(line));
    }
    return out;
  }
  [[nodiscard]] std::string metrics() const {
    return metrics_text(service, event_log, rejected, {"0.1.0", "127.0.0.1:1", 1, seconds(1)}, now,
                        wall());
  }
  void told(int rank, const CallEvent& event) {
    (void)service.told(connections.at(rank), event, now);
  }
};

CallEvent compiled(std::uint64_t call, std::string reason) {
  return {.frame = "step",
          .call = call,
          .graph = shapes::fingerprint("g"),
          .reason = std::move(reason),
          .waited = milliseconds(20),
          .exchange = milliseconds(1),
          .trace = milliseconds(100),
          .compile = milliseconds(400)};
}

/// The value of the only line that begins so.
double value_of(const std::string& metrics, const std::string& series) {
  const std::size_t at = metrics.find("\n" + series + " ");
  EXPECT_NE(at, std::string::npos) << series << " in\n" << metrics;
  return at == std::string::npos ? -1 : std::stod(metrics.substr(at + series.size() + 2));
}

std::vector<Json> named(const std::vector<Json>& events, std::string_view name) {
  std::vector<Json> out;
  for (const Json& event : events)
    if (event.at("event") == name) out.push_back(event);
  return out;
}

TEST(ExpositionLint, Faults_AreFound) {
  const std::string good = "# HELP a_total x\n# TYPE a_total counter\na_total{k=\"v\"} 1\n";
  EXPECT_TRUE(lint(good).empty());
  for (const char* bad :
       {"a_total 1\n", "# HELP a x\n# TYPE a counter\na 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total 1\na_total 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total{k=v} 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total one\n",
        "# HELP a_total x\n# TYPE a_total counter\nb_total 1\n",
        "# HELP a_ms x\n# TYPE a_ms gauge\na_ms 1\n", "# HELP a x\n# TYPE a gauge\na 1",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum "
        "1\na_count 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 2\n",
        "# HELP a x\n# TYPE a gauge\na 1\n# HELP b x\n# TYPE b gauge\nb 1\n# HELP a x\n"})
    EXPECT_FALSE(lint(bad).empty()) << bad;
}

TEST(Metrics, BeforeAndAfterMuchHasHappened_AreWellFormed) {
  Watched ranks(4);
  EXPECT_EQ(lint(ranks.metrics()), std::vector<std::string>{});
  ranks.identities[0].job = ranks.identities[1].job = ranks.identities[2].job =
      ranks.identities[3].job = "train";
  ranks.join_all();
  ranks.reports[2].counters = {
      .reused = 7, .compiled = 2, .votes = 11, .exchanges = 3, .waited = milliseconds(2)};
  RoundCounts& rounds = ranks.reports[2].counters.rounds;
  rounds.votes = {{8, 2, 1, 0}};
  rounds.exchanges = {{1, 0, 1, 1}};
  for (int i = 0; i < 10; ++i) rounds.wait.add(microseconds(10));
  rounds.wait.add(milliseconds(2));
  rounds.wire.add(seconds(60));
  ranks.reports[1].counters = {.votes = 3, .rounds = {.votes = {{7, 1, 1, 0}}}};
  ranks.pass(seconds(1));
  for (int r = 0; r < 4; ++r) ranks.told(r, compiled(0, "first call"));
  CallEvent error = compiled(1, "graphs differ");
  error.outcome = CallEvent::Outcome::Error;
  error.code = Code::GraphDivergence;
  for (int r = 0; r < 4; ++r) ranks.told(r, error);
  for (int r = 0; r < 3; ++r) ranks.wait(r);
  ranks.pass(seconds(6));
  ranks.rejected[static_cast<std::size_t>(collectives::Refusal::Altered)] = 5;
  (void)ranks.look();
  const std::string metrics = ranks.metrics();
  EXPECT_EQ(lint(metrics), std::vector<std::string>{});
  EXPECT_EQ(value_of(metrics, R"(lockstep_ranks{job="train",state="stuck"})"), 1);
  EXPECT_EQ(value_of(metrics, R"(lockstep_ranks{job="train",state="running"})"), 3);
  for (const auto& [labels, count] : {std::pair{R"(kind="guard",result="agree")", 8},
                                      std::pair{R"(kind="guard",result="resolved")", 2},
                                      std::pair{R"(kind="guard",result="diverged")", 1},
                                      std::pair{R"(kind="sizes",result="agree")", 1},
                                      std::pair{R"(kind="sizes",result="diverged")", 1},
                                      std::pair{R"(kind="sizes",result="timeout")", 1}})
    EXPECT_EQ(
        value_of(metrics, std::string(R"(lockstep_rounds_total{job="train",)") + labels + "}"),
        count)
        << "of the rank that has counted most: " << labels;
  const auto waits = [&](std::string_view le) {
    return value_of(metrics, R"(lockstep_round_wait_seconds_bucket{job="train",le=")" +
                                 std::string(le) + "\"}");
  };
  EXPECT_EQ(waits("1e-05"), 10) << "a bound is within its bucket";
  EXPECT_EQ(waits("0.001"), 10);
  EXPECT_EQ(waits("0.01"), 11);
  EXPECT_EQ(value_of(metrics, R"(lockstep_round_wait_seconds_count{job="train"})"), 11);
  EXPECT_NEAR(value_of(metrics, R"(lockstep_round_wait_seconds_sum{job="train"})"), 0.002, 1e-9);
  EXPECT_EQ(value_of(metrics, R"(lockstep_round_wire_seconds_bucket{job="train",le="10"})"), 0);
  EXPECT_EQ(value_of(metrics, R"(lockstep_round_wire_seconds_count{job="train"})"), 1);
  EXPECT_EQ(value_of(metrics, R"(lockstep_cache_requests_total{job="train",result="hit"})"), 7);
  EXPECT_EQ(
      value_of(metrics,
               R"(lockstep_recompiles_total{job="train",reason="first_call",forced="false"})"),
      1);
  EXPECT_EQ(value_of(metrics, R"(lockstep_divergences_total{job="train",field_kind="graph"})"), 1);
  EXPECT_EQ(value_of(metrics, R"(lockstep_rejected_frames_total{reason="mac"})"), 5);
  EXPECT_NEAR(value_of(metrics, R"(lockstep_straggler_seconds{job="train"})"), 6, 1);
  EXPECT_NEAR(value_of(metrics, R"(lockstep_compile_seconds_sum{job="train",outcome="compiled"})"),
              0.5, 1e-6);
  EXPECT_EQ(value_of(metrics,
                     R"(lockstep_compile_seconds_bucket{job="train",outcome="compiled",le="0.3"})"),
            0);
  EXPECT_EQ(value_of(metrics, R"(lockstep_build_info{version="0.1.0",protocol="2"})"), 1);
  EXPECT_NEAR(value_of(metrics, R"(lockstep_last_progress_timestamp_seconds{job="train"})"),
              1'795'291'201, 1);
}

TEST(Metrics, NamesFromOutside_AreEscaped) {
  Watched ranks(1);
  ranks.identities[0].job = "a\"b\\c\nd} 1";
  ranks.join_all();
  (void)ranks.look();
  const std::string metrics = ranks.metrics();
  EXPECT_EQ(lint(metrics), std::vector<std::string>{});
  EXPECT_NE(metrics.find(R"(job="a\"b\\c\nd} 1")"), std::string::npos);
}

TEST(Metrics, RanksOfLargeJobs_AreInNoLabel) {
  for (const int size : {64, 65}) {
    Watched ranks(size);
    ranks.join_all();
    ranks.pass(seconds(1));
    const std::string metrics = ranks.metrics();
    EXPECT_EQ(metrics.find("rank=\"") != std::string::npos, size == 64) << size;
  }
  Watched small(65), large(4096);
  for (Watched* ranks : {&small, &large}) {
    ranks->join_all();
    ranks->pass(seconds(1));
    (void)ranks->look();
  }
  const std::string a = small.metrics(), b = large.metrics();
  EXPECT_EQ(std::count(a.begin(), a.end(), '\n'), std::count(b.begin(), b.end(), '\n'));
}

TEST(EventLog, LifeOfAJob_IsToldOnceEach) {
  Watched ranks(4);
  ranks.join_all();
  auto events = ranks.look();
  ASSERT_EQ(named(events, "began").size(), 1U);
  ASSERT_EQ(named(events, "joined").size(), 1U) << "all that came are one line";
  EXPECT_EQ(named(events, "joined")[0]["ranks"], "0-3");
  EXPECT_EQ(events[0]["ts"], "2026-11-21T20:00:00.000000000Z");
  EXPECT_EQ(events[0]["mono_ns"], 1'000'000'000'000);
  EXPECT_EQ(events[0]["job"], "train");
  ranks.pass(seconds(1));
  EXPECT_TRUE(ranks.look().empty()) << "nothing is new";
  for (int r = 0; r < 4; ++r) ranks.told(r, compiled(3, "x.size(0) is 6, the entry has 5"));
  events = ranks.look();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["event"], "compiled");
  EXPECT_EQ(events[0]["frame"], "step");
  EXPECT_EQ(events[0]["call"], 3);
  EXPECT_EQ(events[0]["attempt"], 1);
  EXPECT_EQ(events[0]["dur_us"], 501'000);
  EXPECT_EQ(events[0]["wait_us"], 20'000);
  EXPECT_EQ(events[0]["ranks"], "0-3");
  ranks.close(2);
  events = ranks.look();
  ASSERT_EQ(named(events, "connection_closed").size(), 1U);
  const Json closed = named(events, "connection_closed")[0];
  EXPECT_EQ(closed["rank"], 2);
  EXPECT_EQ(closed["host"], "n0");
  EXPECT_EQ(closed["pid"], 1002);
  ASSERT_EQ(named(events, "lost").size(), 1U);
  EXPECT_EQ(named(events, "lost")[0]["level"], "warning");
  (void)ranks.join(2).value();
  events = ranks.look();
  EXPECT_EQ(named(events, "joined_again").size(), 1U);
  ASSERT_EQ(named(events, "over").size(), 1U);
  EXPECT_EQ(named(events, "over")[0]["message"], "no longer: lost");
}

TEST(EventLog, RankThatComesAndFinishesBetweenTwoLooks_HasJoined) {
  Watched ranks(1);
  ranks.join_all();
  ranks.reports[0].finished = true;
  ranks.tell(0);
  const auto events = ranks.look();
  EXPECT_EQ(named(events, "joined").size(), 1U);
  EXPECT_EQ(named(events, "finished").size(), 1U);
}

TEST(EventLog, FindingThatGrowsOrIsToBeActedOn_IsNotOver) {
  Watched ranks(4);
  ranks.join_all();
  (void)ranks.look();
  ranks.close(1);
  EXPECT_EQ(named(ranks.look(), "lost").size(), 1U);
  ranks.now += seconds(11);
  auto events = ranks.look();
  ASSERT_EQ(named(events, "lost").size(), 1U);
  EXPECT_EQ(named(events, "lost")[0]["level"], "error");
  EXPECT_TRUE(named(events, "over").empty());
  (void)ranks.join(1).value();
  EXPECT_EQ(named(ranks.look(), "over").size(), 1U);
}

TEST(EventLog, CallThatNotAllTellOf_WaitsTwoSecondsAndNoLonger) {
  Watched ranks(2);
  ranks.join_all();
  (void)ranks.look();
  ranks.told(0, compiled(0, "first call"));
  EXPECT_TRUE(ranks.look().empty());
  ranks.pass(seconds(2));
  const auto events = ranks.look();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["rank"], 0);
  ranks.told(1, compiled(0, "first call"));
  EXPECT_TRUE(ranks.look().empty()) << "once";
}

TEST(EventLog, RanksThatDiffer_AreNamedWithTheirGraphs) {
  Watched ranks(3);
  ranks.join_all();
  (void)ranks.look();
  for (int r = 0; r < 3; ++r) {
    CallEvent event = compiled(0, "first call");
    event.graph = shapes::fingerprint(r == 1 ? "b" : "a");
    ranks.told(r, event);
  }
  const auto differ = named(ranks.look(), "ranks_differ");
  ASSERT_EQ(differ.size(), 1U);
  EXPECT_EQ(differ[0]["message"],
            fmt::format("ranks 0,2: {}; rank 1: {}", shapes::fingerprint("a").text(),
                        shapes::fingerprint("b").text()));
}

TEST(EventLog, EntryThatFitsOnSomeRanksOnly_CountsAsForced) {
  Watched ranks(2);
  ranks.join_all();
  ranks.told(0, compiled(0, "an entry fits this rank, but not every rank"));
  ranks.told(1, compiled(0, "entry 0: x.size(0) is 6, the entry has 5"));
  (void)ranks.look();
  EXPECT_EQ(value_of(ranks.metrics(),
                     R"(lockstep_recompiles_total{job="train",reason="size",forced="true"})"),
            1);
}

TEST(EventLog, WhatIsKept_IsBounded) {
  Watched ranks(1);
  ranks.join_all();
  for (std::uint64_t call = 0; call < 3 * EventLog::kMostLines; ++call) {
    ranks.told(0, compiled(call, std::string(1000, 'x')));
    (void)ranks.look();
  }
  EXPECT_LE(ranks.event_log.lines().size(), EventLog::kMostLines);
  std::size_t bytes = 0;
  for (const std::string& line : ranks.event_log.lines()) bytes += line.size();
  EXPECT_LE(bytes, EventLog::kMostBytes);
  EXPECT_EQ(Json::parse(ranks.event_log.lines().back())["call"], 3 * EventLog::kMostLines - 1);
}

TEST(ReasonClass, EveryText_FallsIntoABoundedSet) {
  EXPECT_EQ(reason_class("first call of the frame"), "first_call");
  EXPECT_EQ(reason_class("entry 0: n is 7, the entry has 5; entry 1: guard n < 9 is false"),
            "value");
  EXPECT_EQ(reason_class("entry 12: guard n < 9 (a.cpp:3) is false"), "guard");
  EXPECT_EQ(reason_class("an entry fits this rank, but not every rank"), "elsewhere");
  EXPECT_EQ(reason_class("tokens.size(0) is 7, the entry has 5"), "size");
  EXPECT_EQ(reason_class("n is 7, the entry has 5"), "value");
  EXPECT_EQ(reason_class("tokens.size(0) is 1, the entry needs at least 2"), "bound");
  EXPECT_EQ(reason_class("guard s0 < 5 (train.cpp:3) is false"), "guard");
  EXPECT_EQ(reason_class("whatever else"), "other");
}

TEST(Timeline, WaitsAndCalls_BecomeSpansThatDoNotOverlap) {
  Watched ranks(2);
  ranks.join_all();
  ranks.pass(seconds(1));
  ranks.wait(0);
  ranks.pass(seconds(3));
  ranks.leave(0);
  ranks.reports[0].phase = Phase::Compiling;
  ranks.pass(seconds(4));
  ranks.reports[0].phase = Phase::Running;
  ranks.tell_all();
  CallEvent event = compiled(0, "first call");
  event.compile = milliseconds(2500);
  ranks.told(0, event);
  const auto spans = ranks.job().timeline.spans(ranks.now);
  Instant last{0};
  Duration waited{0}, compiling{0};
  for (const Span& span : spans) {
    if (span.rank != Rank{0}) continue;
    EXPECT_GE(span.begin, last);
    last = span.end;
    if (span.kind == Span::Kind::Wait) waited += span.end - span.begin;
    if (span.kind == Span::Kind::Compile) compiling += span.end - span.begin;
  }
  EXPECT_EQ(waited, seconds(4)) << "until the report that showed it gone";
  EXPECT_EQ(compiling, milliseconds(2500));
  const Json trace = Json::parse(trace_document(ranks.service, seconds(900), ranks.now));
  bool found = false;
  for (const Json& each : trace["traceEvents"]) {
    EXPECT_TRUE(each["ph"] == "X" || each["ph"] == "M");
    if (each["ph"] == "X" && each["cat"] == "wait") {
      found = true;
      EXPECT_EQ(each["tid"], 0);
      EXPECT_EQ(each["name"], "wait: vote 1");
      EXPECT_EQ(each["dur"], 4e6);
    }
  }
  EXPECT_TRUE(found);
}

TEST(Timeline, WaitThatWasOverUnseen_EndsWhereItWasLastSeen) {
  Watched ranks(1);
  ranks.join_all();
  ranks.wait(0);
  ranks.now += milliseconds(100);
  ranks.tell(0);  // waits for 100 ms
  ranks.now += milliseconds(800);
  ranks.reports[0].ordinal += 50;  // long in another operation
  ranks.progress[0] = ranks.now;
  ranks.now += milliseconds(100);
  ranks.tell(0);
  const auto spans = ranks.job().timeline.spans(ranks.now);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].end - spans[0].begin, milliseconds(100));
  EXPECT_EQ(spans[1].end - spans[1].begin, milliseconds(100));
}

TEST(Timeline, LargeJob_IsSampledAlwaysTheSameAndWithThoseThatFindingsName) {
  Timeline timeline(16'384);
  int followed = 0;
  for (std::int32_t r = 0; r < 16'384; ++r) followed += timeline.follows(Rank{r}) ? 1 : 0;
  EXPECT_LE(followed, Timeline::kMostRanks);
  EXPECT_GE(followed, Timeline::kMostRanks / 2);
  EXPECT_FALSE(timeline.follows(Rank{12'345}));
  timeline.follow(RankSet::range(Rank{12'345}, Rank{12'346}));
  EXPECT_TRUE(timeline.follows(Rank{12'345}));
  timeline.follow(RankSet::all(16'384));
  int all = 0;
  for (std::int32_t r = 0; r < 16'384; ++r) all += timeline.follows(Rank{r}) ? 1 : 0;
  EXPECT_LE(all, followed + static_cast<int>(Timeline::kMostNamed));
  for (int i = 0; i < 100'000; ++i)
    timeline.told(Rank{0}, compiled(static_cast<std::uint64_t>(i), ""), seconds(i + 1));
  EXPECT_LE(timeline.spans(seconds(200'000)).size(), Timeline::kMostSpans);
}

TEST(Dump, EveryRank_HasItsLine) {
  Watched ranks(3);
  (void)ranks.join(0).value();
  (void)ranks.join(2).value();
  ranks.note(2, "call 6 of \"step\"");
  ranks.lease[2] = ranks.now + seconds(60);
  ranks.tell(0);
  ranks.tell(2);
  ranks.now += seconds(2);
  const Json dump = Json::parse(dump_document(ranks.service, ranks.now));
  EXPECT_EQ(dump["format"], "lockstep.dump/1");
  const Json& all = dump["jobs"][0]["ranks"];
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1]["link"], "absent");
  EXPECT_EQ(all[2]["event"], "call 6 of \"step\"");
  EXPECT_EQ(all[2]["pid"], 1002);
  EXPECT_EQ(all[2]["lease_seconds_left"], 58);
  EXPECT_EQ(all[2]["heard_seconds_ago"], 2);
}

}  // namespace
}  // namespace lockstep::coordinator::metrics_test
