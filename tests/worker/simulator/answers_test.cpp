// What is said of a run afterwards, against a naive reading: sizes as the survey has them, what
// kept entries from serving, and marks that take recompiles away.
#include <map>
#include <set>
#include <tuple>

#include "random_scenario.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/agree/agreement/code_cache.h>
#include <lockstep/worker/simulator/answers/recompile.h>
#include <lockstep/worker/simulator/answers/suggestion.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/input/call_inputs.h>

namespace lockstep::worker::simulator::answers_test {
namespace {

Scenario read(const std::string& text) {
  auto scenario = parse_scenario(text, "test");
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  return *scenario;
}

/// 37 ranks that draw for themselves, after a call in which they are equal.
Scenario drawn_scenario() {
  return read(R"({"format": "lockstep.scenario/1", "world_size": 37, "generator": {"seed": 5,
    "calls": [{"frame": "step", "repeat": 9,
      "values": {"x": {"tensor": [{"uniform": [0, 40]}, 8]},
                 "y": {"tensor": [{"choice": [3, 5], "per": {"ranks": 4}}, {"uniform": [2, 9], "per": "call"}]},
                 "n": {"int": {"uniform": [1, 3]}}},
      "instead": [{"first": 1, "values": {"x": {"tensor": [16, 8]}, "y": {"tensor": [3, 4]}, "n": {"int": 2}}}]}]}})");
}

std::vector<Observation> by_rank(const Scenario& whole, std::size_t call,
                                 std::vector<std::string>& frames) {
  std::vector<Observation> out(static_cast<std::size_t>(whole.world_size));
  frames.assign(out.size(), {});
  for (const ScenarioGroup& group : whole.calls[call].groups)
    for (const RankSet::Run& run : group.ranks.runs())
      for (std::int32_t r = run.first; r <= run.last; ++r) {
        out[static_cast<std::size_t>(r)] = group.observation();
        frames[static_cast<std::size_t>(r)] = group.frame;
      }
  return out;
}

void expect_survey(const Scenario& scenario) {
  const Scenario whole = expanded(scenario);
  std::map<std::tuple<std::string, std::string>, std::vector<std::set<std::int64_t>>> seen;
  for (std::size_t c = 0; c < whole.calls.size(); ++c) {
    std::vector<std::string> frames;
    const auto ranks = by_rank(whole, c, frames);
    std::map<std::tuple<std::string, std::string>, std::set<std::int64_t>> here;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (!ranks[r].list) continue;
      for (std::size_t s = 0; s < ranks[r].list->sources().size(); ++s) {
        const SourceSpec& spec = ranks[r].list->sources()[s];
        if (spec.kind == Kind::Bool) continue;
        for (std::size_t d = 0; d < ranks[r].of(s).size(); ++d)
          here[{frames[r], spec.kind == Kind::Tensor ? size_text(spec.name, d) : spec.name}].insert(
              ranks[r].of(s)[d]);
      }
    }
    for (auto& [key, values] : here) seen[key].push_back(values);
  }
  const Survey found = survey(scenario);
  EXPECT_TRUE(found.whole);
  EXPECT_EQ(found.dims.size(), seen.size());
  for (const SurveyedDim& dim : found.dims) {
    const auto& calls = seen.at({dim.frame, dim.name()});
    std::set<std::int64_t> all;
    std::size_t apart = 0;
    for (const auto& values : calls) {
      all.insert(values.begin(), values.end());
      apart += values.size() > 1 ? 1 : 0;
    }
    EXPECT_EQ(dim.least, *all.begin()) << dim.name();
    EXPECT_EQ(dim.greatest, *all.rbegin()) << dim.name();
    EXPECT_EQ(dim.distinct, all.size()) << dim.name();
    EXPECT_EQ(dim.calls, calls.size()) << dim.name();
    EXPECT_EQ(dim.calls_apart, apart) << dim.name();
  }
}

TEST(Survey, RandomScenarios_AsCountedRankByRank) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    expect_survey(random_scenario(seed));
  }
}

TEST(Survey, RanksThatDrawForThemselves_AsCountedRankByRank) { expect_survey(drawn_scenario()); }

