// The example programs as users start them.
#include <cmath>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "launch.h"
#include <gtest/gtest.h>

namespace lockstep::worker::examples_test {
namespace {

TEST(Examples, Divergence_EndsAtOnceOnAllRanks) {
  const Launched job = launch_ranks(4, DIVERGENCE);
  EXPECT_EQ(job.exit_code, 3) << job.output;
  EXPECT_EQ(job.count("lockstep: BRANCH_DIVERGENCE: "), 1) << job.output;
  for (const char* part : {"divergence.cpp:", "x.size(0)", "ranks 2-3", "ranks 0-1", "group_any"})
    EXPECT_GE(job.count(part), 1) << part << "\n" << job.output;
  EXPECT_EQ(job.count("call 0"), 0) << job.output;
}

TEST(Examples, DivergenceWithoutCoordination_IsStuckAndSaysWhereEveryRankIs) {
  const Launched job =
      launch_ranks(4, DIVERGENCE, "LOCKSTEP_COORDINATION=off LOCKSTEP_DEADLINE_SECONDS=5");
  EXPECT_EQ(job.exit_code, 4) << job.output;
  EXPECT_EQ(job.count("lockstep: STUCK: "), 1) << job.output;
  EXPECT_GE(job.count("divergence.cpp:"), 1) << job.output;
  for (const char* part : {"ranks 0-1", "ranks 2-3"})
    EXPECT_GE(job.count(part), 1) << part << "\n" << job.output;
}

TEST(Examples, DivergenceThatAsksTheGroup_TrainsOn) {
  const Launched job = launch_ranks(4, std::string(DIVERGENCE) + " --group-any");
  EXPECT_EQ(job.exit_code, 0) << job.output;
  EXPECT_EQ(job.count("call 2: total "), 1) << job.output;
}

std::vector<double> losses_of(const Folder& folder, const std::string& name, int ranks,
                              const std::string& options) {
  const std::string file = folder / name;
  const Launched job =
      launch_ranks(ranks, std::string(MOE_TEXT) + " --losses " + file + " " + options);
  EXPECT_EQ(job.exit_code, 0) << job.output;
  std::istringstream lines(contents(file));
  std::vector<double> losses;
  for (double loss = 0; lines >> loss;) losses.push_back(loss);
  return losses;
}

/// The dry run against reality: every action of every rank again, byte for byte.
TEST(Examples, MoeText_IsReplayedAsItWasOnEveryNumberOfRanks) {
  for (const int ranks : {2, 4, 8}) {
    const Folder folder;
    const std::string record = folder / "record", one = record + "/rank-00001.jsonl";
    const Launched job = launch_ranks(ranks, std::string(MOE_TEXT) + " --steps 3 --lines 24",
                                      "LOCKSTEP_RECORD=" + record);
    ASSERT_EQ(job.exit_code, 0) << job.output;
    const Launched replay = launch(LOCKSTEP " dryrun " + record);
    EXPECT_EQ(replay.exit_code, 0) << replay.output;
    EXPECT_EQ(replay.count("train_step compiled"), 1) << replay.output;
    // A decision that was another one on one rank is found, and said where.
    std::string lines = contents(one);
    const std::size_t decided = lines.find("s0", lines.find("\"text\":\"trace "));
    ASSERT_NE(decided, std::string::npos) << lines.substr(0, 2000);
    lines[decided + 1] = '7';
    std::ofstream(one) << lines;
    const Launched other = launch(LOCKSTEP " dryrun " + record);
    EXPECT_EQ(other.exit_code, 3) << other.output;
    EXPECT_GE(other.count("rank-00001.jsonl"), 1) << other.output;
  }
}

TEST(Examples, MoeText_LosesTheSameOnEveryNumberOfRanks) {
  const Folder folder;
  const std::string options = "--dtype f64 --steps 20 --lines 24";
  const std::vector<double> one = losses_of(folder, "one", 1, options);
  ASSERT_EQ(one.size(), 20U);
  EXPECT_LT(one.back(), one.front());
  for (const int ranks : {2, 4}) {
    const std::vector<double> many = losses_of(folder, std::to_string(ranks), ranks, options);
    ASSERT_EQ(many.size(), one.size());
    for (std::size_t s = 0; s < one.size(); ++s)
      EXPECT_NEAR(many[s], one[s], 1e-9 * std::abs(one[s])) << "step " << s << ", " << ranks;
  }
}

TEST(Examples, MoeTextPacked_LosesAsPadded) {
  const Folder folder;
  const std::string options = "--dtype f64 --steps 20 --lines 24";
  const std::vector<double> padded = losses_of(folder, "padded", 1, options);
  ASSERT_EQ(padded.size(), 20U);
  for (const int ranks : {1, 2, 4}) {
    const std::vector<double> packed = losses_of(folder, "packed", ranks, options + " --packed");
    ASSERT_EQ(packed.size(), padded.size());
    for (std::size_t s = 0; s < padded.size(); ++s)
      EXPECT_NEAR(packed[s], padded[s], 1e-9 * padded[s]) << "step " << s << ", " << ranks;
  }
}

TEST(Examples, Recommender_LosesTheSameOnEveryNumberOfRanks) {
  std::vector<double> one;
  for (const int ranks : {1, 2, 3, 4}) {
    const Launched job = launch_ranks(ranks, std::string(RECOMMENDER) + " --losses");
    EXPECT_EQ(job.exit_code, 0) << job.output;
    int calls = 0, compiles = 0;
    const std::size_t row = job.output.find("\n  step ");
    ASSERT_NE(row, std::string::npos) << job.output;
    EXPECT_EQ(std::sscanf(job.output.c_str() + row, " step %d %d", &calls, &compiles), 2);
    EXPECT_EQ(calls, 60);
    EXPECT_LE(compiles, 2) << job.output;
    std::vector<double> losses;
    std::istringstream lines(job.output);
    for (std::string line; std::getline(lines, line);)
      if (double loss = 0; std::sscanf(line.c_str(), "%lf", &loss) == 1) losses.push_back(loss);
    ASSERT_EQ(losses.size(), 60U) << job.output;
    if (ranks == 1) one = losses;
    for (std::size_t s = 0; s < losses.size(); ++s)
      EXPECT_NEAR(losses[s], one[s], 1e-9 * one[s]) << "step " << s << ", " << ranks;
  }
}

TEST(Examples, MoeText_LearnsMoreThanTheFrequenciesOfBytes) {
  const Launched job = launch_ranks(2, std::string(MOE_TEXT) + " --steps 60");
  EXPECT_EQ(job.exit_code, 0) << job.output;
  double held_out = 0, unigram = 0;
  const std::size_t at = job.output.find("held-out loss ");
  ASSERT_NE(at, std::string::npos) << job.output;
  ASSERT_EQ(
      std::sscanf(job.output.c_str() + at, "held-out loss %lf nats per byte (unigram entropy %lf",
                  &held_out, &unigram),
      2);
  EXPECT_LT(held_out, unigram) << job.output;
  EXPECT_EQ(job.count("interpreted 0"), 1) << job.output;
}

TEST(Examples, MoeTextInBf16_LearnsAsMuchAsInF32) {
  const Folder folder;
  const std::vector<double> wide = losses_of(folder, "wide", 2, "--steps 60 --dtype f32"),
                            low = losses_of(folder, "low", 2, "--steps 60 --dtype bf16");
  ASSERT_EQ(low.size(), 60U);
  ASSERT_EQ(wide.size(), 60U);
  const auto mean_of_last = [](const std::vector<double>& losses) {
    return std::accumulate(losses.end() - 10, losses.end(), 0.0) / 10;
  };
  EXPECT_NEAR(mean_of_last(low), mean_of_last(wide), 0.02 * mean_of_last(wide));
  EXPECT_NE(low, wide) << "nothing was computed in bf16";
}

TEST(Examples, MoeTextOnRanksThatCannotShareTheExperts_SaysSo) {
  const Launched job = launch_ranks(3, std::string(MOE_TEXT) + " --steps 1");
  EXPECT_EQ(job.exit_code, 2) << job.output;
  EXPECT_EQ(job.count("lockstep: BAD_INPUT: "), 1) << job.output;
}

}  // namespace
}  // namespace lockstep::worker::examples_test
