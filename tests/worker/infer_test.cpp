// lockstep infer on records of real jobs: the classes of the program, of the record alone where the
// program cannot be asked, and what is wrong with either.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "launch.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep::worker::infer_test {
namespace {

using Json = nlohmann::json;

class Infer : public testing::Test {
 protected:
  void record(int ranks, const std::string& arguments = "") {
    const Launched ran =
        launch_ranks(ranks, INFER_RANK " " + arguments, "LOCKSTEP_RECORD=" + directory());
    ASSERT_EQ(ran.exit_code, 0) << ran.output;
  }
  [[nodiscard]] std::string directory() const { return folder / "record"; }
  [[nodiscard]] std::string file(int rank = 0) const {
    return directory() + "/rank-0000" + std::to_string(rank) + ".jsonl";
  }
  /// Both streams apart.
  Launched infer(const std::string& options = "") {
    const Launched ran =
        launch(LOCKSTEP " infer " + directory() + " " + options + " 2>" + (folder / "errors"));
    errors = contents(folder / "errors");
    return ran;
  }
  Json json(const std::string& options = "") {
    const Launched ran = infer("--json " + options);
    EXPECT_EQ(ran.exit_code, 0) << ran.output << errors;
    Json out = Json::parse(ran.output, nullptr, false);
    EXPECT_EQ(out["format"], "lockstep.infer/1") << ran.output;
    return out;
  }
  /// Of what the record says, not that of the program.
  void change_header(const std::string& pattern, const std::string& by) {
    std::string text = contents(file());
    const std::size_t end = text.find('\n');
    const std::string header = std::regex_replace(text.substr(0, end), std::regex(pattern), by);
    EXPECT_NE(header, text.substr(0, end));
    std::ofstream(file(), std::ios::binary) << header << text.substr(end);
  }
  /// Recorded entries alone, said in one sentence.
  void expect_without_program(const std::string& reason, const std::string& options = "") {
    const Json out = json(options);
    EXPECT_EQ(out["complete"], false);
    EXPECT_NE(out["reason"].get<std::string>().find(reason), std::string::npos) << out["reason"];
    ASSERT_EQ(out["frames"].size(), 3U);
    for (const Json& frame : out["frames"]) EXPECT_FALSE(frame["recorded"].empty());
  }

