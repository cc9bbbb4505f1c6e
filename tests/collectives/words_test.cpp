// Words rounds on every size of group, with hosts and without, against a plain fold.
#include <algorithm>
#include <deque>
#include <random>

#include "network.h"

#include <lockstep/collectives/words.h>

namespace lockstep::collectives::words_test {
namespace {

/// The group's word: the definition of each op.
AgreedWord folded(WordOp op, const std::vector<std::int64_t>& of_rank) {
  const auto least = std::ranges::min_element(of_rank), most = std::ranges::max_element(of_rank);
  const auto at = [&](auto place) {
    return AgreedWord{*place, Rank{static_cast<std::int32_t>(place - of_rank.begin())}};
  };
  std::int64_t sum = 0, ones = -1, some = 0;
  for (const std::int64_t word : of_rank) sum += word, ones &= word, some |= word;
  const auto not_zero = [](std::int64_t word) { return word != 0; };
  switch (op) {
    case WordOp::Min:
    case WordOp::Equal:
      return {*least};
    case WordOp::Max:
      return {*most};
    case WordOp::Sum:
      return {sum};
    case WordOp::BitAnd:
      return {ones};
    case WordOp::BitOr:
      return {some};
    case WordOp::All:
      return {std::ranges::all_of(of_rank, not_zero) ? 1 : 0};
    case WordOp::Any:
      return {std::ranges::any_of(of_rank, not_zero) ? 1 : 0};
    case WordOp::ArgMin:
      return at(least);
    case WordOp::ArgMax:
      return at(most);
  }
  return {};
}

/// Hosts of one to five consecutive ranks.
HostRuns some_hosts(int size, std::mt19937_64& random) {
  std::vector<std::uint64_t> hosts;
  while (static_cast<int>(hosts.size()) < size)
    hosts.insert(hosts.end(), std::min<std::size_t>(1 + random() % 5,
                                                    static_cast<std::size_t>(size) - hosts.size()),
                 hosts.size() + 1);
  return HostRuns(hosts);
}

TEST(WordsRound, IsTheFoldOfEachOp_OnEveryRank) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const int size = 1 + static_cast<int>(random() % 40);
    const HostRuns hosts = some_hosts(size, random);
    std::vector<WordOp> ops(1 + random() % kMostWords);
    for (WordOp& op : ops) op = static_cast<WordOp>(random() % kWordOps);
    std::vector<std::vector<std::int64_t>> of_word(ops.size());
    const bool small = random() % 2 == 0, differ = random() % 3 == 0;
    bool unequal = false;
    for (std::size_t w = 0; w < ops.size(); ++w) {
      for (int r = 0; r < size; ++r) {
        // Halves of the numbers whose sum fits.
        const auto any = static_cast<std::int64_t>(random()) / (2 * size);
        of_word[w].push_back(small ? any % 3 : any);
      }
      if (ops[w] == WordOp::Equal && !differ) std::ranges::fill(of_word[w], of_word[w][0]);
      unequal |= ops[w] == WordOp::Equal && std::ranges::count(of_word[w], of_word[w][0]) != size;
    }
    std::deque<WordsRound> rounds;
    for (std::int32_t r = 0; r < size; ++r) {
      std::vector<Word> mine;
      for (std::size_t w = 0; w < ops.size(); ++w)
        mine.push_back({of_word[w][static_cast<std::size_t>(r)], ops[w]});
      ASSERT_TRUE(check(mine, size));
      rounds.emplace_back(Rank{r}, size, seed, mine, false, seed % 2 == 0 ? &hosts : nullptr);
    }
    VirtualNetwork network({.size = size, .seed = seed});
    run_all(network, rounds);
    for (const WordsRound& round : rounds) {
      ASSERT_EQ(round.unequal(), unequal);
      ASSERT_EQ(round.met(), !unequal);
      if (unequal) continue;
      ASSERT_EQ(round.words().size(), ops.size());
      for (std::size_t w = 0; w < ops.size(); ++w)
        ASSERT_EQ(round.words()[w], folded(ops[w], of_word[w])) << word_op_name(ops[w]);
    }
  }
}

