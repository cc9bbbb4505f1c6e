#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "random_scenario.h"
#include "recorded_job.h"
#include <gtest/gtest.h>

#include <lockstep/worker/simulator/answers/comparison.h>
#include <lockstep/worker/simulator/answers/recorded_answers.h>
#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/cluster/cost_report.h>
#include <lockstep/worker/simulator/input/recorded_costs.h>

namespace lockstep::worker::simulator::recorded_answers_test {
namespace {

namespace fs = std::filesystem;

class RecordedAnswers : public testing::Test {
 protected:
  RecordedAnswers() {
    std::string name = testing::TempDir() + "lockstep-answers-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~RecordedAnswers() override { fs::remove_all(folder_); }
  std::string directory(std::uint64_t number) const {
    return (folder_ / std::to_string(number)).string();
  }

 private:
  fs::path folder_;
};

CostModel cost() {
  CostModel out;
  out.network = *parse_network("tcp", "");
  return out;
}

/// What a record holds of a scenario: the calls that all ranks make, with the frames they call. The
/// scenario that is made of a record has no orders of dims, which weigh some bytes.
Scenario recorded_part(Scenario scenario) {
  std::erase_if(scenario.calls, [&](const ScenarioCall& call) {
    return call.present != RankSet::all(scenario.world_size);
  });
  for (ScenarioCall& call : scenario.calls) {
    call.frame.reset();
    for (ScenarioGroup& group : call.groups)
      for (auto& [name, value] : group.values) value.strides.clear();
  }
  return scenario;
}

bool alike(const DryRunResult& a, const DryRunResult& b) {
  for (std::size_t i = 0; i < a.calls.size(); ++i) {
    if (outcome_text(a.calls[i].outcome) != outcome_text(b.calls[i].outcome)) return false;
    const auto &one = a.calls[i].reported, &other = b.calls[i].reported;
    if (one && other && program_of(*one) != program_of(*other)) return false;
  }
  return a.rounds == b.rounds;
}

/// Who has which entry, where ranks have entries of their own.
std::string own_text(const DryRunResult& result) {
  std::string out;
  for (const CallResult& call : result.calls)
    for (const OwnDecision& own : call.own)
      out += own.ranks.text() + " " + program_of(own.decision).text() + "\n";
  return out;
}

// Where the inputs alone explain the record, the answers are those of the scenario that was
// recorded; where not, there is no time and a sentence.
TEST_F(RecordedAnswers, RandomJobs_AnswerAsTheirScenario) {
  int explained = 0, not_explained = 0, own = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Scenario scenario = recorded_part(random_scenario(seed));
    record_job(scenario, directory(seed));
    const auto ranks = read_record(directory(seed));
    ASSERT_TRUE(ranks.has_value());
    auto again = replay(*ranks);
    ASSERT_TRUE(again.has_value());
    scenario.cost = cost();
    Profiles learnt;
    DryRunOptions how;
    how.learnt = &learnt;
    const DryRunResult dry = dry_run(scenario, how);
    std::vector<std::string> notes;
    const auto variants = answer(*ranks, {.compare = true, .cost = cost()}, again->result, notes);
    if (!alike(dry, again->result)) {
      ++not_explained;
      ASSERT_FALSE(variants.has_value()) << "seed " << seed;
      EXPECT_NE(variants.error().message.find("cannot be told"), std::string::npos);
      EXPECT_FALSE(again->result.timing.has_value());
      ASSERT_TRUE(answer(*ranks, {.compare = true}, again->result, notes).has_value());
      EXPECT_EQ(notes.size(), 1U);
      continue;
    }
    ++explained;
    ASSERT_TRUE(variants.has_value()) << "seed " << seed << ": " << variants.error().message;
    EXPECT_TRUE(notes.empty());
    EXPECT_EQ(calls_csv(again->result), calls_csv(dry)) << "seed " << seed;
    EXPECT_EQ(own_text(again->result), own_text(dry)) << "seed " << seed;
    own += own_text(dry).empty() ? 0 : 1;
    EXPECT_EQ(*variants, compare_variants(scenario, dry, learnt)) << "seed " << seed;
  }
  EXPECT_GE(explained, 20);
  EXPECT_GE(not_explained, 20);
  EXPECT_GE(own, 5);
}

TEST_F(RecordedAnswers, JobThatStartedFromAProfile_IsSaidTo) {
  {
    auto recorder = Recorder::open(directory(0), {1, Rank{0}, {}, "test"});
    ASSERT_TRUE(recorder.has_value());
    (*recorder)->restored("f", {});
    RoundKey key;
    key.group = "world";
    key.frame = "f";
    CodeCache frame(key.frame);
    (*recorder)->began(CallMachine(Rank{0}, 2, {}, key, frame, observation_of({})));
  }
  const auto ranks = read_record(directory(0));
  ASSERT_TRUE(ranks.has_value()) << ranks.error().message;
  auto again = replay(*ranks);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  std::vector<std::string> notes;
  const auto timed = answer(*ranks, {.cost = cost()}, again->result, notes);
  ASSERT_FALSE(timed.has_value());
  EXPECT_NE(timed.error().message.find("what an earlier run had learnt"), std::string::npos);
  ASSERT_TRUE(answer(*ranks, {.compare = true}, again->result, notes).has_value());
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("what an earlier run had learnt"), std::string::npos);
}

// The first version, as `stored`, was bytes without a seal.
TEST_F(RecordedAnswers, StateInRecordsOfBothVersions_IsTheSame) {
  const FrameState state{{"n", shapes::Dynamism::of_int(-7)}};
  {
    auto recorder = Recorder::open(directory(0), {1, Rank{0}, {}, "test"});
    ASSERT_TRUE(recorder.has_value());
    (*recorder)->restored("f", state);
    RoundKey key;
    key.group = "world";
    key.frame = "f";
    CodeCache frame(key.frame);
    (*recorder)->began(CallMachine(Rank{0}, 2, {}, key, frame, observation_of({})));
  }
  const auto restored = [&] {
    std::optional<FrameState> seen;
    const auto ranks = read_record(
        directory(0), [&](const RankRecord&, const RecordedCall& call) { seen = call.stored; });
    return ranks ? seen : std::nullopt;
  };
  EXPECT_EQ(restored(), state);
  const std::string file = directory(0) + "/rank-00000.jsonl";
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  const std::string first = R"("stored":{"hex":"0101000000010000006e)" + std::string(32, '0') +
                            R"(01f9ffffffffffffff0200000000020000000000000000"})";
  const std::string old =
      std::regex_replace(text.str(), std::regex(R"re("profile":\{"hex":"[0-9a-f]*"\})re"), first);
  ASSERT_NE(old, text.str());
  std::ofstream(file) << old;
  EXPECT_EQ(restored(), state);
  std::ofstream(file) << std::regex_replace(old, std::regex("0101000000"), "0101000040");
  EXPECT_EQ(restored(), std::nullopt) << "a size that is too large";
}

TEST_F(RecordedAnswers, GroupsOfRanks_AreRefused) {
  const RankSet half = RankSet::of(Rank{0});
  for (int r = 0; r < 2; ++r) {
    auto recorder = Recorder::open(directory(0), {2, Rank{r}, {}, "test"});
    ASSERT_TRUE(recorder.has_value());
    (*recorder)->group("half", half);
    if (r > 0) continue;
    RoundKey key;
    key.group = "half";
    key.frame = "f";
    CodeCache frame(key.frame);
    (*recorder)->began(CallMachine(Rank{0}, 2, {}, key, frame, observation_of({})));
  }
  const auto ranks = read_record(directory(0));
  ASSERT_TRUE(ranks.has_value());
  auto again = replay(*ranks);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  std::vector<std::string> notes;
  EXPECT_TRUE(answer(*ranks, {}, again->result, notes).has_value());
  const auto variants = answer(*ranks, {.compare = true}, again->result, notes);
  ASSERT_FALSE(variants.has_value());
  EXPECT_NE(variants.error().message.find("groups of ranks"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::worker::simulator::recorded_answers_test
