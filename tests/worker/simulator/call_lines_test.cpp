#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "random_scenario.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <lockstep/worker/simulator/answers/comparison.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/draw/regular_file.h>
#include <lockstep/worker/simulator/input/partition.h>
#include <lockstep/worker/simulator/input/scenario.h>
#include <lockstep/worker/simulator/report/report.h>

namespace lockstep::worker::simulator::call_lines_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// A file that is gone at the end.
class File {
 public:
  explicit File(const std::string& ending) {
    std::string folder = testing::TempDir() + "lockstep-lines-XXXXXX";
    folder_ = mkdtemp(folder.data());
    path_ = (folder_ / ("calls" + ending)).string();
  }
  ~File() { fs::remove_all(folder_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  void write(const std::string& text) const { std::ofstream(path_) << text; }

 private:
  fs::path folder_;
  std::string path_;
};

/// The same scenario with every call on a line of its own.
std::string as_lines(ordered_json document) {
  ordered_json calls = ordered_json::array();
  if (document.contains("calls")) calls = document["calls"];
  document.erase("calls");
  std::string out = document.dump();
  for (const auto& call : calls) out += "\n" + call.dump();
  return out;
}

/// A random scenario, with more sections in some.
ordered_json random_document(std::uint64_t seed) {
  ordered_json out = ordered_json::parse(scenario_text(random_scenario(seed)));
  if (seed % 3 == 0)
    out["generator"] = ordered_json::parse(
        R"({"calls": [{"frame": "f", "repeat": 3, "values": {"x": {"tensor": [{"uniform": [0, 3]}, 4]}}}],
            "absent": [{"call": 1, "ranks": "0"}]})");
  if (seed % 4 == 0) out["cost"] = ordered_json::parse(R"({"network": "tcp"})");
  if (seed % 5 == 0 && !out["calls"].empty())
    out["faults"] = ordered_json::parse(
        R"({"deadline_s": 9, "list": [{"fault": "branch", "ranks": "0", "call": 0}]})");
  return out;
}

/// Everything that a dry run says of a scenario.
std::string answers(const Scenario& scenario) {
  Profiles learnt;
  DryRunOptions options{.compare = true};
  options.learnt = &learnt;
  DryRunResult result = dry_run(scenario, options);
  const std::vector<RunVariant> variants = compare_variants(scenario, result, learnt);
  result.compare = variants;
  Report report = make_report("job", false, scenario, result);
  report.variants = variants;
  return result_json(result) + report_document(report);
}

TEST(CallLines, RandomScenarios_GiveTheBytesOfTheJson) {
  const File file(".jsonl");
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const ordered_json document = random_document(seed);
    const auto held = parse_scenario(document.dump(), "job");
    ASSERT_TRUE(held.has_value()) << held.error().message;
    file.write(as_lines(document) + (seed % 2 == 0 ? "\n" : ""));
    const auto stored = load_scenario(file.path());
    ASSERT_TRUE(stored.has_value()) << "seed " << seed << ": " << stored.error().message;
    EXPECT_TRUE(stored->calls.empty());
    ASSERT_EQ(expanded(*stored), expanded(*held)) << "seed " << seed;
    ASSERT_EQ(answers(*stored), answers(*held)) << "seed " << seed;
    ASSERT_FALSE(stored->error().has_value());
  }
}

