#include "census_tree.h"
#include "conformance.h"

namespace lockstep::collectives {
namespace {

TEST_P(Conformance, Rank_IsInsideTheGroup) {
  for (const Communicator* c : adapter_->ranks()) {
    EXPECT_GE(c->rank().value, 0);
    EXPECT_LT(c->rank().value, c->size());
    EXPECT_FALSE(c->name().empty());
  }
}

TEST_P(Conformance, Vote_OneRankObjects_AllSeeIt) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto rounds = run_rounds<VoteRound>([&](const Communicator& c) {
      Vote vote = Vote::of(~(std::uint64_t{1} << c.rank().value), 11, 12, 13);
      if (c.rank().value == c.size() - 1) vote.raise(VoteFlag::Gone);
      return VoteRound(c.rank(), c.size(), vote);
    });
    const auto ranks = adapter_->ranks();
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const Communicator& c = *ranks[i];
      std::uint64_t entries = Vote::kOnes;
      bool gone = false;
      for (int r = 0; r < c.size(); ++r) {
        entries &= ~(std::uint64_t{1} << peer(c, r));
        gone |= peer(c, r) == c.size() - 1;
      }
      EXPECT_EQ(rounds[i]->result().entries(), entries);
      EXPECT_EQ(rounds[i]->result().raised(VoteFlag::Gone), gone);
      EXPECT_TRUE(rounds[i]->result().same_key());
    }
  }
}

TEST_P(Conformance, ACollective_DoesNotWaitForARoundUnderWay) {
  std::vector<std::unique_ptr<VoteRound>> rounds;
  const auto start = [&](Communicator& c) {
    rounds.push_back(std::make_unique<VoteRound>(c.rank(), c.size(), Vote::of(1, 2, 3, 4)));
    c.start(*rounds.back());
  };
  // The last rank comes to the vote after the collective, so nobody can end it before.
  const auto late = [](const Communicator& c) { return c.rank().value == c.size() - 1; };
  std::vector<double> totals(adapter_->ranks().size(), 0);
  const double one = 1;
  for (Communicator* c : adapter_->ranks())
    if (!late(*c)) start(*c);
  for (std::size_t i = 0; Communicator * c : adapter_->ranks())
    ASSERT_TRUE(c->start({.dtype = DType::F64, .send = &one, .receive = &totals[i++], .rows = 1}));
  for (Communicator* c : adapter_->ranks())
    if (late(*c)) start(*c);
  adapter_->finish();
  for (std::size_t i = 0; Communicator * c : adapter_->ranks()) EXPECT_EQ(totals[i++], c->size());
  for (const auto& round : rounds) {
    EXPECT_EQ(round->want().need, Round::Need::Done);
    EXPECT_EQ(round->result(), Vote::of(1, 2, 3, 4));
  }
}

TEST_P(Conformance, Census_AllRanksGetTheSameTable) {
  const auto rounds = run_rounds<TreeRound>([&](const Communicator& c) {
    return TreeRound(c.rank(), c.size(),
                     census_payload(c.rank(), c.rank().value % 2 ? "odd" : "even"), join_census);
  });
  const auto ranks = adapter_->ranks();
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    Census expected;
    for (int r = 0; r < ranks[i]->size(); ++r)
      expected.add(RankSet::of(Rank{peer(*ranks[i], r)}), peer(*ranks[i], r) % 2 ? "odd" : "even");
    EXPECT_EQ(census_values(rounds[i]->result()), expected.values());
  }
}

TEST_P(Conformance, Tree_PayloadsFromNothingToMegabytes_ArriveWhole) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64},
                                  std::size_t{65}, std::size_t{4096}, std::size_t{3} << 20}) {
    const auto longest = [](std::span<const std::byte> low, std::span<const std::byte> high) {
      const auto most = low.size() >= high.size() ? low : high;
      return Bytes(most.begin(), most.end());
    };
    const auto rounds = run_rounds<TreeRound>([&](const Communicator& c) {
      Bytes mine(bytes, std::byte{0x5A});
      return TreeRound(c.rank(), c.size(),
                       c.rank().value == 0 || bytes > 4096 ? std::move(mine) : Bytes{}, longest);
    });
    const auto ranks = adapter_->ranks();
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const bool has = bytes > 4096 || peer(*ranks[i], 0) == 0;
      EXPECT_EQ(rounds[i]->result(), Bytes(has ? bytes : 0, std::byte{0x5A})) << bytes << " bytes";
    }
  }
}

TEST_P(Conformance, Broadcast_FromTheLastRank_ReachesAll) {
  const auto rounds = run_rounds<BroadcastRound>([&](const Communicator& c) {
    const Rank root{c.size() - 1};
    return BroadcastRound(c.rank(), c.size(), root, text_bytes(c.rank() == root ? "plan" : ""));
  });
  const auto ranks = adapter_->ranks();
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const int root = ranks[i]->size() - 1;
    EXPECT_EQ(rounds[i]->result(), text_bytes(peer(*ranks[i], root) == root ? "plan" : ""));
  }
}

TEST_P(Conformance, RoundsOfAllKinds_OneAfterTheOther_DoNotMix) {
  for (int repeat = 0; repeat < 10; ++repeat) {
    const auto votes = run_rounds<VoteRound>([&](const Communicator& c) {
      return VoteRound(c.rank(), c.size(), Vote::of(1, static_cast<std::uint64_t>(repeat), 2, 3));
    });
    for (const auto& vote : votes) EXPECT_TRUE(vote->result().same_key());
    const auto trees = run_rounds<TreeRound>([&](const Communicator& c) {
      return TreeRound(c.rank(), c.size(), census_payload(c.rank(), std::to_string(repeat)),
                       join_census);
    });
    for (const auto& tree : trees) EXPECT_EQ(census_values(tree->result()).size(), 1u);
  }
}

}  // namespace
}  // namespace lockstep::collectives
