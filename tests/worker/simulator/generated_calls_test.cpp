// Calls of the generator: who draws the same, what is called instead, and what epochs leave.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include <lockstep/worker/simulator/input/generator.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator::generated_calls_test {
namespace {

/// A scenario of one block; `world` and `keys` go into the world size and the generator.
std::string with_block(const std::string& block, int world = 12, const std::string& keys = {}) {
  return R"({"format": "lockstep.scenario/1", "world_size": )" + std::to_string(world) +
         R"(, "generator": {)" + keys + R"("calls": [)" + block + "]}}";
}
std::string with_size(const std::string& draw, int world = 12, const std::string& keys = {}) {
  return with_block(R"({"frame": "f", "repeat": 20, "values": {"x": {"tensor": [)" + draw + "]}}}",
                    world, keys);
}

Scenario read(const std::string& text, const ScenarioOptions& options = {}) {
  auto scenario = parse_scenario(text, "g.json", options);
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  return scenario ? expanded(*scenario) : Scenario{};
}

std::int64_t size_on(const ScenarioCall& call, int rank, const std::string& source = "x") {
  for (const ScenarioGroup& group : call.groups)
    if (group.ranks.contains(Rank{rank})) return group.values.at(source).sizes[0];
  return -1;
}

/// Sizes of 0 to a million: equal on two ranks if and only if they draw together, but for a chance
/// of a thousandth or less (the seeds are fixed).
template <class Together>
void expect_shared(const std::string& text, Together together) {
  const Scenario scenario = read(text);
  for (const ScenarioCall& call : scenario.calls)
    for (int a = 0; a < scenario.world_size; ++a)
      for (int b = 0; b < scenario.world_size; ++b)
        ASSERT_EQ(size_on(call, a) == size_on(call, b), together(a, b)) << a << " and " << b;
  std::set<std::int64_t> calls;
  for (const ScenarioCall& call : scenario.calls) calls.insert(size_on(call, 0));
  EXPECT_EQ(calls.size(), scenario.calls.size()) << "every call draws anew";
}

TEST(GeneratedCalls, PerHost_RanksOfAHostDrawTheSame) {
  expect_shared(
      with_size(R"({"uniform": [0, 1000000000], "per": "host"})", 11, R"("ranks_per_host": 4, )"),
      [](int a, int b) { return a / 4 == b / 4; });
}

TEST(GeneratedCalls, PerNeighbours_SoManyRanksDrawTheSame) {
  expect_shared(with_size(R"({"uniform": [0, 1000000000], "per": {"ranks": 5}})"),
                [](int a, int b) { return a / 5 == b / 5; });
}

TEST(GeneratedCalls, PerAxes_RanksThatDifferInOtherAxesDrawTheSame) {
  const std::string grid =
      R"("grid": [{"axis": "pipeline", "size": 2}, {"axis": "expert", "size": 3}, {"axis": "tensor", "size": 2}], )";
  const auto size = [&](const std::string& per) {
    return with_size(R"({"uniform": [0, 1000000000], "per": )" + per + "}", 24, grid);
  };
  // rank = ((data * 2 + pipeline) * 3 + expert) * 2 + tensor
  expect_shared(size(R"(["expert", "data", "pipeline"])"),
                [](int a, int b) { return a / 2 == b / 2; });
  expect_shared(size(R"(["data"])"), [](int a, int b) { return a / 12 == b / 12; });
  expect_shared(size(R"(["expert"])"), [](int a, int b) { return a / 2 % 3 == b / 2 % 3; });
  expect_shared(size(R"(["tensor", "data"])"),
                [](int a, int b) { return a % 2 == b % 2 && a / 12 == b / 12; });
  expect_shared(size("[]"), [](int, int) { return true; });
}

TEST(GeneratedCalls, LargerWorld_KeepsWhatRanksOfAGridDraw) {
  const std::string text =
      with_size(R"({"normal": {"mean": 500, "deviation": 90}, "per": ["data", "tensor"]})", 12,
                R"("grid": [{"axis": "expert", "size": 3}, {"axis": "tensor", "size": 2}], )");
  const Scenario small = read(text), large = read(text, {.world_size = 24, .seed = {}});
  for (std::size_t c = 0; c < small.calls.size(); ++c)
    for (int r = 0; r < 12; ++r) EXPECT_EQ(size_on(small.calls[c], r), size_on(large.calls[c], r));
}

TEST(GeneratedCalls, Global_IsOneValueForTheWholeRun) {
  const std::string block = R"({"frame": "f", "repeat": 10, "values": {
      "x": {"tensor": [{"uniform": [0, 1000000000], "per": "global"}]},
      "y": {"tensor": [{"uniform": [0, 1000000000], "per": "global"}]}},
      "instead": [{"every": 5, "values": {"y": {"tensor": [1]}}}]})";
  const Scenario scenario = read(with_block(block)),
                 other = read(with_block(block), {.world_size = {}, .seed = 9});
  for (const ScenarioCall& call : scenario.calls) {
    ASSERT_EQ(call.groups.size(), 1U);
    EXPECT_EQ(size_on(call, 0), size_on(scenario.calls[0], 0));
  }
  EXPECT_NE(size_on(scenario.calls[0], 0), size_on(scenario.calls[0], 0, "y"));
  EXPECT_NE(size_on(scenario.calls[0], 0), size_on(other.calls[0], 0));
}

