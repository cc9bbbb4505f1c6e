// Words that the ranks of a group agree on, at once and ahead, on ranks that run in an order which
// a seed decides.
#include <deque>
#include <random>

#include "seeded_ranks.h"
#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/worker/agreement.h>

namespace lockstep::worker::words_test {
namespace {

using collectives::AgreedWord;
using collectives::Communicator;
using collectives::Word;
using collectives::WordOp;
using Words = Agreement::Words;

const Agreement::Build kBuild = [](int, const Decision& decision) -> Result<Built> {
  return Built{decision.digest(), {}};
};

Observation rows(std::int64_t n) { return Inputs().tensor("x", {n, 3}).build(); }

std::string text_of(const Result<Agreement::AgreedWords>& agreed) {
  if (!agreed) return agreed.error().text();
  std::string out;
  for (const AgreedWord& word : *agreed)
    out += std::to_string(word.value) +
           (word.rank ? " of " + std::to_string(word.rank->value) : "") + ";";
  return out;
}

/// `body` on each of `size` ranks; its result by rank.
std::vector<std::string> on_ranks(
    int size, const std::function<std::string(int rank, Communicator&, Agreement&)>& body) {
  std::vector<std::string> out(static_cast<std::size_t>(size));
  SeededRanks(size, 7).run([&](Communicator& group) {
    Agreement agreement(group, "world", {});
    const int rank = group.rank().value;
    out[static_cast<std::size_t>(rank)] = body(rank, group, agreement);
  });
  return out;
}

/// Expects `wanted` of all ranks.
void expect_all(const std::vector<std::string>& outcomes, const std::string& wanted) {
  for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, wanted);
}

TEST(Words, OnAllRanks_BecomeThoseOfTheGroup) {
  expect_all(
      on_ranks(5,
               [](int rank, Communicator&, Agreement& agreement) {
                 return text_of(agreement.agree_words("batch", {{10 - rank, WordOp::Min},
                                                                {10 - rank, WordOp::Max},
                                                                {rank, WordOp::Sum},
                                                                {rank != 3, WordOp::All},
                                                                {rank == 3, WordOp::Any},
                                                                {7, WordOp::Equal},
                                                                {rank % 2, WordOp::ArgMax},
                                                                {-rank / 3, WordOp::ArgMin}}));
               }),
      "6;10;10;0;1;7;1 of 1;-1 of 3;");
}

TEST(Words, ThatHaveToBeEqualAndAreNot_AreAnErrorWithThoseOfEachRank_AndTheNextOnesWork) {
  const auto outcomes = on_ranks(4, [](int rank, Communicator&, Agreement& agreement) {
    const Words mine{{rank, WordOp::Max}, {rank == 2 ? 8 : 16, WordOp::Equal}, {5, WordOp::Equal}};
    const auto agreed = agreement.agree_words("tile", mine, "tune.py:" + std::to_string(rank));
    EXPECT_EQ(agreed.error().code, Code::ConstantMismatch);
    EXPECT_EQ(agreed.error().source, "tile");
    EXPECT_EQ(text_of(agreement.agree_words("tile", {{rank, WordOp::Max}})), "3;");
    return text_of(agreed);
  });
  expect_all(outcomes,
             "CONSTANT_MISMATCH: the ranks bring different words to agree() on tile in group world "
             "at tune.py:0, where they have to be equal [ranks 0-1,3: 16, 5; rank 2: 8, 5]");
}

TEST(Words, OfOtherNamesOpsOrCalls_AreAnErrorWithTheLinesOfAllRanks) {
  expect_all(
      on_ranks(3,
               [](int rank, Communicator&, Agreement& agreement) {
                 const bool odd = rank == 1;
                 return text_of(agreement.agree_words(odd ? "kernel" : "batch", {{1, WordOp::Max}},
                                                      odd ? "tune.py:9" : "serve.py:41"));
               }),
      "FRAME_MISMATCH: the ranks met in different rounds; make every rank make the same "
      "calls in the same order [ranks 0,2: agree() on batch in group world at serve.py:41; "
      "rank 1: agree() on kernel in group world at tune.py:9]");
  expect_all(on_ranks(3,
                      [](int rank, Communicator&, Agreement& agreement) {
                        Words mine{{1, WordOp::Max}};
                        if (rank == 2) mine.push_back({1, WordOp::All});
                        return text_of(agreement.agree_words("batch", mine, "serve.py:41"));
                      }),
             "FRAME_MISMATCH: the ranks agree on batch by different ops; give the same ops, in the "
             "same order, on every rank [ranks 0-1: max in agree() on batch in group world at "
             "serve.py:41; rank 2: max, all in agree() on batch in group world at serve.py:41]");
  const auto outcomes = on_ranks(3, [](int rank, Communicator&, Agreement& agreement) {
    if (rank > 0) return text_of(agreement.agree_words("batch", {{1, WordOp::Max}}, "serve.py:41"));
    const auto more = agreement.more(true);
    return more ? "more" : more.error().text();
  });
  for (const std::string& outcome : outcomes) {
    EXPECT_EQ(outcome, outcomes[0]);
    EXPECT_NE(outcome.find("[rank 0: more in group world; ranks 1-2: agree() on batch in group "
                           "world at serve.py:41]"),
              std::string::npos)
        << outcome;
  }
}

TEST(Words, ThatOneRankCannotBring_AreTheErrorOfAll) {
  for (const Words& wrong :
       {Words{}, Words(9, Word{1, WordOp::Max}), Words{{std::int64_t{1} << 62, WordOp::Sum}}}) {
    const auto outcomes = on_ranks(3, [&](int rank, Communicator&, Agreement& agreement) {
      const auto agreed = agreement.agree_words(
          "batch", rank == 1 ? wrong : Words{{1, WordOp::Sum}}, "serve.py:41");
      EXPECT_EQ(text_of(agreement.agree_words("batch", {{1, WordOp::Sum}})), "3;");
      return text_of(agreed);
    });
    for (const std::string& outcome : outcomes) {
      EXPECT_EQ(outcome, outcomes[0]);
      EXPECT_TRUE(
          outcome.starts_with("BAD_INPUT: rank 1 failed before agree() on batch in group "
                              "world at serve.py:41: "))
          << outcome;
    }
  }
  expect_all(
      on_ranks(2,
               [](int rank, Communicator&, Agreement& agreement) {
                 RankStatus mine;
                 if (rank == 1) mine.local_error = Status{Code::RuntimeAssert, "no", {}, {}};
                 return text_of(agreement.agree_words("b", {{1, WordOp::Max}}, {}, mine));
               }),
      "RUNTIME_ASSERT: rank 1 failed before agree() on b in group world: no [rank 0: agree() "
      "on b in group world; rank 1: no]");
}

TEST(WordsAhead, PokedToTheirEnd_CostTheCallNoVote) {
  (void)on_ranks(4, [](int rank, Communicator&, Agreement& agreement) {
    const Words mine{{rank, WordOp::Max}};
    EXPECT_TRUE(agreement.agree_words_ahead("batch", mine));
    for (int i = 0; i < 1000; ++i) agreement.poke();
    const auto moved = agreement.driver().times().vote_wait;
    EXPECT_EQ(text_of(agreement.agree_words("batch", mine)), "3;");
    EXPECT_EQ(agreement.driver().times().vote_wait, moved);
    EXPECT_EQ(agreement.times().votes, 1U);
    return "";
  });
}

// One program with words, calls of a frame and other rounds, each at once or ahead: to its caller
// the way makes no difference.
TEST(WordsAhead, ChangeNoOutcome_WhateverTheProgramAndTheTiming) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const int size = 1 + static_cast<int>(random() % 6);
    struct Step {
      int kind;  // 0-3: words of that name; 4-6: a call; 7: settle; 8: more
      std::vector<Words> words;
      std::vector<Observation> inputs;
    };
    std::vector<Step> program(16);
    for (Step& step : program) {
      step.kind = static_cast<int>(random() % 9);
      Words ops(1 + random() % 8);
      for (Word& word : ops) word.op = static_cast<WordOp>(random() % collectives::kWordOps);
      const bool differ = random() % 6 == 0;
      for (int r = 0; r < size; ++r) {
        for (Word& word : ops)
          if (word.op != WordOp::Equal || differ || r == 0)
            word.value = static_cast<std::int64_t>(random() % 5) - 2;
        step.words.push_back(ops);
        step.inputs.push_back(rows(static_cast<std::int64_t>(random() % 4)));
      }
    }
    const auto played = [&](bool ahead) {
      std::vector<std::vector<std::string>> log(static_cast<std::size_t>(size));
      SeededRanks(size, seed).run([&](Communicator& group) {
        Agreement agreement(group, "world", {.recompile_limit = 3});
        const auto rank = static_cast<std::size_t>(group.rank().value);
        std::mt19937_64 alike(seed), own(seed + rank);
        std::size_t promised_words = 0, promised_calls = 0;
        for (std::size_t at = 0; at < program.size(); ++at) {
          // The promise of the next words, and of the next call, in an order that ranks share.
          for (int i = 0; i < 2 && ahead; ++i) {
            const auto is_next = [&](std::size_t step, bool words) {
              return words == (program[step].kind < 4) && program[step].kind < 7;
            };
            const bool words = alike() % 2 == 0;
            std::size_t& promised = words ? promised_words : promised_calls;
            std::size_t next = words ? at : std::max(at, promised);
            while (next < program.size() && !is_next(next, words)) ++next;
            if (next == program.size() || next + 1 <= promised || alike() % 2 == 0) continue;
            promised = next + 1;
            const Step& step = program[next];
            if (words)
              EXPECT_TRUE(agreement.agree_words_ahead(std::to_string(step.kind), step.words[rank]));
            else
              agreement.prefetch("f", step.inputs[rank]);
          }
          for (auto pokes = own() % 12; pokes > 0; --pokes) agreement.poke();
          const Step& step = program[at];
          std::string end;
          if (step.kind < 4) {
            end = text_of(agreement.agree_words(std::to_string(step.kind), step.words[rank]));
          } else if (step.kind < 7) {
            const auto agreed = agreement.agree("f", step.inputs[rank], kBuild);
            end = agreed ? std::to_string(agreed->entry) : agreed.error().text();
          } else if (step.kind == 7) {
            const auto settled = agreement.settle();
            end = settled ? "settled" : settled.error().text();
          } else {
            const auto more = agreement.more(rank == 0);
            end = more ? "more" : more.error().text();
          }
          // Where words differ that were promised, the round that finds it has the error.
          log[rank].push_back(std::move(end));
        }
      });
      return log;
    };
    const auto plain = played(false), ahead = played(true);
    for (const auto& rank : plain) ASSERT_EQ(rank, plain[0]);
    for (const auto& rank : ahead) ASSERT_EQ(rank, ahead[0]);
    const auto differs = [](const std::string& end) { return end.find("MISMATCH") < end.size(); };
    if (std::ranges::none_of(plain[0], differs)) {
      ASSERT_EQ(plain, ahead);
    }
  }
}

