#include <algorithm>
#include <bit>
#include <random>
#include <set>
#include <string>

#include "network.h"

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>

namespace lockstep::collectives::rounds_test {
namespace {

Bytes bytes_of(std::string_view text) {
  const auto* p = reinterpret_cast<const std::byte*>(text.data());
  return {p, p + text.size()};
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
Bytes concatenate(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  Bytes out(lower.begin(), lower.end());
  out.insert(out.end(), higher.begin(), higher.end());
  return out;
}

/// 1..33 and some larger sizes, the latter from a seed.
std::vector<int> sizes(std::uint64_t seed) {
  std::vector<int> out;
  for (int n = 1; n <= 33; ++n) out.push_back(n);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 12; ++i) out.push_back(static_cast<int>(34 + random() % 567));
  return out;
}

/// Hosts of 1 to 8 consecutive ranks, some of which come again.
std::vector<std::uint64_t> hosts_of(int n, std::mt19937_64& random) {
  std::vector<std::uint64_t> out;
  while (static_cast<int>(out.size()) < n) {
    const std::uint64_t host = random() % 4 == 0 ? 7 : out.size() + 10;
    for (std::uint64_t k = 1 + random() % 8; k > 0 && static_cast<int>(out.size()) < n; --k)
      out.push_back(host);
  }
  return out;
}

/// A round whose messages to other runs are counted.
template <class RoundType>
class Watched final : public Round {
 public:
  Watched(RoundType round, int run, const HostRuns& runs, std::vector<int>& crossings)
      : round_(std::move(round)), run_(run), runs_(runs), crossings_(crossings) {}
  [[nodiscard]] Want want() const override { return round_.want(); }
  [[nodiscard]] std::size_t message_bytes() const override { return round_.message_bytes(); }
  [[nodiscard]] std::span<const std::byte> outgoing() const override { return round_.outgoing(); }
  void sent() override {
    count();
    round_.sent();
  }
  void received(std::span<const std::byte> message) override {
    if (want().need == Need::Swap) count();
    round_.received(message);
  }
  [[nodiscard]] const auto& result() const { return round_.result(); }
  [[nodiscard]] bool speaks() const { return speaks_; }

 private:
  void count() {
    if (runs_.empty() || runs_.run_of(want().peer) == run_) return;
    speaks_ = true;
    ++crossings_[static_cast<std::size_t>(run_)];
  }
  RoundType round_;
  int run_;
  const HostRuns& runs_;
  std::vector<int>& crossings_;
  bool speaks_ = false;
};

/// Runs what `round_of` gives for each rank, with hosts and without, and expects the same result of
/// all. With hosts one rank of each run speaks to others, at most `most` times.
template <class RoundType, class Of>
void expect_same_with_hosts(int n, std::uint64_t seed, Of round_of, int most) {
  std::mt19937_64 random(seed);
  const HostRuns runs(hosts_of(n, random)), none;
  std::vector<int> crossings(static_cast<std::size_t>(runs.empty() ? 1 : runs.count()), 0);
  std::vector<Watched<RoundType>> flat, hosted;
  for (std::int32_t r = 0; r < n; ++r) {
    flat.emplace_back(round_of(Rank{r}, nullptr), 0, none, crossings);
    hosted.emplace_back(round_of(Rank{r}, &runs), runs.empty() ? 0 : runs.run_of(Rank{r}), runs,
                        crossings);
  }
  VirtualNetwork first({.size = n, .seed = seed}), second({.size = n, .seed = seed + 1});
  run_all(first, flat);
  run_all(second, hosted);
  std::vector<int> speakers(crossings.size(), 0);
  for (std::size_t r = 0; r < hosted.size(); ++r) {
    EXPECT_EQ(hosted[r].result(), flat[r].result()) << "rank " << r;
    if (hosted[r].speaks())
      ++speakers[static_cast<std::size_t>(runs.run_of(Rank{static_cast<std::int32_t>(r)}))];
  }
  for (std::size_t run = 0; run < speakers.size() && !runs.empty(); ++run) {
    EXPECT_EQ(speakers[run], 1) << "run " << run;
    EXPECT_LE(crossings[run], most) << "run " << run;
  }
}

class Rounds : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, Rounds, testing::Values(1, 2, 3));

void expect_vote_is_exact(int n, std::uint64_t seed, Combine combine) {
  SCOPED_TRACE(testing::Message() << "n=" << n << " seed=" << seed);
  std::mt19937_64 random(seed * 1000 + static_cast<std::uint64_t>(n));
  Vote expected;
  std::vector<VoteRound> rounds;
  for (int r = 0; r < n; ++r) {
    Vote mine;
    for (std::size_t w = 0; w < 8; ++w) {
      mine.words[w] = random() | random();
      expected.words[w] = combine == Combine::And ? expected.words[w] & mine.words[w]
                                                  : std::min(expected.words[w], mine.words[w]);
    }
    rounds.emplace_back(Rank{r}, n, mine, combine);
  }
  VirtualNetwork network({.size = n, .seed = seed});
  run_all(network, rounds);
  const auto log2 = static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(n - 1)));
  for (int r = 0; r < n; ++r) {
    EXPECT_EQ(rounds[static_cast<std::size_t>(r)].result(), expected) << "rank " << r;
    const auto traffic = network.traffic(Rank{r});
    EXPECT_LE(traffic.messages, log2 + 1);
    EXPECT_EQ(traffic.bytes, traffic.messages * 64);
  }
}

