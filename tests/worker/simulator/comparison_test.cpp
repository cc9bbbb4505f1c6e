// The ways compared: upstream's model against a second, naive reading of its rules, the others
// against the runs that they stand for; and sweeps.
#include <map>
#include <set>

#include "random_scenario.h"
#include <gtest/gtest.h>

#include <lockstep/worker/simulator/answers/comparison.h>
#include <lockstep/worker/simulator/answers/pytorch_model.h>
#include <lockstep/worker/simulator/answers/sweep.h>

namespace lockstep::worker::simulator::comparison_test {
namespace {

Scenario read(const std::string& text) {
  auto scenario = parse_scenario(text, "test");
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  return *scenario;
}

/// One size or int as a rank knows it: what was seen, and whether more than one value was.
struct Known {
  bool any = false, dynamic = false;
  std::int64_t value = 0;
  void see(std::int64_t v) {
    dynamic |= any && v != value;
    if (!any) value = v;
    any = true;
  }
};

/// One rank of the naive reading. A source is known as a tensor of some ndim or as an int; another
/// kind or ndim makes all of it dynamic.
struct NaiveRank {
  struct Source {
    bool all = false;  // dynamic, whatever it is
    std::optional<std::size_t> ndim;
    bool is_int = false, is_tensor = false;
    std::map<std::size_t, Known> dims;
    Known number;
  };
  struct Entry {
    std::map<std::string, std::string> program;  // "x|0" -> "5", "s", "u"
    std::map<std::string, Mark> marks;
    std::string list;
  };
  std::map<std::string, std::map<std::string, Source>> frames;
  std::map<std::string, std::vector<Entry>> entries;  // last used first
};

std::string list_of(const ScenarioValues& values) {
  std::string out;
  for (const auto& [name, value] : values)
    out += name + ":" + std::to_string(static_cast<int>(value.kind)) + ":" +
           std::to_string(value.kind == Kind::Tensor ? static_cast<int>(value.dtype) : 0) + ":" +
           std::to_string(value.sizes.size()) + ";";
  return out;
}

bool fits(const NaiveRank::Entry& entry, const ScenarioValues& values) {
  if (entry.list != list_of(values)) return false;
  for (const auto& [name, value] : values) {
    const auto check = [&](const std::string& key, std::int64_t v, bool size) {
      const std::string& use = entry.program.at(key);
      return use == "u" || (use == "s" ? !size || v >= 2 : use == std::to_string(v));
    };
    if (value.kind == Kind::Int || value.kind == Kind::Bool)
      if (!check(name, value.number, false)) return false;
    for (std::size_t d = 0; d < value.sizes.size(); ++d) {
      const std::string key = name + "|" + std::to_string(d);
      if (!check(key, value.sizes[d], true)) return false;
      const Mark mark = value.marks.empty() ? Mark::None : value.marks[d];
      if (mark != Mark::None && entry.marks.at(key) != mark) return false;
    }
  }
  return true;
}

/// The rules of answers/README.md, "Ways compared", rank by rank on plain maps.
RunVariant naive_upstream(const Scenario& given) {
  const Scenario scenario = expanded(given);
  RunVariant out;
  out.name = "upstream";
  std::vector<NaiveRank> ranks(static_cast<std::size_t>(scenario.world_size));
  for (std::size_t c = 0; c < scenario.calls.size(); ++c) {
    std::vector<const ScenarioGroup*> of(ranks.size());
    std::set<std::string> names;
    for (const ScenarioGroup& group : scenario.calls[c].groups)
      for (const RankSet::Run& run : group.ranks.runs())
        for (std::int32_t r = run.first; r <= run.last; ++r) {
          of[static_cast<std::size_t>(r)] = &group;
          names.insert(group.frame);
        }
    if (names.size() != 1 || std::count(of.begin(), of.end(), nullptr) > 0) {
      ++out.errors;
      continue;
    }
    const std::string frame = *names.begin();
    std::vector<int> hits(ranks.size(), -1);
    bool all_hit = true;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const auto& entries = ranks[r].entries[frame];
      for (std::size_t e = 0; e < entries.size() && hits[r] < 0; ++e)
        if (fits(entries[e], of[r]->values)) hits[r] = static_cast<int>(e);
      all_hit &= hits[r] >= 0;
    }
    if (all_hit) {
      ++out.reuses;
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        auto& entries = ranks[r].entries[frame];
        std::rotate(entries.begin(), entries.begin() + hits[r], entries.begin() + hits[r] + 1);
      }
    } else if (ranks[0].entries[frame].size() >=
               static_cast<std::size_t>(scenario.config.recompile_limit)) {
      ++out.fallbacks;
      continue;
    } else {
      auto after = ranks;
      bool violated = false;
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        auto& state = after[r].frames[frame];
        for (const auto& [name, mine] : of[r]->values) {
          NaiveRank::Source& source = state[name];
          for (const ScenarioGroup* other : of) {
            const auto theirs = other->values.find(name);
            if (theirs == other->values.end()) continue;
            const ScenarioValue& value = theirs->second;
            if (value.kind == Kind::Int) {
              source.is_int = true;
              source.number.see(value.number);
            } else if (value.kind == Kind::Tensor) {
              source.is_tensor = true;
              source.all |= source.ndim && *source.ndim != value.sizes.size();
              source.ndim = value.sizes.size();
              for (std::size_t d = 0; d < value.sizes.size(); ++d) {
                source.dims[d].see(value.sizes[d]);
                if (!value.marks.empty() && value.marks[d] == Mark::Dynamic)
                  source.dims[d].dynamic = true;
              }
            }
          }
          source.all |= source.is_int && source.is_tensor;
        }
        NaiveRank::Entry entry;
        entry.list = list_of(of[r]->values);
        for (const auto& [name, value] : of[r]->values) {
          const NaiveRank::Source& source = state[name];
          const bool history = scenario.config.automatic_dynamic;
          if (value.kind == Kind::Bool) entry.program[name] = std::to_string(value.number);
          if (value.kind == Kind::Int)
            entry.program[name] = history && (source.all || source.number.dynamic)
                                      ? "s"
                                      : std::to_string(value.number);
          for (std::size_t d = 0; d < value.sizes.size(); ++d) {
            const std::string key = name + "|" + std::to_string(d);
            const Mark mark = value.marks.empty() ? Mark::None : value.marks[d];
            entry.marks[key] = mark;
            bool symbol =
                mark == Mark::Dynamic || mark == Mark::MaybeDynamic || mark == Mark::Uniform;
            if (mark == Mark::None) symbol = history && (source.all || source.dims.at(d).dynamic);
            if (symbol && value.sizes[d] < 2 && mark == Mark::Dynamic) violated = true;
            entry.program[key] = mark == Mark::Unbacked          ? "u"
                                 : symbol && value.sizes[d] >= 2 ? "s"
                                                                 : std::to_string(value.sizes[d]);
          }
        }
        auto& entries = after[r].entries[frame];
        entries.insert(entries.begin(), std::move(entry));
      }
      if (violated) {
        ++out.errors;
        continue;
      }
      ranks = std::move(after);
      ++out.compiles;
      ++out.compiles_per_rank_max;
      ++out.restarts_per_rank_max;
    }
    std::set<std::pair<std::string, std::map<std::string, std::string>>> programs;
    for (NaiveRank& rank : ranks)
      programs.emplace(rank.entries[frame].front().list, rank.entries[frame].front().program);
    out.distinct_graphs_max = std::max(out.distinct_graphs_max, static_cast<int>(programs.size()));
    if (programs.size() > 1 && !out.first_divergent_call) out.first_divergent_call = c;
  }
  return out;
}

