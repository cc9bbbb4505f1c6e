#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "random_scenario.h"
#include "record_directory.h"
#include "recorded_job.h"
#include <gtest/gtest.h>

#include <lockstep/worker/simulator/answers/explain.h>
#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>

namespace lockstep::worker::simulator::replay_test {
namespace {

namespace fs = std::filesystem;

void overwrite(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

Result<Replay> replay_of(const Directory& directory) {
  const auto ranks = read_record(directory.path());
  if (!ranks) return ranks.error();
  return replay(*ranks);
}

/// Two ranks whose batch wobbles: compiles, then reuses, then misses by the guard on parity.
Scenario wobble() {
  auto scenario = parse_scenario(R"({"format": "lockstep.scenario/1", "world_size": 2, "calls": [
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {"x": {"tensor": [4, 8]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [6, 8]}}},
                              {"ranks": "1", "values": {"x": {"tensor": [8, 8]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {"x": {"tensor": [10, 8]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {"x": {"tensor": [11, 8]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [5, 9]}}},
                              {"ranks": "1", "values": {"x": {"tensor": [6, 9]}}}]}]})",
                                 "wobble");
  EXPECT_TRUE(scenario.has_value());
  return *std::move(scenario);
}

TEST(Replay, JobWithGuards_GivesTheSameActionsAndOutcomes) {
  const Directory directory;
  const auto outcomes = record_job(wobble(), directory.path());
  ASSERT_EQ(outcomes.size(), 5U);
  EXPECT_EQ(outcomes[0], "compiled 0");
  EXPECT_EQ(outcomes[1], "compiled 1");
  EXPECT_EQ(outcomes[2], "reused 1");
  EXPECT_EQ(outcomes[3], "compiled 2");
  EXPECT_TRUE(outcomes[4].starts_with("error BRANCH_DIVERGENCE")) << outcomes[4];
  const auto again = replay_of(directory);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  ASSERT_FALSE(again->difference.has_value()) << again->difference->text();
  EXPECT_TRUE(again->notes.empty());
  ASSERT_EQ(again->result.calls.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(outcome_text(again->result.calls[i].outcome), outcomes[i]);
  EXPECT_EQ(again->result.uncoordinated, run_uncoordinated(wobble()));
}

TEST(Replay, RandomJobs_AreRegeneratedByteForByte) {
  std::set<std::string> reached;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const Directory directory;
    const Scenario scenario = random_scenario(seed);
    const auto outcomes = record_job(scenario, directory.path());
    const auto again = replay_of(directory);
    ASSERT_TRUE(again.has_value()) << "seed " << seed << ": " << again.error().message;
    ASSERT_FALSE(again->difference.has_value())
        << "seed " << seed << ": " << again->difference->text();
    ASSERT_EQ(again->result.calls.size(), outcomes.size());
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      ASSERT_EQ(outcome_text(again->result.calls[i].outcome), outcomes[i]) << "seed " << seed;
      reached.insert(outcomes[i].substr(0, outcomes[i].find_first_of(":0123456789")));
    }
  }
  for (const char* needed :
       {"reused ", "compiled ", "fallback", "error BRANCH_DIVERGENCE", "error TRACE_ERROR",
        "error GRAPH_DIVERGENCE", "error CONSTRAINT_VIOLATION"})
    EXPECT_EQ(reached.count(needed), 1U) << needed;
}

TEST(Replay, RecordOfBeforeFramesSettled_IsReplayedWithoutIt) {
  Scenario scenario = wobble();
  scenario.config.recompile_limit = 2;
  const auto without_the_key = [](const Directory& directory, const std::string& key) {
    for (int rank = 0; rank < 2; ++rank) {
      const std::string whole = contents(directory.file(rank));
      ASSERT_NE(whole.find(key), std::string::npos) << whole.substr(0, 400);
      overwrite(directory.file(rank), replaced(whole, key, ""));
    }
  };
  for (const bool settle : {false, true}) {
    scenario.config.settle = settle;
    const Directory directory;
    const auto outcomes = record_job(scenario, directory.path());
    EXPECT_EQ(outcomes[1], settle ? "reused 0" : "compiled 1");
    const auto as_said = replay_of(directory);
    ASSERT_TRUE(as_said.has_value()) << as_said.error().message;
    EXPECT_FALSE(as_said->difference.has_value());
    without_the_key(directory, settle ? ",\"settle\":true" : ",\"settle\":false");
    const auto again = replay_of(directory);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(again->difference.has_value(), settle);
  }
}