TEST_P(Rounds, Vote_AnySize_EveryRankGetsTheExactAnd) {
  for (const int n : sizes(GetParam())) expect_vote_is_exact(n, GetParam(), Combine::And);
}

TEST_P(Rounds, Vote_AnySize_EveryRankGetsTheExactMinimum) {
  for (const int n : sizes(GetParam())) expect_vote_is_exact(n, GetParam(), Combine::Min);
}

TEST_P(Rounds, Tree_JoinThatDoesNotCommute_KeepsRankOrder) {
  for (const int n : sizes(GetParam())) {
    SCOPED_TRACE(testing::Message() << "n=" << n << " seed=" << GetParam());
    std::string expected;
    std::vector<TreeRound> rounds;
    for (int r = 0; r < n; ++r) {
      const std::string mine = "<" + std::to_string(r) + ">";
      expected += mine;
      rounds.emplace_back(Rank{r}, n, bytes_of(mine), concatenate);
    }
    VirtualNetwork network({.size = n, .seed = GetParam()});
    run_all(network, rounds);
    for (int r = 0; r < n; ++r) {
      EXPECT_EQ(text_of(rounds[static_cast<std::size_t>(r)].result()), expected);
      EXPECT_LE(network.traffic(Rank{r}).messages, 3u);
    }
  }
}

TEST_P(Rounds, RanksThatShareHosts_OneOfThemSpeaksForAllAndNothingElseChanges) {
  for (const int n : sizes(GetParam())) {
    SCOPED_TRACE(testing::Message() << "n=" << n << " seed=" << GetParam());
    const auto log2 = std::bit_width(static_cast<unsigned>(n - 1));
    for (const Combine combine : {Combine::And, Combine::Min})
      expect_same_with_hosts<VoteRound>(
          n, GetParam(),
          [&](Rank r, const HostRuns* hosts) {
            std::mt19937_64 random(GetParam() * 1000 + static_cast<std::uint64_t>(r.value));
            Vote mine;
            for (auto& word : mine.words) word = random() | random();
            return VoteRound(r, n, mine, combine, hosts);
          },
          log2 + 1);
    expect_same_with_hosts<TreeRound>(
        n, GetParam(),
        [&](Rank r, const HostRuns* hosts) {
          return TreeRound(r, n, bytes_of("<" + std::to_string(r.value) + ">"), concatenate, hosts);
        },
        3);
  }
}