TEST(Survey, MoreValuesThanItLooksAt_ReachesAsFarAsCanBeDrawn) {
  const Survey found = survey(read(R"({"format": "lockstep.scenario/1", "world_size": 1000000,
    "generator": {"calls": [{"frame": "f", "repeat": 50,
      "values": {"x": {"tensor": [{"uniform": [7, 1000000000]}]}}}]}})"));
  EXPECT_FALSE(found.whole);
  ASSERT_EQ(found.dims.size(), 1U);
  EXPECT_EQ(found.dims[0].least, 7);
  EXPECT_EQ(found.dims[0].greatest, 1'000'000'000);
  EXPECT_EQ(found.dims[0].calls_apart, 50U);
}

/// The entry as rank `r` has it.
Entry entry_of(const CallResult& made, std::size_t r) {
  const Decision* decision = &*made.reported;
  for (const OwnDecision& own : made.own)
    if (own.ranks.contains(Rank{static_cast<std::int32_t>(r)})) decision = &own.decision;
  std::vector<SourceSpec> specs;
  for (const SourceDecision& source : decision->sources) specs.push_back(source.spec);
  return Entry::make(*decision, *decision, std::make_shared<const SourceList>(specs), {}, {});
}

/// Which ranks an entry does not fit, by the very test that a job's look-up makes.
void expect_unfit(const Scenario& scenario) {
  const DryRunResult result = dry_run(scenario, {.counterfactual = false, .progress = {}});
  const Scenario whole = expanded(scenario);
  for (const Recompile& recompile : explain_compiles(scenario, result)) {
    std::vector<std::string> frames;
    const auto ranks = by_rank(whole, recompile.call, frames);
    for (const UnfitEntry& unfit : recompile.entries) {
      const CallResult* made = nullptr;
      for (std::size_t c = 0; c < recompile.call; ++c)
        if (result.calls[c].reported && frame_called(scenario, c) == recompile.frame &&
            result.calls[c].outcome.entry == unfit.entry)
          made = &result.calls[c];
      ASSERT_NE(made, nullptr);
      RankSet expected;
      for (std::size_t r = 0; r < ranks.size(); ++r)
        if (!entry_of(*made, r).fits(ranks[r]))
          expected.insert({static_cast<int>(r), static_cast<int>(r)});
      EXPECT_EQ(unfit.ranks.named(), expected) << "call " << recompile.call;
      EXPECT_FALSE(expected.empty()) << "an entry that fits all is no reason to compile";
      RankSet named;
      for (const Obstacle& obstacle : unfit.obstacles) named.insert(obstacle.ranks.named());
      if (unfit.left_out > 0) continue;
      EXPECT_EQ(named, expected) << "every one of them has an obstacle";
    }
  }
}

TEST(Recompile, RandomScenarios_NameTheRanksThatALookUpFindsUnfit) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    expect_unfit(random_scenario(seed));
  }
}

TEST(Recompile, AFieldThatNoEntryServes_IsSaidWithBothValues) {
  const Scenario scenario = read(R"({"format": "lockstep.scenario/1", "world_size": 3, "calls": [
    {"frame": "f", "inputs": [
      {"ranks": "0-2", "values": {}, "fields": {"capacity": {"int": 512, "join": "max"}}}]},
    {"frame": "f", "inputs": [
      {"ranks": "0,2", "values": {}, "fields": {"capacity": {"int": 600, "join": "max"}}},
      {"ranks": "1", "values": {}, "fields": {"capacity": {"int": 5, "join": "max"}}}]}]})");
  const DryRunResult result = dry_run(scenario);
  const auto found = explain_compiles(scenario, result);
  ASSERT_EQ(found.size(), 2U);
  ASSERT_EQ(found[1].entries.size(), 1U);
  ASSERT_EQ(found[1].entries[0].obstacles.size(), 1U);
  EXPECT_EQ(found[1].entries[0].obstacles[0].text(),
            "ranks 0, 2: capacity is 600, the entry has max 512");
  const auto cause = uncoordinated_cause(scenario, 1);
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->text, "rank 0 gives capacity as 600, rank 1 as 5");
}