RunVariant without_cause(RunVariant variant) {
  EXPECT_EQ(variant.cause.has_value(), variant.first_divergent_call.has_value());
  variant.cause.reset();
  return variant;
}

TEST(Upstream, RandomScenarios_AgreeWithANaiveReading) {
  std::size_t apart = 0, errors = 0, fallbacks = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const Scenario scenario = random_scenario(seed);
    const RunVariant variant = without_cause(pytorch_model(scenario));
    ASSERT_EQ(variant, naive_upstream(scenario))
        << "seed " << seed << "\n"
        << scenario_text(scenario) << run_variants_table({variant, naive_upstream(scenario)});
    apart += variant.first_divergent_call ? 1 : 0;
    errors += variant.errors;
    fallbacks += variant.fallbacks;
  }
  EXPECT_GT(apart, 100U);
  EXPECT_GT(errors, 100U);
  EXPECT_GT(fallbacks, 10U);
}

Scenario drawn(std::uint64_t seed) {
  return read(R"({"format": "lockstep.scenario/1", "world_size": 19, "generator": {"seed": )" +
              std::to_string(seed) + R"(,
    "calls": [{"frame": "step", "repeat": 12,
      "values": {"x": {"tensor": [{"uniform": [0, 4]}, 8]}, "n": {"int": {"choice": [3, 4], "per": "call"}},
                 "y": {"tensor": [{"uniform": [2, 9], "per": {"ranks": 3}}]}},
      "instead": [{"first": 2, "values": {"x": {"tensor": [4, 8]}, "n": {"int": 3}, "y": {"tensor": [5]}}},
                  {"every": 4, "frame": "other", "values": {"z": {"tensor": [{"choice": [1, 2, 7]}]}}}]}]}})");
}

TEST(Upstream, RanksThatDrawForThemselves_AgreeWithANaiveReading) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed)
    ASSERT_EQ(without_cause(pytorch_model(drawn(seed))), naive_upstream(drawn(seed))) << seed;
}

TEST(Upstream, SizeOfOneOnOneRank_IsAConstantThere) {
  const RunVariant variant =
      pytorch_model(read(R"({"format": "lockstep.scenario/1", "world_size": 3, "calls": [
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {"x": {"tensor": [5]}}},
                              {"ranks": "2", "values": {"x": {"tensor": [1]}}}]}]})"));
  EXPECT_EQ(variant.first_divergent_call, 0U);
  ASSERT_TRUE(variant.cause);
  EXPECT_EQ(variant.cause->text, "rank 0 takes x.size(0) as dynamic from 2 on, rank 2 as 1");
  ASSERT_EQ(variant.cause->groups.size(), 2U);
  EXPECT_EQ(variant.cause->groups[1].ranks.text(), "rank 2");
  EXPECT_EQ(variant.cause->groups[1].least, 1);
}