TEST(GeneratedCalls, Share_AddsUpAndIsEven) {
  for (const int total : {0, 5, 12, 100}) {
    const Scenario scenario = read(with_size(R"({"share": )" + std::to_string(total) + "}"));
    int sum = 0;
    for (int r = 0; r < 12; ++r) {
      const auto size = static_cast<int>(size_on(scenario.calls[0], r));
      EXPECT_EQ(size, total * (r + 1) / 12 - total * r / 12)
          << "as the example deals its lines out";
      sum += size;
    }
    EXPECT_EQ(sum, total);
  }
}

TEST(GeneratedCalls, Batches_AreFullAsLongAsTheyLast) {
  const Scenario scenario =
      read(with_size(R"({"batches": {"total": 70, "batch": 8}, "per": {"ranks": 1}})"));
  for (int r = 0; r < 12; ++r) EXPECT_EQ(size_on(scenario.calls[3], r), r < 8 ? 8 : r == 8 ? 6 : 0);
}

TEST(GeneratedCalls, Instead_FirstEveryAndOwnFrames) {
  const Scenario scenario = read(with_block(R"({"frame": "train", "repeat": 25, "values": {
      "x": {"tensor": [{"uniform": [100, 200]}]}, "y": {"tensor": [3]}},
      "instead": [{"first": 2, "values": {"x": {"tensor": [4]}}},
                  {"every": 10, "frame": "evaluate", "values": {"z": {"tensor": [7]}}},
                  {"every": 5, "values": {"x": {"tensor": [{"share": 6}]}, "w": {"tensor": [1]}}}]})"));
  for (std::size_t i = 0; i < scenario.calls.size(); ++i) {
    const ScenarioCall& call = scenario.calls[i];
    const auto& values = call.groups[0].values;
    EXPECT_EQ(call.frame, i % 10 == 9 ? "evaluate" : "train") << i;
    if (i % 10 == 9) {
      EXPECT_EQ(values.size(), 1U) << "a frame of its own has values of its own";
      continue;
    }
    EXPECT_EQ(size_on(call, 0, "y"), 3);
    EXPECT_EQ(values.count("w"), i % 5 == 4 ? 1U : 0U);
    if (i < 2) {
      EXPECT_EQ(size_on(call, 11), 4);
    }
    if (i % 5 == 4) {
      EXPECT_EQ(size_on(call, 0), 0) << "the tail leaves nothing to rank 0";
    } else if (i >= 2) {
      EXPECT_GE(size_on(call, 0), 100);
    }
  }
}