TEST(Recompile, RanksWithEntriesOfTheirOwn_AreAskedForTheirs) {
  const Scenario scenario = read(R"({"format": "lockstep.scenario/1", "world_size": 3,
    "config": {"consistency": "shared_sizes"}, "calls": [
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [5]}}},
                              {"ranks": "1-2", "values": {"x": {"tensor": [5]}, "y": {"tensor": [7]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [5]}}},
                              {"ranks": "1", "values": {"x": {"tensor": [5]}, "y": {"tensor": [7]}}},
                              {"ranks": "2", "values": {"x": {"tensor": [5]}, "y": {"tensor": [8]}}}]}]})");
  const DryRunResult result = dry_run(scenario);
  ASSERT_EQ(result.calls[0].own.size(), 2U);
  EXPECT_EQ(result.calls[0].own[0].ranks.text(), "0");
  EXPECT_EQ(result.calls[0].own[1].ranks.text(), "1-2");
  const auto found = explain_compiles(scenario, result);
  ASSERT_EQ(found.size(), 2U);
  ASSERT_EQ(found[1].entries.size(), 1U);
  ASSERT_EQ(found[1].entries[0].obstacles.size(), 1U);
  EXPECT_EQ(found[1].entries[0].obstacles[0].text(), "y.size(0) is 8 on rank 2, the entry has 7");
}

TEST(Recompile, EntriesOfOnesOwn_AreTheSameHoweverRanksAreFolded) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Scenario scenario = random_scenario(seed);
    const DryRunResult one = dry_run(scenario, Manner::EveryRank, {.counterfactual = false});
    const DryRunResult folded = dry_run(scenario, Manner::Folded, {.counterfactual = false});
    for (std::size_t c = 0; c < one.calls.size(); ++c) {
      const auto &a = one.calls[c].own, &b = folded.calls[c].own;
      EXPECT_EQ(a.empty(),
                !one.calls[c].reported || scenario.config.consistency != Consistency::SharedSizes);
      ASSERT_EQ(a.size(), b.size()) << seed;
      for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].ranks, b[i].ranks) << seed;
        EXPECT_EQ(program_of(a[i].decision), program_of(b[i].decision)) << seed;
      }
    }
  }
}

TEST(Recompile, RanksThatDrawForThemselves_AreNamedToo) { expect_unfit(drawn_scenario()); }

TEST(Recompile, SizeThatChanges_IsSaidWithRanksAndValues) {
  const Scenario scenario = read(R"({"format": "lockstep.scenario/1", "world_size": 4, "calls": [
    {"frame": "f", "inputs": [{"ranks": "0-3", "values": {"x": {"tensor": [5, 10]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0-2", "values": {"x": {"tensor": [5, 10]}}},
                              {"ranks": "3", "values": {"x": {"tensor": [6, 10]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0,2", "values": {"x": {"tensor": [1, 10]}}},
                              {"ranks": "1,3", "values": {"x": {"tensor": [0, 10]}}}]}]})");
  const auto found = explain_compiles(scenario, dry_run(scenario));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_TRUE(found[0].entries.empty());
  ASSERT_EQ(found[1].entries.size(), 1U);
  EXPECT_EQ(found[1].entries[0].obstacles.at(0).text(),
            "x.size(0) is 6 on rank 3, the entry has 5");
  ASSERT_EQ(found[2].entries.size(), 2U);
  EXPECT_EQ(found[2].entries[1].obstacles.at(0).text(),
            "x.size(0) is 0 to 1 on ranks 0-3, the entry needs at least 2");
}

TEST(Recompile, OtherInputs_AreNamed) {
  const Scenario scenario = read(R"({"format": "lockstep.scenario/1", "world_size": 2, "calls": [
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {"x": {"tensor": [5]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {"x": {"tensor": [5], "dtype": "i64"}}}]},
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {"mask": {"tensor": [5]}, "x": {"tensor": [5]}}}]}]})");
  const auto found = explain_compiles(scenario, dry_run(scenario));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[1].entries.at(0).obstacles.at(0).text(),
            "ranks 0-1 bring other inputs: x is a tensor i64 of 1 dim, in the entry it is a tensor "
            "f32 of 1 dim");
  EXPECT_EQ(found[2].entries.at(0).obstacles.at(0).text(),
            "ranks 0-1 bring other inputs: the entry has no input mask");
}

