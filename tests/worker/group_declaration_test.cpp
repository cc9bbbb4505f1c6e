// What ranks may declare as a group, and what fits together.
#include <algorithm>

#include <gtest/gtest.h>

#include <lockstep/worker/job/group_declaration.h>

namespace lockstep::worker::group_declaration_test {
namespace {

RankSet set(std::initializer_list<int> ranks) {
  RankSet out;
  for (const int r : ranks) out.insert({r, r});
  return out;
}

/// The table of a job whose ranks give these sets, by rank.
std::vector<RankValue> table(const std::vector<RankSet>& sets, const std::string& name = "tensor") {
  std::vector<RankValue> out;
  for (int r = 0; r < static_cast<int>(sets.size()); ++r) {
    const Group group{name, sets[static_cast<std::size_t>(r)], {}};
    const std::string line = declaration(group);
    const auto same =
        std::find_if(out.begin(), out.end(), [&](const RankValue& v) { return v.value == line; });
    if (same != out.end())
      same->ranks.insert({r, r});
    else
      out.push_back({RankSet::of(Rank{r}), line});
  }
  return out;
}

std::string message(const Result<std::vector<RankSet>>& result) {
  return result ? "" : result.error().message;
}

TEST(GroupDeclared, OwnPlace_IsThatAmongTheMembers) {
  for (const int self : {1, 3, 4, 7}) {
    const auto group = declared("odd", set({1, 3, 4, 7}), Rank{self}, 8);
    ASSERT_TRUE(group);
    EXPECT_EQ(group->rank.value, self == 1 ? 0 : self == 3 ? 1 : self == 4 ? 2 : 3);
    EXPECT_EQ(group->size(), 4);
    EXPECT_EQ(group->label(), "odd [1,3-4,7]");
  }
}

TEST(GroupDeclared, SetsThatMakeNoSense_AreRefusedWithTheSet) {
  const auto refused = [](const std::string& name, const RankSet& members, int self) {
    const auto group = declared(name, members, Rank{self}, 4);
    EXPECT_FALSE(group);
    if (group) return std::string();
    EXPECT_EQ(group.error().code, Code::BadInput);
    return group.error().message;
  };
  EXPECT_EQ(refused("", set({0}), 0), "group (no name): a group needs a name");
  EXPECT_EQ(refused("t", set({0, 4}), 0), "group t: ranks 0,4 given, but the job has ranks 0-3");
  EXPECT_EQ(refused("t", set({0, 1}), 2),
            "group t: rank 2 gave ranks 0-1; a rank gives the set that it belongs to, or an empty "
            "one if it belongs to none");
  const auto none = declared("t", {}, Rank{2}, 4);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
}

TEST(GroupDeclarations, PartitionsAndPartsOfTheJob_Fit) {
  const RankSet low = set({0, 1}), high = set({2, 3}), even = set({0, 2}), odd = set({1, 3});
  EXPECT_TRUE(compare_declarations(table({low, low, high, high})));
  EXPECT_TRUE(compare_declarations(table({even, odd, even, odd})));
  EXPECT_EQ(compare_declarations(table({low, low, {}, {}})).value(), std::vector{low});
  EXPECT_TRUE(compare_declarations(table({{}, odd, {}, odd})));
  EXPECT_TRUE(compare_declarations(table({set({0}), set({1}), set({2})})));
}

TEST(GroupDeclarations, RankThatGivesAnotherSet_IsNamedWithTheTable) {
  const RankSet three = set({0, 1, 2}), two = set({1, 2});
  const auto result = compare_declarations(table({three, two, two}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::ConfigMismatch);
  EXPECT_EQ(result.error().source, "tensor");
  EXPECT_EQ(message(result),
            "group tensor: rank 0 gave ranks 0-2, but rank 1 of it did not; every rank of a set "
            "gives that very set");
  const std::vector<RankValue> expected{{set({0}), "ranks 0-2"}, {set({1, 2}), "ranks 1-2"}};
  EXPECT_EQ(result.error().groups, expected);
  EXPECT_FALSE(compare_declarations(table({set({0, 1}), {}})));
}

TEST(GroupDeclarations, SetsOfDifferentSizes_AreRefused) {
  const auto result = compare_declarations(table({set({0, 1}), set({0, 1}), set({2})}));
  EXPECT_EQ(
      message(result),
      "group tensor: its sets have different sizes, 2 and 1 ranks; one program serves sets of "
      "one size");
}

TEST(GroupDeclarations, DifferentNamesAtOnePlace_AreRefused) {
  auto rank_table = table({set({0, 1}), set({0, 1})});
  rank_table[0].ranks = set({0});
  rank_table.push_back({set({1}), declaration({"data", set({0, 1}), {}})});
  const auto result = compare_declarations(rank_table);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::ConfigMismatch);
  const std::vector<RankValue> expected{{set({0}), "tensor"}, {set({1}), "data"}};
  EXPECT_EQ(result.error().groups, expected);
}

TEST(GroupDeclarations, NoRankAtAll_IsRefused) {
  EXPECT_EQ(message(compare_declarations(table({{}, {}}))),
            "group tensor has no ranks; at least one set has to");
}

TEST(GroupDeclarations, AlteredLines_AreNeverTakenForAGroup) {
  const std::string whole = declaration({"tensor", set({0, 2}), {}});
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_FALSE(compare_declarations({{set({0, 2}), whole.substr(0, cut)}})) << cut;
}

TEST(GroupNesting, AGroupIsWithinAnother_WhereEverySetOfItIsWithinASetOfThat) {
  std::map<std::string, std::vector<RankSet>> sets;
  Nesting nesting;
  nest("pair", {set({0, 1}), set({2, 3})}, sets, nesting);
  nest("odd", {set({1, 3})}, sets, nesting);
  nest("half", {set({0, 1, 2, 3}), set({4, 5, 6, 7})}, sets, nesting);  // after what is within it
  nest("one", {set({0}), set({1}), set({2}), set({4})}, sets, nesting);
  nest("other pair", {set({0, 1}), set({2, 3})}, sets, nesting);
  const Nesting expected{{"half", {"odd", "one", "other pair", "pair"}},
                         {"other pair", {"pair"}},
                         {"pair", {"other pair"}}};
  EXPECT_EQ(nesting, expected);
}

}  // namespace
}  // namespace lockstep::worker::group_declaration_test