TEST(GeneratedCalls, Probability_IsKeptAndTheSameOnAllRanks) {
  const auto evaluations = [](const std::string& probability) {
    const Scenario scenario = read(with_block(R"({"frame": "train", "repeat": 10000, "values": {},
        "instead": [{"probability": )" + probability +
                                              R"(, "frame": "evaluate", "values": {}}]})"));
    return std::count_if(scenario.calls.begin(), scenario.calls.end(),
                         [](const ScenarioCall& call) { return call.frame == "evaluate"; });
  };
  EXPECT_EQ(evaluations("0"), 0);
  EXPECT_EQ(evaluations("1"), 10'000);
  EXPECT_NEAR(static_cast<double>(evaluations("0.1")), 1000, 120);  // four deviations
}

TEST(GeneratedCalls, CallsOfBlocks_DoNotDependOnHowTheyAreAskedFor) {
  Generator generator;
  generator.seed = 3;
  for (int b = 0; b < 3; ++b) {
    Block block;
    block.repeat = b * 4;
    block.call.frame = std::to_string(b);
    block.call.like["x"].sizes = {0};
    Draw draw;
    draw.source = "x";
    draw.dim = 0;
    draw.from = Distribution::uniform(0, 3);
    draw.per.axes = {{.stride = 1, .size = 7}};
    block.call.draws = {draw};
    generator.blocks.push_back(block);
  }
  ASSERT_EQ(generator.count(), 12U);
  for (std::size_t i = 12; i-- > 0;) {
    const ScenarioCall call = generator.call(i, 7);
    EXPECT_EQ(call.frame, i < 4 ? "1" : "2");
    const Draw& draw = generator.kind(i).draws[0];
    for (int r = 0; r < 7; ++r) EXPECT_EQ(size_on(call, r), draw.at(draw.place(3, i, 0), r));
  }
}

class LengthsFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("lockstep_lengths." + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::filesystem::path folder_;
};

TEST_F(LengthsFolder, File_LiesBesideTheScenario) {
  (void)write("seen.csv", "length,count\n7,2\n9,1\n");
  const std::string path = write("s.json", with_size(R"({"lengths": "seen.csv", "min": 8})"));
  const auto scenario = load_scenario(path);
  ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
  std::set<std::int64_t> seen;
  const Scenario held = expanded(*scenario);
  for (const ScenarioCall& call : held.calls)
    for (int r = 0; r < 12; ++r) seen.insert(size_on(call, r));
  EXPECT_EQ(seen, (std::set<std::int64_t>{8, 9}));
}

TEST_F(LengthsFolder, BadFile_IsOneSentenceWithPathAndLine) {
  (void)write("bad.txt", "7\nseven\n");
  const std::string where = "generator.calls[0].values.x.tensor[0].lengths: ";
  for (const auto& [file, says] :
       {std::pair<std::string, std::string>{"bad.txt", "bad.txt:2: \"seven\" is no length"},
        {"none.txt", "cannot be opened"},
        {".", "is a directory"},
        {"../x", "is not a file beside the scenario"},
        {"/etc/passwd", "is not a file beside the scenario"},
        {"", "is not a file beside the scenario"}}) {
    const std::string path = write("s.json", with_size(R"({"lengths": ")" + file + "\"}"));
    const auto scenario = load_scenario(path);
    ASSERT_FALSE(scenario.has_value()) << file;
    const std::string& message = scenario.error().message;
    EXPECT_TRUE(message.starts_with(path + ": " + where)) << message;
    EXPECT_NE(message.find(says), std::string::npos) << message;
    EXPECT_TRUE(message.ends_with(".") && !message.ends_with("..")) << message;
  }
  const auto text = parse_scenario(with_size(R"({"lengths": "bad.txt"})"), "s.json");
  ASSERT_FALSE(text.has_value());
  EXPECT_NE(text.error().message.find("only where the scenario is a file"), std::string::npos);
}

TEST(GeneratedCalls, Mistakes_AreNamedWithPath) {
  const std::string size = "generator.calls[0].values.x.tensor[0]";
  const std::string variant = "generator.calls[0].instead[0]";
  const auto instead = [](const std::string& text) {
    return with_block(R"({"frame": "f", "values": {}, "instead": [)" + text + "]}");
  };
  const auto grid = [](const std::string& text) {
    return with_block("", 12, "\"grid\": " + text + ", ");
  };
  struct Bad {
    std::string text, path, says;
  };
  for (const Bad& bad : {
           Bad{with_size(R"({"uniform": [1, 2], "per": "host"})"),
               size + ".per: ", "ranks_per_host"},
           {with_size(R"({"uniform": [1, 2], "per": 3})"), size + ".per: ", "a string"},
           {with_size(R"({"uniform": [1, 2], "per": {"ranks": 0}})"),
            size + ".per.ranks: ", "out of range"},
           {with_size(R"({"uniform": [1, 2], "per": {}})"), size + ".per.ranks: ", "missing"},
           {with_size(R"({"uniform": [1, 2], "per": ["tensor"]})"), size + ".per: ", "grid"},
           {with_size(R"({"uniform": [1, 2], "per": ["x"]})", 12,
                      R"("grid": [{"axis": "t", "size": 2}], )"),
            size + ".per[0]: ", "data, t"},
           {with_size(R"({"uniform": [1, 2], "per": ["t", "t"]})", 12,
                      R"("grid": [{"axis": "t", "size": 2}], )"),
            size + ".per[1]: ", "twice"},
           {with_size(R"({"uniform": [1, 2], "choice": [1]})"), size + ": ", "uniform and choice"},
           {with_size(R"({"uniform": [1, 2], "min": 5, "max": 4})"), size + ".min: ", "above max"},
           {with_size(R"({"uniform": [1, 2], "min": -1})"), size + ".min: ", "too small"},
           {with_size(R"({"share": 3, "min": 1})"), size + ": ", "do not go with share"},
           {with_size(R"({"share": -3})"), size + ".share: ", "too small"},
           {with_size(R"({"batches": {"total": 3, "batch": 0}})"),
            size + ".batches.batch: ", "too small"},
           {with_size(R"({"normal": {"mean": 3}})"), size + ".normal.deviation: ", "missing"},
           {with_size(R"({"normal": {"mean": 3, "deviation": 0}})"),
            size + ".normal.deviation: ", "out of range"},
           {with_size(R"({"normal": {"mean": 3, "deviation": 1e9}})"),
            size + ".normal: ", "1048576 different values"},
           {with_size(R"({"lognormal": {"median": 9, "sigma": 17}})"),
            size + ".lognormal.sigma: ", "out of range"},
           {with_size(R"({"lognormal": {"median": 9, "sigma": "1"}})"),
            size + ".lognormal.sigma: ", "a number"},
           {with_size(R"({"zipf": {"exponent": 1, "count": 0}})"),
            size + ".zipf.count: ", "out of range"},
           {with_size(R"({"zipf": {"exponent": -1, "count": 5}})"),
            size + ".zipf.exponent: ", "out of range"},
           {with_size(R"({"histogram": {"values": [1], "weights": [1, 2]}})"),
            size + ".histogram.weights: ", "2 weights for 1 values"},
           {with_size(R"({"histogram": {"values": [1], "weights": [0]}})"),
            size + ".histogram.weights: ", "above 0"},
           {with_size(R"({"histogram": {"values": [], "weights": []}})"),
            size + ".histogram.weights: ", "above 0"},
           {with_size(R"({"histogram": {"values": [1, 2], "weights": [9223372036854775807, 1]}})"),
            size + ".histogram.weights: ", "64 bits"},
           {with_size(R"({"histogram": {"values": [-1], "weights": [1]}})"),
            size + ".histogram.values[0]: ", "too small"},
           {with_size(R"({"lengths": 3})"), size + ".lengths: ", "a string"},
           {instead("{}"), variant + ": ", "one of first, every, probability"},
           {instead(R"({"first": 1, "every": 2, "values": {}})"), variant + ": ", "one of first"},
           {instead(R"({"first": 0, "values": {}})"), variant + ".first: ", "out of range"},
           {instead(R"({"probability": 1.5, "values": {}})"),
            variant + ".probability: ", "out of range"},
           {instead(R"({"every": 2})"), variant + ".values: ", "missing"},
           {instead(R"({"every": 2, "values": 3})"), variant + ".values: ", "an object"},
           {instead(R"({"every": 2, "values": {"x": {"tensor": [{"share": true}]}}})"),
            variant + ".values.x.tensor[0].share: ", "an integer"},
           {instead(R"({"every": 2, "values": {}, "ranks": "0"})"),
            variant + ".ranks: ", "unknown key"},
           {grid("[]"), "generator.grid: ", "0 axes"},
           {grid(R"([{"axis": "a", "size": 2}, {"axis": "a", "size": 2}])"),
            "generator.grid[1].axis: ", "twice"},
           {grid(R"([{"axis": "data", "size": 2}])"),
            "generator.grid[0].axis: ", "leave of the world"},
           {grid(R"([{"axis": "a", "size": 5}])"), "generator.grid: ", "no multiple"},
           {grid(R"([{"axis": "a"}])"), "generator.grid[0].size: ", "missing"},
           {with_block("", 12, R"("ranks_per_host": 0, )"),
            "generator.ranks_per_host: ", "out of range"},
       }) {
    const auto scenario = parse_scenario(bad.text, "g.json");
    ASSERT_FALSE(scenario.has_value()) << bad.text;
    EXPECT_TRUE(scenario.error().message.starts_with("g.json: " + bad.path))
        << scenario.error().message;
    EXPECT_NE(scenario.error().message.find(bad.says), std::string::npos)
        << scenario.error().message;
  }
}

}  // namespace
}  // namespace lockstep::worker::simulator::generated_calls_test