TEST(CallLines, Mistakes_AreNamedWithLineAndPath) {
  const std::string head = R"({"format": "lockstep.scenario/1", "world_size": 4})";
  const std::string call = R"({"frame": "f", "inputs": [{"ranks": "0-3", "values": {}}]})";
  struct Bad {
    std::string text;
    const char *where, *says;
  };
  for (
      const Bad& bad :
      {Bad{"", ":1: ", "line is empty"}, Bad{"\n" + head, ":1: ", "line is empty"},
       Bad{head + "\n" + call + "\n\n" + call, ":3: ", "line is empty"},
       Bad{head + "\n" + call + "\n{\"frame\": ", ":3: frame: ", "not JSON"},
       Bad{head + "\n" + call + "\n[1, x]", ":3: ", "at column 5"},
       Bad{head + "\n[]", ":2: ", "expected an object"},
       Bad{head + "\n" + call + "\n" +
               R"({"frame": "f", "inputs": [{"ranks": "4", "values": {}}]})",
           ":3: inputs[0].ranks: ", "outside the world"},
       Bad{R"({"format": "lockstep.scenario/1", "world_size": 4, "calls": []})",
           ":1: calls: ", "a line of its own"},
       Bad{R"({"format": "lockstep.scenario/1", "world_size": 0})", ":1: world_size: ", "out of"},
       Bad{R"({"format": "lockstep.scenario/1", "world_size": 4, "faults":
            {"list": [{"fault": "crashed", "ranks": "0", "call": 1}]}})" +
               std::string("\n") + call,
           ":1: ", "not JSON"},
       Bad{R"({"format": "lockstep.scenario/1", "world_size": 4, "faults": {"list": [{"fault": "crashed", "ranks": "0", "call": 1}]}})"
           "\n" +
               call,
           ":1: faults.list[0].call: ", ""}}) {
    const File file(".jsonl");
    file.write(bad.text);
    const auto scenario = load_scenario(file.path());
    ASSERT_FALSE(scenario.has_value()) << bad.text;
    const std::string& message = scenario.error().message;
    EXPECT_EQ(scenario.error().code, Code::BadInput);
    EXPECT_TRUE(message.starts_with(file.path() + bad.where)) << message;
    EXPECT_NE(message.find(bad.says), std::string::npos) << message;
    EXPECT_TRUE(message.ends_with('.')) << message;
  }
}

// Whatever becomes of the file, a run comes to its end and then says so.
TEST(CallLines, FileChangedAfterwards_IsOneErrorWithItsLine) {
  const File file(".jsonl");
  int seen = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const ordered_json document = random_document(seed);
    const std::string whole = as_lines(document);
    std::mt19937_64 random(seed);
    const std::size_t first = whole.find('\n');
    if (first == whole.npos) continue;
    file.write(whole);
    const auto scenario = load_scenario(file.path());
    ASSERT_TRUE(scenario.has_value());
    std::string changed = whole;
    const std::size_t at = first + 1 + random() % (whole.size() - first - 1);
    if (whole[at] == '\n') continue;
    if (seed % 3 == 0)
      changed.resize(at);
    else
      changed[at] = changed[at] == '1' ? '2' : '1';
    if (seed % 7 == 0)
      fs::remove(file.path());
    else
      file.write(changed);
    (void)answers(*scenario);
    if (changed == whole) continue;
    const auto error = scenario->error();
    ASSERT_TRUE(error.has_value()) << "seed " << seed;
    const auto line =
        std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
    const std::string says = seed % 7 == 0 ? ": cannot be opened"
                                           : ":" + std::to_string(line) + ": the file was changed";
    EXPECT_TRUE(error->message.starts_with(file.path() + says)) << error->message;
    ++seen;
  }
  EXPECT_GE(seen, 20);
}

TEST(CallLines, Pipe_IsRefusedAtOnce) {
  const File file(".jsonl");
  ASSERT_EQ(mkfifo(file.path().c_str(), 0600), 0);
  const auto scenario = load_scenario(file.path());
  ASSERT_FALSE(scenario.has_value());
  EXPECT_NE(scenario.error().message.find("a regular file is expected"), std::string::npos)
      << scenario.error().message;
  EXPECT_FALSE(load_scenario("/dev/zero").has_value());
}