/// Written when calls had strides, columns were of version 2 and profiles of version 1.
TEST(Replay, RecordWithStrides_StillReplays) {
  const auto ranks = read_record(LOCKSTEP_OLD_RECORD);
  ASSERT_TRUE(ranks.has_value()) << ranks.error().message;
  const auto again = replay(*ranks);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  ASSERT_FALSE(again->difference.has_value()) << again->difference->text();
  ASSERT_EQ(again->notes.size(), 1U);
  EXPECT_NE(again->notes[0].find("version 2 of their columns"), std::string::npos);
  const std::vector<CallResult>& calls = again->result.calls;
  ASSERT_EQ(calls.size(), 4U);
  EXPECT_EQ(decision_text(*calls[0].reported),
            "x: f32[4, 8]; y: f32[s0] | s0 = y.size(0) min 2 hint 2")
      << "what another run had stored of y is known";
  EXPECT_EQ(outcome_text(calls[1].outcome), "compiled 1");
  EXPECT_EQ(outcome_text(calls[2].outcome), "reused 1");
  EXPECT_TRUE(outcome_text(calls[3].outcome).starts_with("error BRANCH_DIVERGENCE"));
  EXPECT_EQ((*ranks)[0].calls.read(0)->observation.orders, (std::vector<std::int64_t>{0x11, 0}));
  EXPECT_TRUE((*ranks)[0].calls.read(3)->observation.orders.empty()) << "(18, 2) of [5, 9]";
  EXPECT_TRUE((*ranks)[1].calls.read(1)->observation.orders.empty());
}

TEST(Replay, RecordWithStridesThatWasAltered_IsADifference) {
  for (const auto& [from, to] :
       {std::pair("\"strides\":[1,4,", "\"strides\":[4,1,"),
        std::pair("\"values\":[4,8,2]", "\"values\":[4,9,2]"),
        std::pair("trace x: f32[4, 8]", "trace x: f32[4, 9]"),
        std::pair("broadcast from 0", "broadcast from 1"),
        std::pair("vote and 0000000000000002", "vote and 0000000000000000")}) {
    const Directory directory;
    for (const Rank rank : {Rank{0}, Rank{1}})
      overwrite(directory.file(rank.value),
                contents(fs::path(LOCKSTEP_OLD_RECORD) / record_file_name(rank)));
    overwrite(directory.file(1), replaced(contents(directory.file(1)), from, to));
    const auto again = replay_of(directory);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_TRUE(again->difference.has_value()) << to;
  }
}

TEST(Replay, OrderOfDims_IsInTheRecord) {
  Scenario scenario = wobble();
  scenario.calls[1].groups[0].values["x"].strides = {1, 6};
  const Directory directory;
  record_job(scenario, directory.path());
  const auto again = replay_of(directory);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_FALSE(again->difference.has_value()) << again->difference->text();
  EXPECT_TRUE(again->notes.empty());
  const std::string whole = contents(directory.file(0));
  overwrite(directory.file(0), replaced(whole, "\"orders\":[17]", "\"orders\":[0]"));
  EXPECT_TRUE(replay_of(directory)->difference.has_value());
  overwrite(directory.file(0), replaced(whole, "\"orders\":[17]", "\"orders\":[17,0]"));
  EXPECT_NE(replay_of(directory).error().message.find("2 orders for 1 places"), std::string::npos);
}

TEST(Replay, LostRank_EndsThePeersAsRecorded) {
  const Directory directory;
  record_job(wobble(), directory.path(), {.lost_rank = 1, .lost_call = 2});
  const auto again = replay_of(directory);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  ASSERT_FALSE(again->difference.has_value()) << again->difference->text();
  ASSERT_EQ(again->result.calls.size(), 3U);
  EXPECT_EQ(again->result.calls[2].outcome.error->code, Code::RankLost);
}

TEST(Replay, RecordCutAnywhere_IsReplayedAsFarAsItGoes) {
  const Directory directory;
  record_job(wobble(), directory.path());
  const std::string whole = contents(directory.file(1));
  for (std::size_t end = whole.find('\n') + 1; end < whole.size(); end += 101) {
    overwrite(directory.file(1), whole.substr(0, end));
    const auto again = replay_of(directory);
    // The peer went on, so cutting one rank short is a contradiction unless nothing was cut off.
    if (!again) {
      EXPECT_EQ(again.error().code, Code::BadInput);
      const auto lines =
          std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(end), '\n') +
          (whole[end - 1] != '\n');
      const std::string where =
          directory.file(1) + ":" + std::to_string(lines) + ": the record of rank 1 is cut here";
      EXPECT_TRUE(again.error().message.starts_with(where)) << again.error().message;
    }
  }
}