TEST(WordsAhead, OfOneNameWhileAnotherIsAhead_AreRefused) {
  (void)on_ranks(2, [](int, Communicator&, Agreement& agreement) {
    EXPECT_TRUE(agreement.agree_words_ahead("batch", {{1, WordOp::Max}}));
    const auto second = agreement.agree_words_ahead("kernel", {{1, WordOp::Max}});
    EXPECT_EQ(second.error().message,
              "agree() on batch is ahead; take it before agree() on kernel goes ahead");
    EXPECT_EQ(text_of(agreement.agree_words("kernel", {{2, WordOp::Max}})), "2;");
    EXPECT_EQ(text_of(agreement.agree_words("batch", {{1, WordOp::Max}})), "1;");
    return "";
  });
}

TEST(WordsAhead, ThatARankDoesNotKeep_AreItsErrorAlone_AndOfAllInTheNextRound) {
  const auto outcomes = on_ranks(3, [](int rank, Communicator&, Agreement& agreement) {
    EXPECT_TRUE(agreement.agree_words_ahead("batch", {{4, WordOp::Max}}));
    const auto agreed = agreement.agree_words("batch", {{rank == 1 ? 5 : 4, WordOp::Max}});
    EXPECT_EQ(text_of(agreed), rank != 1 ? "4;"
                                         : "BAD_INPUT: agree() on batch was promised with max 4, "
                                           "and is called with max 5");
    const auto next = agreement.agree_words("batch", {{1, WordOp::Max}});
    EXPECT_EQ(text_of(agreement.agree_words("batch", {{1, WordOp::Max}})), "1;");
    return text_of(next);
  });
  expect_all(
      outcomes,
      "BAD_INPUT: rank 1 failed before agree() on batch in group world: agree() on batch was "
      "promised with max 4, and is called with max 5 [ranks 0,2: agree() on batch in group "
      "world; rank 1: agree() on batch was promised with max 4, and is called with max 5]");
}