TEST(ReadFile, Pipe_IsReadToItsEndOrGivenUp) {
  const File file(".json");
  ASSERT_EQ(mkfifo(file.path().c_str(), 0600), 0);
  const auto never = read_file(file.path(), SIZE_MAX, std::chrono::milliseconds(50));
  ASSERT_FALSE(never.has_value());
  EXPECT_TRUE(never.error().message.ends_with("nothing has come out of this pipe for 0.05 s."))
      << never.error().message;
  const std::string text(3'000'000, 'x');
  for (const std::size_t most : {SIZE_MAX, std::size_t{1000}}) {
    std::jthread writer([&] {
      signal(SIGPIPE, SIG_IGN);
      std::ofstream(file.path()) << text;
    });
    const auto all = read_file(file.path(), most);
    EXPECT_EQ(all.has_value(), most == SIZE_MAX);
    EXPECT_TRUE(!all || *all == text);
  }
}

TEST(LineReader, LinesOfAnyLength_AreThoseOfTheText) {
  const File file(".txt");
  std::mt19937_64 random(5);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> lines;
    std::string text;
    for (std::uint64_t i = 0; i < random() % 30; ++i) {
      lines.emplace_back(random() % 4 == 0 ? random() % 700'000 : random() % 90,
                         static_cast<char>('a' + i % 26));
      text += lines.back() + "\n";
    }
    const bool cut =
        round % 2 == 0 && !text.empty() && text.size() > 1 && text[text.size() - 2] != '\n';
    if (cut) text.pop_back();
    file.write(text);
    const auto open = RegularFile::open(file.path());
    ASSERT_TRUE(open.has_value());
    EXPECT_EQ(open->size(), text.size());
    LineReader reader(*open);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto line = reader.next();
      ASSERT_TRUE(line.has_value() && line->has_value()) << round << " " << i;
      ASSERT_EQ((*line)->text, lines[i]);
      ASSERT_EQ(text.compare((*line)->offset, lines[i].size(), lines[i]), 0);
      ASSERT_EQ((*line)->whole, !cut || i + 1 < lines.size());
    }
    const auto end = reader.next();
    ASSERT_TRUE(end.has_value());
    EXPECT_FALSE(end->has_value());
    const auto all = read_file(file.path());
    ASSERT_TRUE(all.has_value());
    EXPECT_EQ(*all, text);
    if (text.empty()) continue;
    EXPECT_FALSE(read_file(file.path(), text.size() - 1).has_value());
    EXPECT_EQ(read_file(file.path(), text.size()).value(), text);
  }
}

// The naive way: rank by rank, by the list of groups that each was in.
TEST(RankPartition, RandomCalls_GiveRanksThatAreTogetherInAll) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    std::mt19937_64 random(seed);
    const int world = static_cast<int>(1 + random() % 20);
    RankPartition partition(world);
    std::vector<std::vector<int>> past(static_cast<std::size_t>(world));
    std::vector<ScenarioCall> calls(1 + random() % 4);
    for (ScenarioCall& call : calls) {
      call.groups.resize(random() % 4);
      for (int r = 0; r < world; ++r) {
        const auto g = static_cast<int>(random() % (call.groups.size() + 1)) - 1;
        if (g >= 0) call.groups[static_cast<std::size_t>(g)].ranks.insert(RankSet::of(Rank{r}));
        past[static_cast<std::size_t>(r)].push_back(g);
      }
      partition.add(call);
    }
    std::map<std::vector<int>, RankSet> alike;
    for (int r = 0; r < world; ++r) alike[past[static_cast<std::size_t>(r)]].insert({r, r});
    std::map<int, std::pair<RankSet, std::vector<int>>> expected;  // by lowest rank
    for (const auto& [groups, ranks] : alike) expected[ranks.lowest().value] = {ranks, groups};
    const std::vector<RankClass> classes = partition.classes();
    ASSERT_EQ(classes.size(), expected.size()) << "seed " << seed;
    std::size_t c = 0;
    for (const auto& [lowest, of] : expected) {
      ASSERT_EQ(classes[c].ranks, of.first) << "seed " << seed;
      for (std::size_t i = 0; i < calls.size(); ++i)
        ASSERT_EQ(groups_of(classes, calls[i])[c], of.second[i]) << "seed " << seed;
      ++c;
    }
  }
}

}  // namespace
}  // namespace lockstep::worker::simulator::call_lines_test