TEST(HostRuns, OneHostOrNoNeighboursOnOne_AreNone) {
  const auto runs = [](std::vector<std::uint64_t> hosts) { return HostRuns(hosts); };
  EXPECT_TRUE(runs({}).empty());
  EXPECT_TRUE(runs({3}).empty());
  EXPECT_TRUE(runs({3, 3, 3}).empty());
  EXPECT_TRUE(runs({3, 4, 3, 4}).empty());
  const HostRuns mixed = runs({3, 3, 4, 3, 3, 3});
  ASSERT_EQ(mixed.count(), 3);
  EXPECT_EQ(mixed.length(0), 2);
  EXPECT_EQ(mixed.length(1), 1);
  EXPECT_EQ(mixed.run_of(Rank{1}), 0);
  EXPECT_EQ(mixed.run_of(Rank{3}), 2);
  EXPECT_EQ(mixed.head(2), Rank{4});
}

TEST_P(Rounds, Broadcast_AnyRoot_EveryRankGetsItOnce) {
  std::mt19937_64 random(GetParam());
  for (const int n : sizes(GetParam())) {
    const Rank root{static_cast<std::int32_t>(random() % static_cast<unsigned>(n))};
    SCOPED_TRACE(testing::Message() << "n=" << n << " root=" << root.value);
    std::vector<BroadcastRound> rounds;
    for (int r = 0; r < n; ++r)
      rounds.emplace_back(Rank{r}, n, root, bytes_of(Rank{r} == root ? "from the root" : "not it"));
    VirtualNetwork network({.size = n, .seed = GetParam()});
    run_all(network, rounds);
    for (int r = 0; r < n; ++r) {
      EXPECT_EQ(text_of(rounds[static_cast<std::size_t>(r)].result()), "from the root");
      EXPECT_EQ(network.traffic(Rank{r}).messages, Rank{r} == root ? 0u : 1u);
    }
  }
}

TEST(TreePlace, AnySize_IsOneSearchTreeInRankOrder) {
  for (int n = 1; n <= 200; ++n) {
    int roots = 0;
    for (int r = 0; r < n; ++r) {
      const TreePlace place = TreePlace::of(Rank{r}, n);
      roots += !place.parent;
      for (const auto& [child, below] : {std::pair{place.left, true}, {place.right, false}}) {
        if (!child) continue;
        EXPECT_EQ(child->value < r, below) << "n=" << n << " rank=" << r;
        EXPECT_EQ(TreePlace::of(*child, n).parent, Rank{r})
            << "n=" << n << " child=" << child->value;
      }
      int depth = 0;
      for (auto up = place.parent; up; up = TreePlace::of(*up, n).parent) ++depth;
      EXPECT_LT(depth, std::bit_width(static_cast<unsigned>(n)) + 1);
    }
    EXPECT_EQ(roots, 1) << "n=" << n;
  }
}

TEST(Vote, KeysThatDiffer_AreSeen) {
  const Vote a = Vote::of(7, 1, 2, 3), b = Vote::of(5, 1, 2, 4);
  Vote both;
  for (std::size_t w = 0; w < 8; ++w) both.words[w] = a.words[w] & b.words[w];
  EXPECT_EQ(both.entries(), 5u);
  EXPECT_TRUE(both.same_key());
  EXPECT_TRUE(both.same_state());
  EXPECT_FALSE(both.same_pending());
  EXPECT_FALSE(both.any_flag());
}

TEST(Vote, FlagOfOneRank_IsInTheResult) {
  Vote vote;
  vote.raise(VoteFlag::Gone);
  EXPECT_TRUE(vote.raised(VoteFlag::Gone));
  EXPECT_FALSE(vote.raised(VoteFlag::Error));
  EXPECT_TRUE(vote.any_flag());
}

TEST(VoteRound, MessageOfAnotherLength_AgreesWithNothing) {
  VoteRound round(Rank{0}, 2, Vote::of(1, 2, 3, 4));
  round.received(Bytes(63));
  EXPECT_EQ(round.want().need, Round::Need::Done);
  EXPECT_FALSE(round.result().same_key());
  EXPECT_TRUE(round.result().any_flag());
}

}  // namespace
}  // namespace lockstep::collectives::rounds_test
