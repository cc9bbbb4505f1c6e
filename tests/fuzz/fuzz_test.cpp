// That the simulation bites: a planted sabotage is found and cut down to a few steps, every kind of
// fault and end is met, and a seed replays exactly.
#include <map>

#include "campaign.h"
#include "shrink.h"
#include <gtest/gtest.h>

namespace lockstep::fuzz::fuzz_test {
namespace {

/// A program of a seed with a rank that takes commit votes for its own, and a compiler that fails
/// on another rank somewhere.
Program planted(std::uint64_t seed) {
  Program program = random_program(seed);
  program.faults.push_back({.kind = Fault::Kind::IgnoresCommit, .rank = 0});
  for (std::size_t s = 0; s < program.steps.size(); ++s)
    if (program.ranks > 1 && s % 2 == 1)
      program.faults.push_back({.kind = Fault::Kind::CompileFails, .rank = 1, .step = s});
  return program;
}

TEST(Fuzz, PlantedSabotage_IsFoundAndCutDownToThreeStepsOrFewer) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 200 && found < 5; ++seed) {
    const Program program = planted(seed);
    const auto fails = [&](const Program& p) { return examine(p, seed).violation.has_value(); };
    if (!fails(program)) continue;
    ++found;
    const Program least = shrink(program, fails);
    EXPECT_TRUE(fails(least)) << program_text(least);
    EXPECT_LE(least.steps.size(), 3U) << program_text(least);
    EXPECT_LE(least.ranks, 3) << program_text(least);
    EXPECT_LE(least.faults.size(), 2U) << program_text(least);
  }
  EXPECT_EQ(found, 5);
}

TEST(Fuzz, SameSeedTwice_SameProgramAndSameEvents) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Program program = random_program(seed);
    ASSERT_EQ(program_text(program), program_text(random_program(seed)));
    const RunOptions options{.network_seed = seed, .record = true};
    const fuzz::Run first = run(program, options), second = run(program, options);
    ASSERT_EQ(first.log, second.log) << "seed " << seed;
    ASSERT_EQ(first.digest(), second.digest()) << "seed " << seed;
  }
}

TEST(Fuzz, OtherDelays_OtherEvents) {
  const Program program = random_program(3);
  EXPECT_NE(run(program, {.network_seed = 1, .record = true}).log,
            run(program, {.network_seed = 2, .record = true}).log);
}

constexpr int kFold = 8;

/// The program with every rank eight times.
Program enlarged(Program program) {
  program.ranks *= kFold;
  program.hosts.clear();
  program.starts.clear();
  for (GroupPlan& group : program.groups) {
    RankSet many;
    for (const RankSet::Run& run : group.members.runs())
      many.insert(RankSet::range(Rank{kFold * run.first}, Rank{kFold * run.last + kFold - 1}));
    group.members = many;
  }
  for (Step& step : program.steps) {
    std::vector<Values> inputs;
    for (const Values& values : step.inputs) inputs.insert(inputs.end(), kFold, values);
    step.inputs = std::move(inputs);
    std::vector<int> batches;
    for (const int mine : step.batches) batches.insert(batches.end(), kFold, mine);
    step.batches = std::move(batches);
  }
  return program;
}

TEST(Fuzz, EveryRankEightTimes_SameEndsAndNoLongerMessages) {
  // How each call that ended well did so, and its longest payload, by step and turn.
  const auto ends = [](const Program& program) {
    std::map<std::pair<std::size_t, int>, std::pair<std::string, std::uint64_t>> out;
    for (const Ended& one : run(program, {}).ended) {
      if (one.kind != Ended::Kind::Call || one.outcome.error) continue;
      auto& [end, longest] = out[{one.step, one.turn}];
      end = outcome_text(one.outcome);
      longest = std::max(longest, one.longest);
    }
    return out;
  };
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Program program = random_program(seed);
    program.faults.clear();
    program.hosts.clear();
    program.starts.clear();
    // One rank alone receives nothing.
    if (program.ranks > 8 || program.groups.size() > 1 || program.ranks == 1) continue;
    for (Step& step : program.steps) step.yes = step.yes != 0 ? ~std::uint64_t{0} : 0;
    const auto few = ends(program), many = ends(enlarged(program));
    ASSERT_EQ(few.size(), many.size()) << program_text(program);
    for (const auto& [step, end] : few) {
      ASSERT_EQ(end.first, many.at(step).first) << program_text(program);
      // Not the same: a payload that some ranks have joined may be longer than that of all.
      ASSERT_LE(many.at(step).second * 2, end.second * 3) << program_text(program);
    }
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

TEST(Fuzz, ThousandsOfSeeds_MeetEveryFaultAndEveryEnd) {
  const Tally tally = examine_seeds({.first = 0, .last = 5999});
  for (const std::uint64_t seed : tally.failures) ADD_FAILURE() << failure_text(seed);
  for (std::size_t k = 0; k + 1 < kFaultKinds; ++k) {
    const std::string name(fault_name(static_cast<Fault::Kind>(k)));
    EXPECT_GT(tally.faults.count(name), 0U) << name;
  }
  for (std::size_t k = 0; k < kStepKinds; ++k) {
    const std::string name(step_name(static_cast<Step::Kind>(k)));
    EXPECT_GT(tally.steps.count(name), 0U) << name;
  }
  EXPECT_GT(tally.prefetched, 1000U);
  EXPECT_GT(tally.received, 1000U);
  EXPECT_GT(tally.restarts, 100U);
  EXPECT_GT(tally.local, 1000U);
  EXPECT_GT(tally.findings, 100U);
  for (const char* end : {"reused",
                          "compiled",
                          "fallback",
                          "round",
                          "more",
                          "resync",
                          "audited",
                          "FRAME_MISMATCH",
                          "SOURCE_MISMATCH",
                          "KIND_MISMATCH",
                          "DTYPE_MISMATCH",
                          "NDIM_MISMATCH",
                          "CONSTANT_MISMATCH",
                          "MARK_CONFLICT",
                          "CONSTRAINT_VIOLATION",
                          "BRANCH_DIVERGENCE",
                          "GRAPH_DIVERGENCE",
                          "TRACE_ERROR",
                          "COMPILE_ERROR",
                          "ENVIRONMENT",
                          "RUNTIME_ASSERT",
                          "BAD_INPUT",
                          "GONE",
                          "STUCK",
                          "RANK_LOST"})
    EXPECT_GT(tally.outcomes.count(end), 0U) << end;
  EXPECT_GT(tally.oracle, 500U);
}

}  // namespace
}  // namespace lockstep::fuzz::fuzz_test