TEST(Recompile, RanksFarApart_AreCountedAndNotAllNamed) {
  TruncatedRankSet ranks;
  for (std::int32_t r = 0; r < 1000; r += 2) ranks.add(RankSet::of(Rank{r}));
  EXPECT_EQ(ranks.count(), 500);
  EXPECT_LT(ranks.named().size(), 40);
  EXPECT_TRUE(ranks.text().ends_with(", … (500)")) << ranks.text();
}

std::size_t compiles(const Scenario& scenario) {
  return totals(dry_run(scenario, {.counterfactual = false, .progress = {}})).compiles;
}

TEST(Suggestion, MarksThatAreFollowed_TakeTheRecompilesAway) {
  const std::string text = R"({"format": "lockstep.scenario/1", "world_size": 4,
    "generator": {"calls": [{"frame": "f", "repeat": 20,
      "values": {"x": {"tensor": [{"uniform": [4, 40], "per": "call"}, 8]},
                 "y": {"tensor": [{"uniform": [2, 9]}]}},
      "instead": [{"first": 2, "values": {"x": {"tensor": [16, 8]}, "y": {"tensor": [5]}}}]}]}})";
  const Scenario scenario = read(text);
  const DryRunResult result = dry_run(scenario);
  EXPECT_EQ(totals(result).compiles, 2U);
  const auto suggestions = suggest_marks(scenario, result, survey(scenario));
  ASSERT_EQ(suggestions.size(), 2U);
  EXPECT_EQ(suggestions[0].source, "x");
  EXPECT_EQ(suggestions[0].dim, 0U);
  EXPECT_EQ(compiles(with_marks(scenario, suggestions)), 1U);
  const MarkTexts texts = mark_texts(suggestions);
  EXPECT_NE(texts.cpp.find("lockstep::worker::mark_dynamic(x, 0);"), std::string::npos);
  EXPECT_NE(texts.python.find(R"(marks={"x": {0: "dynamic"}, "y": {0: "dynamic"}})"),
            std::string::npos)
      << texts.python;
  auto pasted = nlohmann::json::parse(text);
  auto& block = pasted["generator"]["calls"][0];
  const auto marks = nlohmann::json::parse(texts.scenario).at("f");
  block["values"].merge_patch(marks);
  block["instead"][0]["values"].merge_patch(marks);
  EXPECT_EQ(read(pasted.dump()), with_marks(scenario, suggestions));
}

TEST(Suggestion, RandomScenarios_MarksMakeNoErrors) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario scenario = random_scenario(seed);
    const DryRunResult before = dry_run(scenario);
    const DryRunResult after =
        dry_run(with_marks(scenario, suggest_marks(scenario, before, survey(scenario))));
    EXPECT_EQ(totals(after).errors, totals(before).errors);
  }
}

TEST(Suggestion, SizeThatOnlySettlingMadeASymbol_IsSuggestedWhereItVariedLater) {
  const Scenario scenario = read(R"({"format": "lockstep.scenario/1", "world_size": 1,
    "config": {"recompile_limit": 4, "settle": true}, "calls": [
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [4, 8, 2]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [5, 8, 2]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"x": {"tensor": [5, 9, 2]}}}]}]})");
  const auto suggestions = suggest_marks(scenario, dry_run(scenario), survey(scenario));
  ASSERT_EQ(suggestions.size(), 2U) << "the last dim never varied";
  EXPECT_EQ(suggestions[0].dim, 0U);
  EXPECT_EQ(suggestions[1].dim, 1U);
  EXPECT_EQ(suggestions[1].call, 1U);
}

TEST(Suggestion, IntThatBecameASymbol_IsNamedButNotMarked) {
  const Scenario scenario = read(R"({"format": "lockstep.scenario/1", "world_size": 1, "calls": [
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"n": {"int": 3}}}]},
    {"frame": "f", "inputs": [{"ranks": "0", "values": {"n": {"int": 4}}}]}]})");
  const auto suggestions = suggest_marks(scenario, dry_run(scenario), survey(scenario));
  ASSERT_EQ(suggestions.size(), 1U);
  EXPECT_FALSE(suggestions[0].dim);
  EXPECT_EQ(mark_texts(suggestions).cpp, "");
}

}  // namespace
}  // namespace lockstep::worker::simulator::answers_test
