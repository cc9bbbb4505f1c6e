// Who gives whom the list of all ranks: how many each process holds, and how deep the tree is.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include <lockstep/collectives/tcp/rendezvous_members.h>

namespace lockstep::collectives::rendezvous_tree_test {
namespace {

using namespace std::chrono_literals;

std::vector<std::int32_t> shuffled(int ranks, std::uint64_t seed) {
  std::vector<std::int32_t> out;
  for (std::int32_t r = 1; r < ranks; ++r) out.push_back(r);
  std::shuffle(out.begin(), out.end(), std::mt19937_64(seed));
  return out;
}

/// Ranks that come in an order from `seed`, and the place of each in the tree.
struct Tree {
  Tree(int ranks, int per_host, std::uint64_t seed) : parents(static_cast<std::size_t>(ranks)) {
    RendezvousTree tree(0);
    for (const std::int32_t r : shuffled(ranks, seed))
      parents[static_cast<std::size_t>(r)] =
          tree.parent(Rank{r}, static_cast<std::uint64_t>(r / per_host));
  }
  [[nodiscard]] int depth(Rank rank) const {
    int out = 0;
    for (; rank.value != 0; ++out) rank = parents[static_cast<std::size_t>(rank.value)];
    return out;
  }
  /// Connections that each holds while it waits: its children's, and its own to its parent.
  [[nodiscard]] std::vector<int> held() const {
    std::vector<int> out(parents.size(), 0);
    for (std::size_t r = 1; r < parents.size(); ++r) {
      ++out[static_cast<std::size_t>(parents[r].value)];
      ++out[r];
    }
    return out;
  }
  std::vector<Rank> parents;
};

class RendezvousTrees : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RendezvousTrees, testing::Values(1, 2, 3));

TEST_P(RendezvousTrees, NobodyHoldsMoreThanTheOthers_AndAllAreNearRank0) {
  for (const auto& [ranks, per_host, deepest] :
       {std::tuple{1, 1, 0}, {8, 8, 1}, {9, 8, 1}, {64, 8, 3}, {640, 1, 5}, {16'384, 8, 7}}) {
    SCOPED_TRACE(testing::Message()
                 << ranks << " ranks, " << per_host << " on each host, seed " << GetParam());
    const Tree tree(ranks, per_host, GetParam());
    const auto held = tree.held();
    const int most = static_cast<int>(RendezvousTree::kHosts) + per_host - 1;
    int depth = 0;
    for (std::size_t r = 0; r < held.size(); ++r) {
      EXPECT_LE(held[r], most + (r == 0 ? 0 : 1)) << "rank " << r;
      depth = std::max(depth, tree.depth(Rank{static_cast<std::int32_t>(r)}));
    }
    EXPECT_LE(depth, deepest);
  }
}

TEST(RendezvousTree, WhoHasLeft_IsWaitedWithByNobody) {
  RendezvousTree tree(0);
  EXPECT_EQ(tree.parent(Rank{5}, 1), Rank{0});
  EXPECT_EQ(tree.parent(Rank{6}, 1), Rank{5});
  tree.left(Rank{6});
  EXPECT_EQ(tree.parent(Rank{7}, 1), Rank{5});
  tree.left(Rank{5});
  EXPECT_EQ(tree.parent(Rank{8}, 1), Rank{0}) << "now the first of its host";
  EXPECT_EQ(tree.parent(Rank{5}, 1), Rank{8});
  for (std::int32_t r = 10; r < 13; ++r)
    EXPECT_EQ(tree.parent(Rank{r}, static_cast<std::uint64_t>(r)), Rank{0});
  EXPECT_EQ(tree.parent(Rank{20}, 20), Rank{8}) << "rank 0 has its four hosts";
  tree.left(Rank{8});
  EXPECT_EQ(tree.parent(Rank{21}, 21), Rank{0}) << "that host has nobody";
}

TEST(RendezvousMembers, ProcessThatComesAgain_WaitsHere) {
  JoinRequest root{.job = "train", .rank = {0}, .size = 9, .build = "b", .host = "a", .host_id = 1};
  RendezvousMembers members(root);
  JoinRequest first = root, second = root;
  first.rank = {3}, first.host_id = 2, first.port = 4003;
  second.rank = {4}, second.host_id = 2, second.port = 4004;
  EXPECT_FALSE(members.join(first, "10.0.0.2").wait_at);
  const auto sent_on = members.join(second, "10.0.0.2").wait_at;
  ASSERT_TRUE(sent_on);
  EXPECT_EQ(sent_on->text(), "10.0.0.2:4003");
  EXPECT_TRUE(members.missing().contains(Rank{4})) << "it is on its way";
  EXPECT_EQ(members.missing().text(), "1-2,4-8");
  members.arrived(Rank{4});
  EXPECT_EQ(members.missing().text(), "1-2,5-8");
  members.left(Rank{3}, 1s);
  EXPECT_EQ(members.missing().text(), "1-2,5-8") << "it may come again";
  members.forget_gone(2s);
  EXPECT_EQ(members.missing().text(), "1-3,5-8");
  EXPECT_FALSE(members.complete());
  const auto again = members.join(second, "10.0.0.2");
  EXPECT_FALSE(again.refusal);
  EXPECT_FALSE(again.wait_at);
}

TEST(RendezvousMembers, AllNeedNotBeConnectedAtOnce) {
  const JoinRequest root{.job = "train", .rank = {0}, .size = 3, .build = "b", .host = "a"};
  RendezvousMembers members(root);
  JoinRequest first = root, second = root;
  first.rank = {1}, first.port = 4001;
  second.rank = {2}, second.port = 4002;
  EXPECT_FALSE(members.join(first, "10.0.0.1").refusal);
  members.left(Rank{1}, 1s);
  EXPECT_FALSE(members.join(first, "10.0.0.1").refusal);
  members.left(Rank{1}, 2s);
  members.forget_gone(2s);
  EXPECT_FALSE(members.join(second, "10.0.0.2").refusal);
  EXPECT_TRUE(members.complete());
  EXPECT_EQ(members.gone().text(), "1");
  members.forget_gone(3s);
  EXPECT_TRUE(members.gone().empty());
  EXPECT_FALSE(members.complete());
}

TEST(RendezvousMembers, InPlaceOfOneThatIsGone_AnotherProcessMayCome) {
  const JoinRequest root{.job = "train", .rank = {0}, .size = 2, .build = "b", .host = "a"};
  RendezvousMembers members(root);
  JoinRequest first = root, another = root;
  first.rank = another.rank = {1};
  first.port = 4001, another.port = 5001;
  EXPECT_FALSE(members.join(first, "10.0.0.1").refusal);
  EXPECT_TRUE(members.join(another, "10.0.0.1").refusal);
  members.left(Rank{1}, 1s);
  EXPECT_FALSE(members.join(another, "10.0.0.1").refusal);
  members.forget_gone(9s);
  EXPECT_TRUE(members.complete());
  EXPECT_EQ(members.roster()[1].listens.port, 5001);
  members.left(Rank{1}, 10s);
  members.arrived(Rank{1});
  EXPECT_TRUE(members.gone().empty());
  EXPECT_TRUE(members.join(first, "10.0.0.1").refusal);
}

}  // namespace
}  // namespace lockstep::collectives::rendezvous_tree_test