std::vector<RunVariant> compared(const Scenario& scenario) {
  Profiles learnt;
  DryRunOptions options;
  options.learnt = &learnt;
  const DryRunResult result = dry_run(scenario, options);
  return compare_variants(scenario, result, learnt);
}

TEST(Comparison, WarmedUpJob_IsSaidInFiveWays) {
  const std::vector<RunVariant> variants =
      compared(read(R"({"format": "lockstep.scenario/1", "world_size": 4,
    "generator": {"calls": [{"frame": "f", "repeat": 20, "values": {"x": {"tensor": [{"uniform": [2, 40]}, 8]}},
      "instead": [{"first": 2, "values": {"x": {"tensor": [16, 8]}}}]}]}})"));
  ASSERT_EQ(variants.size(), 5U);
  EXPECT_EQ(variants[0].name, "uncoordinated");
  EXPECT_EQ(variants[1].name, "upstream");
  EXPECT_EQ(variants[2].name, "lockstep");
  EXPECT_EQ(variants[2].compiles, 2U);
  EXPECT_EQ(variants[3].name, "lockstep_with_profile");
  EXPECT_EQ(variants[3].compiles, 1U);
  EXPECT_EQ(variants[4].name, "lockstep_marked");
  EXPECT_EQ(variants[4].compiles, 1U);
  for (const RunVariant& variant : variants)
    EXPECT_EQ(variant.compiles + variant.reuses + variant.fallbacks + variant.errors, 20U)
        << variant.name;
}

TEST(Comparison, RanksThatShareSizesOnly_RunAGraphForEachListOfInputs) {
  const std::vector<RunVariant> variants =
      compared(read(R"({"format": "lockstep.scenario/1", "world_size": 4,
    "config": {"consistency": "shared_sizes"}, "calls": [
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {"x": {"tensor": [4]}}},
                              {"ranks": "2", "values": {"x": {"tensor": [4]}, "y": {"tensor": [4]}}},
                              {"ranks": "3", "values": {"b": {"bool": true}}}]},
    {"frame": "f", "inputs": [{"ranks": "0-3", "values": {"x": {"tensor": [4]}}}]}]})"));
  ASSERT_EQ(variants[2].name, "lockstep");
  EXPECT_EQ(variants[2].distinct_graphs_max, 3);
}

TEST(Comparison, RandomScenarios_NameTheCauseOfAFirstDivergence) {
  std::size_t causes = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const Scenario scenario = random_scenario(seed);
    for (const RunVariant& variant : compared(scenario)) {
      EXPECT_EQ(variant.compiles + variant.reuses + variant.fallbacks + variant.errors,
                scenario.count());
      ASSERT_EQ(variant.cause.has_value(), variant.first_divergent_call.has_value())
          << seed << variant.name;
      if (!variant.cause) continue;
      ++causes;
      EXPECT_EQ(variant.cause->call, *variant.first_divergent_call);
      EXPECT_NE(variant.cause->text, "");
      EXPECT_TRUE(variant.cause->source.empty() || !variant.cause->groups.empty());
    }
  }
  EXPECT_GT(causes, 200U);
}

TEST(Comparison, ProfileOfTheFirstRun_CompilesEachFrameOnceWhereSizesWobble) {
  const std::vector<RunVariant> variants =
      compared(read(R"({"format": "lockstep.scenario/1", "world_size": 2,
    "calls": [
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {"n": {"int": 1}, "x": {"tensor": [4]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {"n": {"int": 2}, "x": {"tensor": [4]}}}]},
    {"frame": "f", "inputs": [{"ranks": "0-1", "values": {"n": {"int": 2}, "x": {"tensor": [1]}}}]}]})"));
  EXPECT_EQ(variants[2].compiles, 3U);
  EXPECT_EQ(variants[3].compiles, 1U);
}

TEST(Sweep, RangesAndLists_AreRead) {
  EXPECT_EQ(parse_sweep("ranks=8..100")->values, (std::vector<std::uint64_t>{8, 16, 32, 64, 100}));
  EXPECT_EQ(parse_sweep("seed=1..3")->values, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(parse_sweep("ranks=8,64,512")->values, (std::vector<std::uint64_t>{8, 64, 512}));
  EXPECT_EQ(parse_sweep("ranks=7..7")->values, (std::vector<std::uint64_t>{7}));
  for (const char* bad : {"", "ranks", "ranks=", "ranks=0..8", "ranks=8..4", "ranks=1,,2",
                          "calls=3", "seed=1..100", "ranks=99999999", "ranks=-1", "seed=1..x"})
    EXPECT_FALSE(parse_sweep(bad).has_value()) << bad;
}

}  // namespace
}  // namespace lockstep::worker::simulator::comparison_test