TEST(WordsAhead, ThatOneRankDoesNotTake_AreFoundAtTheNextRound_AndResyncMends) {
  const auto outcomes = on_ranks(3, [](int rank, Communicator&, Agreement& agreement) {
    EXPECT_TRUE(agreement.agree_words_ahead("batch", {{4, WordOp::Max}}, "serve.py:3"));
    const bool takes = rank != 1;
    EXPECT_TRUE(!takes || agreement.agree_words("batch", {{4, WordOp::Max}}));
    const auto settled = agreement.settle();
    EXPECT_TRUE(agreement.resync());
    EXPECT_EQ(text_of(agreement.agree_words("batch", {{rank, WordOp::Max}})), "2;");
    return settled ? "settled" : settled.error().text();
  });
  expect_all(outcomes,
             "FRAME_MISMATCH: the ranks met in different rounds; make every rank make the same "
             "calls in the same order; where ranks have different numbers of batches, loop while "
             "job.more(have_batch), or give what each rank does alone Consistency::Local [ranks "
             "0,2: settle in group world; rank 1: settle in group world, before the prefetched "
             "agree() on batch in group world at serve.py:3]");
}

TEST(WordsAhead, ThatAnotherRoundFindsUnequal_AreDroppedByAllRanks) {
  (void)on_ranks(3, [](int rank, Communicator&, Agreement& agreement) {
    EXPECT_TRUE(agreement.agree_words_ahead("tile", {{rank, WordOp::Equal}}));
    const auto settled = agreement.settle();
    EXPECT_EQ(settled.error().code, Code::ConstantMismatch);
    EXPECT_TRUE(agreement.agree_words_ahead("tile", {{8, WordOp::Equal}}));
    EXPECT_EQ(text_of(agreement.agree_words("tile", {{8, WordOp::Equal}})), "8;");
    EXPECT_TRUE(agreement.agree_words_ahead("tile", {{rank, WordOp::Equal}}));
    EXPECT_FALSE(agreement.settle());
    EXPECT_EQ(text_of(agreement.agree_words("tile", {{9, WordOp::Equal}})), "9;");
    return "";
  });
}

TEST(WordsAhead, OnSomeRanksOnly_AreHarmless) {
  expect_all(on_ranks(4,
                      [](int rank, Communicator&, Agreement& agreement) {
                        const Words mine{{rank, WordOp::ArgMax}};
                        EXPECT_TRUE(rank % 2 == 1 || agreement.agree_words_ahead("k", mine));
                        return text_of(agreement.agree_words("k", mine));
                      }),
             "3 of 3;");
}

}  // namespace
}  // namespace lockstep::worker::words_test