TEST(Replay, BothRanksCutInTheLastCall_IsToleratedAndSaid) {
  const Directory directory;
  record_job(wobble(), directory.path());
  for (const int rank : {0, 1}) {
    const std::string whole = contents(directory.file(rank));
    overwrite(directory.file(rank), whole.substr(0, whole.rfind("\"event\":\"end\"") + 4));
  }
  const auto again = replay_of(directory);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  ASSERT_FALSE(again->difference.has_value()) << again->difference->text();
  ASSERT_EQ(again->notes.size(), 2U);
  EXPECT_NE(again->notes[0].find("cut"), std::string::npos);
}

TEST(Replay, ChangedSize_IsADifferenceThatNamesRankCallAndBothActions) {
  const Directory directory;
  record_job(wobble(), directory.path());
  overwrite(directory.file(1), replaced(contents(directory.file(1)), "[10,8]", "[12,9]"));
  const auto again = replay_of(directory);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  ASSERT_TRUE(again->difference.has_value());
  EXPECT_EQ(again->difference->rank, Rank{1});
  EXPECT_EQ(again->difference->key.call, 2U);
  EXPECT_NE(again->difference->text().find("rank 1, call 2 of f"), std::string::npos)
      << again->difference->text();
}

/// Two ranks with a field of each type.
Scenario with_fields() {
  auto scenario = parse_scenario(R"({"format": "lockstep.scenario/1", "world_size": 2, "calls": [
    {"frame": "f", "inputs": [
      {"ranks": "0", "values": {}, "fields": {"n": {"int": 3, "join": "max"},
        "s": {"string": "a\u0000", "join": "union"}, "b": {"hex": "00ff", "join": "equal"},
        "t": {"bool": true, "join": "min"}}},
      {"ranks": "1", "values": {}, "fields": {"n": {"int": 5, "join": "max"},
        "s": {"string": "", "join": "union"}, "b": {"hex": "00ff", "join": "equal"},
        "t": {"bool": false, "join": "min"}}}]},
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {}}]}]})",
                                 "fields");
  EXPECT_TRUE(scenario.has_value());
  return *std::move(scenario);
}

TEST(Replay, Fields_AreInTheRecord_InTheirCallOnly) {
  const Directory directory;
  const auto outcomes = record_job(with_fields(), directory.path());
  EXPECT_EQ(outcomes, (std::vector<std::string>{"compiled 0", "compiled 1"}));
  const std::string text = contents(directory.file(0));
  const std::string fields =
      R"("fields":[{"name":"b","type":"bytes","join":"equal","value":{"hex":"00ff"}},)"
      R"({"name":"n","type":"int","join":"max","value":3},)"
      R"({"name":"s","type":"string","join":"union","value":"a\u0000"},)"
      R"({"name":"t","type":"bool","join":"min","value":true}],"seen":)";
  EXPECT_NE(text.find(fields), std::string::npos) << text;
  EXPECT_EQ(text.find("\"fields\""), text.rfind("\"fields\"")) << "a call without has no key";
  const auto again = replay_of(directory);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  ASSERT_FALSE(again->difference.has_value()) << again->difference->text();
  ASSERT_TRUE(again->result.calls[0].reported.has_value());
  EXPECT_EQ(again->result.calls[0].reported->field("n")->values[0].number, 5);
  EXPECT_EQ(again->result.uncoordinated, run_uncoordinated(with_fields()));
}

TEST(Replay, ChangedField_IsADifference) {
  for (const auto& [from, to] :
       {std::pair(R"("join":"max","value":3)", R"("join":"max","value":4)"),
        std::pair(R"("hex":"00ff")", R"("hex":"00fe")"),
        std::pair(R"("join":"union")", R"("join":"min")")}) {
    const Directory directory;
    record_job(with_fields(), directory.path());
    overwrite(directory.file(0), replaced(contents(directory.file(0)), from, to));
    const auto again = replay_of(directory);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_TRUE(again->difference.has_value()) << from;
  }
}

TEST(Replay, ChangedGuard_IsADifference) {
  const Directory directory;
  record_job(wobble(), directory.path());
  for (const int rank : {0, 1}) {
    std::string text = contents(directory.file(rank));
    const std::size_t at = text.find("\"guards\":[{\"text\":\"");
    ASSERT_NE(at, std::string::npos);
    const std::size_t begin = at + 19, end = text.find('"', begin);
    overwrite(directory.file(rank), text.replace(begin, end - begin, "10 < s0"));
  }
  const auto again = replay_of(directory);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(again->difference.has_value());
}