TEST(WordsRound, OfAnotherKey_OrThatFailed_IsMetOnNoRank) {
  for (int size = 2; size <= 20; ++size)
    for (const bool fails : {false, true}) {
      SCOPED_TRACE(size);
      std::deque<WordsRound> rounds;
      for (std::int32_t r = 0; r < size; ++r) {
        const bool odd = r == size / 2;
        rounds.emplace_back(Rank{r}, size, odd && !fails ? 2 : 1, std::vector<Word>(8), odd && fails);
      }
      VirtualNetwork network({.size = size, .seed = 3});
      run_all(network, rounds);
      for (const WordsRound& round : rounds) EXPECT_FALSE(round.met());
    }
}

TEST(WordsRound, AndAPlainVote_MeetOnNoRank) {
  for (int size = 2; size <= 20; ++size) {
    SCOPED_TRACE(size);
    VirtualNetwork network({.size = size, .seed = 3});
    WordsRound words(Rank{0}, size, 5, std::vector<Word>(3), false);
    std::deque<VoteRound> votes;
    for (std::int32_t r = 1; r < size; ++r) votes.emplace_back(Rank{r}, size, Vote::of(0, 4, 0, 0));
    network.communicator(Rank{0}).start(words);
    for (std::int32_t r = 1; r < size; ++r)
      network.communicator(Rank{r}).start(votes[static_cast<std::size_t>(r - 1)]);
    while (network.step()) {
    }
    EXPECT_FALSE(words.met());
    for (const VoteRound& vote : votes) EXPECT_FALSE(vote.result().clean());
  }
}

TEST(WordsRound, TakesOneVoteForFivePlaces) {
  const auto votes_of = [](std::vector<Word> words) {
    std::deque<WordsRound> rounds;
    for (std::int32_t r = 0; r < 2; ++r) rounds.emplace_back(Rank{r}, 2, 1, words, false);
    int votes = 0;
    while (rounds[0].want().need != Round::Need::Done) {
      const std::vector<std::byte> first(rounds[0].outgoing().begin(), rounds[0].outgoing().end());
      const std::vector<std::byte> second(rounds[1].outgoing().begin(), rounds[1].outgoing().end());
      rounds[0].received(second), rounds[1].received(first);
      ++votes;
    }
    EXPECT_TRUE(rounds[0].met() && rounds[1].met());
    return votes;
  };
  EXPECT_EQ(votes_of(std::vector<Word>(5)), 1);
  EXPECT_EQ(votes_of(std::vector<Word>(6)), 2);
  EXPECT_EQ(votes_of(std::vector<Word>(8)), 2);
  EXPECT_EQ(votes_of(std::vector<Word>(2, {1, WordOp::ArgMax})), 1);
  EXPECT_EQ(votes_of(std::vector<Word>(8, {1, WordOp::ArgMax})), 4);
}

TEST(Words, AreChecked) {
  const auto wrong = [](const std::vector<Word>& words, int size) {
    const auto checked = check(words, size);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(wrong({}, 2), "0 words; give 1 to 8");
  EXPECT_EQ(wrong(std::vector<Word>(9), 2), "9 words; give 1 to 8");
  const std::int64_t half = std::int64_t{1} << 62;
  EXPECT_EQ(wrong({{half - 1, WordOp::Sum}, {1 - half, WordOp::Sum}, {half, WordOp::Max}}, 2), "");
  EXPECT_EQ(wrong({{1, WordOp::Max}, {half, WordOp::Sum}}, 2),
            "word 1 is 4611686018427387904, and the sum of such words over 2 ranks may not fit in "
            "64 bits; give words from -4611686018427387903 to 4611686018427387903");
  EXPECT_NE(wrong({{-half, WordOp::Sum}}, 2), "");
}

}  // namespace
}  // namespace lockstep::collectives::words_test
