#include <gtest/gtest.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/collectives/startup.h>

namespace lockstep::collectives::startup_test {
namespace {

TEST(StartupRound, EqualConfigurations_Pass) {
  const auto group = mpi_communicator(nullptr, {}).value();
  EXPECT_TRUE(startup_round(*group, "build=1\nseed=2\n"));
}

TEST(StartupRound, OneRankDiffers_AllGetTheKeyAndBothValues) {
  const auto group = mpi_communicator(nullptr, {}).value();
  const Rank last{group->size() - 1};
  const bool differs = group->rank() == last && group->size() > 1;
  const auto round =
      startup_round(*group, differs ? "build=1\nseed=3\nzone=a\n" : "build=1\nseed=2\nzone=a\n");
  if (group->size() == 1) return;
  ASSERT_FALSE(round);
  EXPECT_EQ(round.error().code, Code::ConfigMismatch);
  EXPECT_EQ(round.error().source, "seed");
  const std::vector<RankValue> expected{{RankSet::range({0}, {last.value - 1}), "2"},
                                        {RankSet::of(last), "3"}};
  EXPECT_EQ(round.error().groups, expected);
  EXPECT_NE(round.error().message.find("different values of seed"), std::string::npos);
}

TEST(StartupRound, SettingThatOneRankLacks_IsNotSetThere) {
  const auto group = mpi_communicator(nullptr, {}).value();
  const auto round = startup_round(*group, group->rank().value == 0 ? "a=1\nb=2\n" : "a=1\n");
  if (group->size() == 1) return;
  ASSERT_FALSE(round);
  EXPECT_EQ(round.error().source, "b");
  const std::vector<RankValue> expected{{RankSet::of({0}), "2"},
                                        {RankSet::range({1}, {group->size() - 1}), "(not set)"}};
  EXPECT_EQ(round.error().groups, expected);
}

TEST(StartupRound, SameSettingsInAnotherOrder_AreToldApartFromOtherSettings) {
  const auto group = mpi_communicator(nullptr, {}).value();
  const auto round = startup_round(*group, group->rank().value == 0 ? "a=1\nb=2\n" : "b=2\na=1\n");
  if (group->size() == 1) return;
  ASSERT_FALSE(round);
  EXPECT_EQ(round.error().source, "");
}

}  // namespace
}  // namespace lockstep::collectives::startup_test