TEST(Replay, CorruptFiles_AreNamedWithLine) {
  struct Damage {
    const char *from, *to, *says;
  };
  for (const Damage& damage :
       {Damage{"lockstep.record/1", "lockstep.record/9", ".jsonl:1: format"},
        Damage{"\"event\":\"call\"", "\"event\":\"cull\"", ".jsonl:3: event"},
        Damage{"\"values\":[4,8]", "\"values\":[4]", ".jsonl:3: values"},
        Damage{"\"values\":[4,8]", "\"values\":[4,8", "not JSON"},
        Damage{"\"ndim\":2", "\"ndim\":3", ".jsonl:2: digest"},
        Damage{"\"world_size\":2", "\"world_size\":3", "not one job"},
        Damage{"\"build\":\"test\"", "\"build\":\"other\"", "not one job"},
        Damage{"Mod(", "Mud(", "no guard"},
        Damage{"\"event\":\"trace\"", "\"event\":\"compile\"", "does not answer"}}) {
    const Directory directory;
    record_job(wobble(), directory.path());
    overwrite(directory.file(0), replaced(contents(directory.file(0)), damage.from, damage.to));
    const auto again = replay_of(directory);
    ASSERT_FALSE(again.has_value()) << damage.to;
    EXPECT_EQ(again.error().code, Code::BadInput);
    EXPECT_NE(again.error().message.find(damage.says), std::string::npos) << again.error().message;
  }
}

TEST(Replay, MissingRankOrNoRecord_IsSaid) {
  const Directory directory;
  const auto none = read_record(directory.path());
  ASSERT_FALSE(none.has_value());
  EXPECT_NE(none.error().message.find("holds no record"), std::string::npos);
  record_job(wobble(), directory.path());
  fs::remove(directory.file(1));
  const auto one = read_record(directory.path());
  ASSERT_FALSE(one.has_value());
  EXPECT_NE(one.error().message.find("record of rank 1 is missing"), std::string::npos);
}

std::string explanation(const Directory& directory) {
  const auto ranks = read_record(directory.path());
  EXPECT_TRUE(ranks.has_value());
  return explain_record(*ranks).text;
}

TEST(Explain, Divergence_ComesFirstWithRanksAndValues) {
  const Directory directory;
  record_job(wobble(), directory.path());
  const std::string text = explanation(directory);
  EXPECT_TRUE(text.starts_with("verdict   BRANCH_DIVERGENCE in call 4 of f")) << text;
  for (const char* part : {"step.cpp:41", "rank  0", "rank  1", "next step ", "byte for byte",
                           "5 calls, 3 compiled, 1 reused, 0 fallbacks, 1 errors"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Explain, AlteredRecord_SaysThatTheReplayDiffers) {
  const Directory directory;
  record_job(wobble(), directory.path());
  const auto whole = read_record(directory.path());
  ASSERT_TRUE(whole.has_value());
  EXPECT_FALSE(explain_record(*whole).replay_differs);
  overwrite(directory.file(1), replaced(contents(directory.file(1)), "[10,8]", "[12,9]"));
  const auto altered = read_record(directory.path());
  ASSERT_TRUE(altered.has_value());
  EXPECT_TRUE(explain_record(*altered).replay_differs);
}

TEST(Explain, LostRank_SaysWhatEachRankDidLast) {
  const Directory directory;
  record_job(wobble(), directory.path(), {.lost_rank = 1, .lost_call = 2});
  const std::string text = explanation(directory);
  EXPECT_TRUE(text.starts_with("verdict   RANK_LOST in call 2 of f")) << text;
  EXPECT_NE(text.find("rank  1            call 1 of f in group world: done"), std::string::npos)
      << text;
}

TEST(Explain, CutRecord_NamesTheRankAndWhereItStopped) {
  const Directory directory;
  record_job(wobble(), directory.path(), {.lost_rank = -1, .lost_call = 0});
  for (const int rank : {0, 1}) {
    const std::string whole = contents(directory.file(rank));
    const std::size_t third = whole.find("\"event\":\"compile\"");
    overwrite(directory.file(rank), whole.substr(0, third - 1));
  }
  const std::string text = explanation(directory);
  EXPECT_TRUE(text.starts_with("verdict   the record of rank 0 ends within call 0 of f")) << text;
  EXPECT_NE(text.find("in compile"), std::string::npos) << text;
}

TEST(Recorder, SecondRecordInADirectory_IsRefused) {
  const Directory directory;
  const RecordHeader header{.world_size = 1, .rank = Rank{0}, .config = {}, .build_id = "b"};
  ASSERT_TRUE(Recorder::open(directory.path(), header).has_value());
  const auto second = Recorder::open(directory.path(), header);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::BadInput);
  const auto nowhere = Recorder::open("/proc/nowhere", header);
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code, Code::Environment);
}

}  // namespace
}  // namespace lockstep::worker::simulator::replay_test