  Folder folder;
  std::string errors;
};

TEST_F(Infer, RecordsOfOneTwoAndFourRanks_GiveTheClassesOfTheProgram) {
  std::string of_one;
  for (const int ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    std::filesystem::remove_all(directory());
    record(ranks);
    const Json out = json();
    EXPECT_EQ(out["complete"], true) << out["reason"];
    EXPECT_EQ(out["world_size"], ranks);
    ASSERT_EQ(out["frames"].size(), 3U);
    const Json& one = out["frames"][0]["inferred"];
    EXPECT_EQ(out["frames"][0]["frame"], "one");
    EXPECT_EQ(one["ranks"], ranks);
    std::string text;
    for (const Json& found : one["classes"])
      text += found["outcome"].get<std::string>() + " " + found["example"].dump() + "\n";
    EXPECT_EQ(text,
              "ok {\"n\":0,\"x.size(0)\":0}\n"
              "trace_error {\"n\":0,\"x.size(0)\":9}\n"
              "ok {\"n\":1,\"x.size(0)\":41}\n"
              "trace_error {\"n\":5,\"x.size(0)\":9}\n");
    EXPECT_EQ(one["points"], 65 * 65);
    EXPECT_EQ(one["classes"][2]["cause"]["text"], "n*x.size(0) >= 41");
    EXPECT_NE(contents(INFER_SOURCE).find("// first branch"), std::string::npos);
    EXPECT_EQ(out["frames"][1]["frame"], "two");
    EXPECT_EQ(out["frames"][1]["inferred"]["classes"].size(), 2U);
    EXPECT_EQ(out["frames"][2]["frame"], "two");  // with the other bool
    EXPECT_EQ(out["frames"][2]["inferred"]["classes"].size(), 1U);
    EXPECT_NE(errors.find("as rank 0 of " + std::to_string(ranks)), std::string::npos) << errors;
    EXPECT_NE(errors.find(INFER_RANK), std::string::npos) << errors;
    // What the entries serve, of the same sizes.
    for (const Json& entry : out["frames"][0]["recorded"])
      EXPECT_GT(entry["points"].get<int>(), 0) << entry;
    EXPECT_EQ(out["frames"][0]["unserved"].dump(), "{\"n\":0,\"x.size(0)\":0}");
    if (ranks == 1) of_one = one["classes"].dump();
    EXPECT_EQ(one["classes"].dump(), of_one);
  }
}

TEST_F(Infer, Text_HasClassesCausesAndGuardsWithTheirLines) {
  record(2);
  const Launched ran = infer("--box 0..12");
  EXPECT_EQ(ran.exit_code, 0);
  for (const char* part :
       {"one\n", "class 1: ok; ", " of 169 points", "example: n = 0, x.size(0) = 9",
        "caused by infer_rank.cpp:", "x.size(0) != 9   # infer_rank.cpp:", ", a check",
        "check(x.size(0) != 9) does not hold (not nine)",
        "recorded entry 0: ", "served by no recorded entry: ", "two\n"})
    EXPECT_EQ(ran.count(part) > 0, true) << part << "\n" << ran.output;
  EXPECT_EQ(ran.count("not complete"), 0) << ran.output;
}

TEST_F(Infer, ProgramThatCannotBeAsked_LeavesTheRecordedEntries) {
  record(1);
  const std::string kept = contents(file());
  expect_without_program("was not to be started", "--no-program");
  change_header("infer_rank\"", "infer_rank_that_is_gone\"");
  expect_without_program("is not there any more, or cannot be run");
  EXPECT_EQ(errors, "");
  std::ofstream(file(), std::ios::binary) << kept;
  change_header("\"path\":\"[^\"]*\"", "\"path\":\"/bin/true\"");
  expect_without_program("made no job");
  std::ofstream(file(), std::ios::binary) << kept;
  change_header(",\"program\":\\{.*\\}\\}", "}");  // as older ones are
  expect_without_program("does not tell how the program was started");
  std::ofstream(file(), std::ios::binary) << kept;
  for (const std::string& path : {directory(), file()}) {
    ASSERT_EQ(launch("chmod o+w " + path).exit_code, 0);
    expect_without_program("other users may have written");
    EXPECT_EQ(errors, "");
    ASSERT_EQ(launch("chmod o-w " + path).exit_code, 0);
  }
  EXPECT_EQ(json()["complete"], true);
}

TEST_F(Infer, FrameThatIsNotReachedInTime_IsSaid) {
  record(1, "8");
  const Json out = json("--limit 4");
  EXPECT_EQ(out["complete"], false);
  EXPECT_EQ(out["reason"], "the program had not got there after 4 s");
  EXPECT_FALSE(out["frames"][0]["inferred"].is_null());
  EXPECT_TRUE(out["frames"][1]["inferred"].is_null());
  EXPECT_EQ(json("--limit 60")["complete"], true);
}

TEST_F(Infer, WrongUseAndWhatIsNoRecord_AreOneSentenceAndCode2) {
  record(1);
  for (const char* options : {"--box 3..2", "--box -1..4", "--box 4", "--box 0..x", "--box 0...4",
                              "--box 0..99999999999999999999", "--limit 0", "--nonsense"}) {
    const Launched ran = infer(options);
    EXPECT_EQ(ran.exit_code, 2) << options;
    EXPECT_EQ(ran.output, "") << options;
    EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << options << errors;
  }
  const std::string kept = contents(file());
  for (const std::string& text : {std::string("garbage\n"), std::string(), kept.substr(0, 40),
                                  "{\"format\":\"lockstep.record/2\"}\n" + kept}) {
    std::ofstream(file(), std::ios::binary) << text;
    const Launched ran = infer("--json");
    EXPECT_EQ(ran.exit_code, 2) << text;
    EXPECT_EQ(ran.output, "");
    EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << errors;
  }
  for (const char* pattern : {"\"path\":\"[^\"]*\"", "\"arguments\":\\[\\]"}) {
    std::ofstream(file(), std::ios::binary) << kept;
    change_header(pattern, "\"path\":3");
    EXPECT_EQ(infer().exit_code, 2) << pattern;
  }
}

TEST_F(Infer, CutRecord_IsReadAsFarAsItsRanksGoTogether) {
  record(1);
  const std::string kept = contents(file());
  for (const std::size_t part : {3U, 2U}) {
    std::ofstream(file(), std::ios::binary) << kept.substr(0, kept.size() * (part - 1) / part);
    const Json out = json("--no-program");
    EXPECT_FALSE(out["notes"].empty());
    EXPECT_FALSE(out["frames"].empty());
  }
  std::filesystem::remove_all(directory());
  record(2);
  const std::string of_two = contents(file());
  std::ofstream(file(), std::ios::binary) << of_two.substr(0, of_two.size() / 2);
  EXPECT_EQ(infer("--json").exit_code, 2);
  EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << errors;
  EXPECT_NE(errors.find("is cut here"), std::string::npos) << errors;
}

}  // namespace
}  // namespace lockstep::worker::infer_test
