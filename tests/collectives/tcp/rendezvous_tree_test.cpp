// Who gives whom the list of all ranks: how many each process holds, and how deep the tree is.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include <lockstep/collectives/tcp/rendezvous_members.h>

namespace lockstep::collectives::rendezvous_tree_test {
namespace {

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

}  // namespace
}  // namespace lockstep::collectives::rendezvous_tree_test
