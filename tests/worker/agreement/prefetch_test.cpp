// Calls ahead on ranks that run in an order which a seed decides: a prefetch changes no outcome,
// and ranks that do not prefetch alike get one error or none, never a hang.
#include <array>
#include <deque>
#include <random>

#include "seeded_ranks.h"
#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/worker/agreement.h>

namespace lockstep::worker::prefetch_test {
namespace {

using collectives::Communicator;

const Agreement::Build kBuild = [](int, const Decision& decision) -> Result<Built> {
  return Built{decision.digest(), {}};
};

Observation rows(std::int64_t n) { return Inputs().tensor("x", {n, 3}).build(); }

/// What an operation came to, as text that must not differ between ranks.
std::string text_of(const Result<Agreed>& agreed) {
  if (!agreed) return agreed.error().text();
  return std::string(agreed->run == Agreed::Run::Fallback ? "fallback"
                     : agreed->is_new                     ? "compiled "
                                                          : "reused ") +
         std::to_string(agreed->entry) +
         (agreed->decision != nullptr ? " " + decision_text(*agreed->decision) : "");
}

/// One operation of a program that all ranks run.
struct Operation {
  enum class Kind { Call, More, Data } kind = Kind::Call;
  int frame = 0;
  std::vector<Observation> inputs;  // Call: per rank
  std::vector<bool> have;           // More: per rank
};

std::vector<Operation> random_program(std::mt19937_64& random, int size) {
  std::vector<Operation> program(14);
  for (Operation& op : program) {
    const auto dice = random() % 10;
    op.kind = dice < 7   ? Operation::Kind::Call
              : dice < 8 ? Operation::Kind::More
                         : Operation::Kind::Data;
    op.frame = static_cast<int>(random() % 2);
    const bool odd_one = random() % 8 == 0;
    for (int r = 0; r < size; ++r) {
      Inputs in;
      in.tensor("x", r == size - 1 && odd_one
                         ? std::vector<std::int64_t>{2}
                         : std::vector<std::int64_t>{static_cast<std::int64_t>(random() % 4), 3});
      in.integer("n", static_cast<std::int64_t>(random() % 2));
      op.inputs.push_back(in.build());
      op.have.push_back(random() % 4 == 0);
    }
  }
  return program;
}

constexpr std::array<const char*, 2> kFrames{"train", "evaluate"};

/// Makes the calls of a program on one rank, and says what they came to. Each frame has an
/// agreement of its own, with other settings; they share the group's rounds.
class Player {
 public:
  Player(Communicator& group, const std::vector<Operation>& program)
      : group_(group),
        program_(program),
        rank_(static_cast<std::size_t>(group.rank().value)),
        rounds_(group) {
    agreements_.emplace_back(rounds_, "world", DecisionConfig{.recompile_limit = 3});
    agreements_.emplace_back(rounds_, "world",
                             DecisionConfig{.assume_at_least_two = false, .recompile_limit = 2});
  }

  /// Promises the first call of `frame` at or after operation `from` that is not promised yet.
  void prefetch(int frame, std::size_t from) {
    std::size_t at = std::max(from, promised_[static_cast<std::size_t>(frame)]);
    while (at < program_.size() &&
           (program_[at].kind != Operation::Kind::Call || program_[at].frame != frame))
      ++at;
    if (at == program_.size()) return;
    of(frame).prefetch(kFrames[static_cast<std::size_t>(frame)], program_[at].inputs[rank_]);
    promised_[static_cast<std::size_t>(frame)] = at + 1;
  }

  std::string play(const Operation& op) {
    if (op.kind == Operation::Kind::More) {
      const auto more = of(0).more(op.have[rank_]);
      return !more ? more.error().text() : *more ? "more" : "all done";
    }
    if (op.kind == Operation::Kind::Data) {
      const auto done = group_.run(collectives::Collective{});
      return done ? "data" : done.error().text();
    }
    return text_of(
        of(op.frame).agree(kFrames[static_cast<std::size_t>(op.frame)], op.inputs[rank_], kBuild));
  }

  /// A call that stands in no program.
  std::string end() { return text_of(of(0).agree("the end", rows(1), kBuild)); }

  void poke() { rounds_.driver().poke(); }
  Result<void> resync() {
    return rounds_.resync({.group = "world", .kind = RoundKey::Kind::Resync});
  }
  void forget_promises(std::size_t from) { promised_ = {from, from}; }

 private:
  Agreement& of(int frame) { return agreements_[static_cast<std::size_t>(frame)]; }

  Communicator& group_;
  const std::vector<Operation>& program_;
  std::size_t rank_;
  GroupRounds rounds_;
  std::deque<Agreement> agreements_;
  std::array<std::size_t, 2> promised_{};
};

using Log = std::vector<std::vector<std::string>>;  // per rank, per operation

TEST(Prefetch, ChangesNoOutcome_WhateverTheProgramAndTheTiming) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const int size = 1 + static_cast<int>(random() % 6);
    const std::vector<Operation> program = random_program(random, size);
    Log plain(static_cast<std::size_t>(size)), ahead(static_cast<std::size_t>(size));
    SeededRanks(size, seed).run([&](Communicator& group) {
      Player player(group, program);
      for (const Operation& op : program)
        plain[static_cast<std::size_t>(group.rank().value)].push_back(player.play(op));
    });
    SeededRanks(size, seed).run([&](Communicator& group) {
      Player player(group, program);
      std::mt19937_64 alike(seed), own(seed + static_cast<std::uint64_t>(group.rank().value));
      for (std::size_t at = 0; at < program.size(); ++at) {
        for (int frame = 0; frame < 2; ++frame)
          if (alike() % 2 == 0) player.prefetch(frame, at);
        for (auto pokes = own() % 12; pokes > 0; --pokes) player.poke();
        ahead[static_cast<std::size_t>(group.rank().value)].push_back(player.play(program[at]));
      }
    });
    ASSERT_EQ(plain, ahead);
    for (const auto& rank : ahead) ASSERT_EQ(rank, ahead[0]);
  }
}

TEST(Prefetch, OnSomeRanksOnly_IsHarmlessOrOneErrorOnAll_AndResyncMends) {
  int errors = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const int size = 2 + static_cast<int>(random() % 5);
    const std::vector<Operation> program = random_program(random, size);
    Log log(static_cast<std::size_t>(size));
    SeededRanks(size, seed).run([&](Communicator& group) {
      Player player(group, program);
      std::mt19937_64 own(seed * 100 + static_cast<std::uint64_t>(group.rank().value));
      auto& mine = log[static_cast<std::size_t>(group.rank().value)];
      for (std::size_t at = 0; at < program.size(); ++at) {
        for (int frame = 0; frame < 2; ++frame)
          if (own() % 6 == 0) player.prefetch(frame, at);
        for (auto pokes = own() % 12; pokes > 0; --pokes) player.poke();
        mine.push_back(player.play(program[at]));
        if (mine.back().find("FRAME_MISMATCH") == std::string::npos) continue;
        const auto resync = player.resync();
        mine.push_back(resync ? "in step" : resync.error().text());
        player.forget_promises(at + 1);
      }
    });
    for (const auto& rank : log) ASSERT_EQ(rank, log[0]);
    for (const std::string& line : log[0]) {
      ASSERT_EQ(line.find("STUCK"), std::string::npos) << line;
      ASSERT_EQ(line.find("INTERNAL"), std::string::npos) << line;
      errors += line.find("FRAME_MISMATCH") != std::string::npos;
    }
  }
  EXPECT_GT(errors, 20);
}

// Whatever is prefetched and however the vote moves, a rank that leaves a call out is found by a
// round, and no round meets one of another make. (Where it comes to a call that it promised with
// other inputs, that is what all hear.)
TEST(Prefetch, OfAProgramFromWhichOneRankLeavesACallOut_EndsInOneErrorOnAll) {
  int mismatches = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const int size = 2 + static_cast<int>(random() % 4);
    std::vector<Operation> program = random_program(random, size);
    std::erase_if(program, [](const Operation& op) { return op.kind == Operation::Kind::Data; });
    const int who = static_cast<int>(random() % static_cast<unsigned>(size));
    const std::size_t left_out = random() % program.size();
    std::vector<std::string> ends(static_cast<std::size_t>(size));
    SeededRanks(size, seed).run([&](Communicator& group) {
      Player player(group, program);
      const int rank = group.rank().value;
      std::mt19937_64 alike(seed), own(seed + static_cast<std::uint64_t>(rank));
      std::string& end = ends[static_cast<std::size_t>(rank)];
      for (std::size_t at = 0; at < program.size(); ++at) {
        for (int frame = 0; frame < 2; ++frame)
          if (alike() % 2 == 0) player.prefetch(frame, at);
        for (auto pokes = own() % 12; pokes > 0; --pokes) player.poke();
        if (rank == who && at == left_out) continue;
        end = player.play(program[at]);
        if (end.find("FRAME_MISMATCH") != std::string::npos ||
            end.find("failed ") != std::string::npos)
          return;
      }
      end = player.end();
    });
    for (const std::string& end : ends) {
      ASSERT_EQ(end, ends[0]);
      ASSERT_TRUE(end.starts_with("FRAME_MISMATCH") || end.starts_with("BAD_INPUT")) << end;
    }
    mismatches += ends[0].starts_with("FRAME_MISMATCH");
  }
  EXPECT_GT(mismatches, 100);
}

/// `body` on each of `size` ranks; its result by rank.
template <class T>
std::vector<T> on_ranks(int size, const std::function<T(Communicator&, Agreement&)>& body) {
  std::vector<T> out(static_cast<std::size_t>(size));
  SeededRanks(size, 7).run([&](Communicator& group) {
    Agreement agreement(group, "world", {});
    out[static_cast<std::size_t>(group.rank().value)] = body(group, agreement);
  });
  return out;
}

TEST(Prefetch, PokedToItsEnd_CostsTheCallNoRound) {
  (void)on_ranks<int>(4, [](Communicator&, Agreement& agreement) {
    EXPECT_TRUE(agreement.agree("step", rows(5), kBuild));
    const auto votes = agreement.times().votes;
    agreement.prefetch("step", rows(5));
    for (int i = 0; i < 1000; ++i) agreement.poke();
    EXPECT_EQ(text_of(agreement.agree("step", rows(5), kBuild)).substr(0, 8), "reused 0");
    EXPECT_EQ(agreement.times().votes, votes + 1);
    EXPECT_EQ(agreement.times().exchanges, 1U);
    return 0;
  });
}

TEST(Prefetch, OfOtherInputs_IsAnErrorOnAllRanksAtOnce_WhereTheyCompile) {
  const auto outcomes = on_ranks<std::string>(3, [](Communicator& group, Agreement& agreement) {
    agreement.prefetch("step", rows(5));
    const auto agreed = agreement.agree("step", rows(group.rank().value == 1 ? 7 : 5), kBuild);
    EXPECT_TRUE(agreement.agree("step", rows(5), kBuild));
    return text_of(agreed);
  });
  for (const std::string& outcome : outcomes)
    EXPECT_NE(outcome.find("BAD_INPUT: step: failed on rank 1: step was prefetched with x.size(0): "
                           "5, but is called with 7;"),
              std::string::npos)
        << outcome;
}

TEST(Prefetch, OfOtherInputs_NamesSourceAndBothValues_AndTheOthersHearNextTime) {
  const auto outcomes = on_ranks<std::string>(3, [](Communicator& group, Agreement& agreement) {
    EXPECT_TRUE(agreement.agree("step", rows(5), kBuild));
    agreement.prefetch("step", rows(5));
    const bool breaks = group.rank().value == 1;
    const auto first = agreement.agree("step", rows(breaks ? 7 : 5), kBuild);
    EXPECT_EQ(first.has_value(), !breaks);
    if (breaks) {
      EXPECT_EQ(first.error().code, Code::BadInput);
      EXPECT_EQ(first.error().source, "x.size(0)");
      EXPECT_NE(first.error().message.find("x.size(0): 5, but is called with 7"),
                std::string::npos);
    }
    const auto second = agreement.agree("step", rows(5), kBuild);
    EXPECT_FALSE(second);
    return text_of(second);
  });
  for (const std::string& outcome : outcomes) {
    EXPECT_EQ(outcome, outcomes[0]);
    EXPECT_NE(outcome.find("BAD_INPUT: rank 1 failed before call"), std::string::npos) << outcome;
  }
}

TEST(Prefetch, OfOtherInputs_TheOthersHearInAnAuditedCallAsWell) {
  const auto outcomes = on_ranks<std::string>(3, [](Communicator& group, Agreement& agreement) {
    EXPECT_TRUE(agreement.agree("step", rows(5), kBuild));
    agreement.prefetch("step", rows(5));
    const bool breaks = group.rank().value == 1;
    EXPECT_EQ(agreement.agree("step", rows(breaks ? 7 : 5), kBuild).has_value(), !breaks);
    const auto audited = agreement.audit("step", {.observation = rows(5), .collectives = {{1, 1}}});
    return audited ? "audited" : audited.error().text();
  });
  for (const std::string& outcome : outcomes) {
    EXPECT_EQ(outcome, outcomes[0]);
    EXPECT_NE(outcome.find("BAD_INPUT: rank 1 failed before"), std::string::npos) << outcome;
  }
}

TEST(Prefetch, ThatOneRankDoesNotKeepBecauseItGoesElsewhere_IsFoundAtTheNextRound) {
  const auto outcomes = on_ranks<std::string>(3, [](Communicator& group, Agreement& agreement) {
    if (group.rank().value != 1) agreement.prefetch("step", rows(5));
    const auto more = agreement.more(true);
    return more ? "more" : more.error().text();
  });
  for (const std::string& outcome : outcomes) {
    EXPECT_EQ(outcome, outcomes[0]);
    EXPECT_NE(outcome.find("ranks 0,2: call 0 of step in group world, prefetched"),
              std::string::npos)
        << outcome;
    EXPECT_NE(outcome.find("rank 1: more in group world"), std::string::npos) << outcome;
  }
}

TEST(Prefetch, ThatIsAMissAndOneRankGoesElsewhere_IsFrameMismatchWithBothRankSets) {
  for (const bool all_prefetch : {true, false}) {
    const auto outcomes = on_ranks<std::string>(4, [&](Communicator& group, Agreement& agreement) {
      const int rank = group.rank().value;
      if (all_prefetch || rank != 3) agreement.prefetch("step", rows(5));
      if (rank == 1) {
        for (int i = 0; i < 1000; ++i) agreement.poke();
        const auto more = agreement.more(true);
        return more ? "more" : more.error().text();
      }
      return text_of(agreement.agree("step", rows(5), kBuild));
    });
    for (const std::string& outcome : outcomes) {
      EXPECT_EQ(outcome, outcomes[0]);
      EXPECT_NE(outcome.find("FRAME_MISMATCH"), std::string::npos) << outcome;
      EXPECT_NE(outcome.find("ranks 0,2-3: call 0 of step in group world"), std::string::npos)
          << outcome;
      EXPECT_NE(outcome.find("rank 1: more in group world, before the prefetched call 0 of step"),
                std::string::npos)
          << outcome;
    }
  }
}

TEST(Prefetch, ThatIsAHitAndOneRankLeavesItOut_IsFoundAtTheNextRoundThoughItIsTheSameOnAll) {
  const auto outcomes = on_ranks<std::string>(3, [](Communicator& group, Agreement& agreement) {
    EXPECT_TRUE(agreement.agree("step", rows(5), kBuild));
    agreement.prefetch("step", rows(5));
    if (group.rank().value != 1) {
      EXPECT_EQ(text_of(agreement.agree("step", rows(5), kBuild)).substr(0, 8), "reused 0");
    }
    const std::string wrong = text_of(agreement.agree("evaluate", rows(5), kBuild));
    EXPECT_TRUE(agreement.resync());
    EXPECT_EQ(text_of(agreement.agree("step", rows(5), kBuild)).substr(0, 8), "reused 0");
    return wrong;
  });
  for (const std::string& outcome : outcomes) {
    EXPECT_EQ(outcome, outcomes[0]);
    EXPECT_NE(outcome.find("FRAME_MISMATCH"), std::string::npos) << outcome;
    EXPECT_NE(outcome.find("ranks 0,2: call 0 of evaluate in group world; rank 1: call 0 of "
                           "evaluate in group world, before the prefetched call 1 of step"),
              std::string::npos)
        << outcome;
  }
}

TEST(Prefetch, ThatIsAMiss_CostsOneVoteMoreThanWithout) {
  (void)on_ranks<int>(3, [](Communicator&, Agreement& agreement) {
    EXPECT_TRUE(agreement.agree("step", rows(5), kBuild));
    const auto before = agreement.times().votes;
    agreement.prefetch("other", rows(5));
    EXPECT_TRUE(agreement.agree("other", rows(5), kBuild));
    EXPECT_EQ(agreement.times().votes, 2 * before + 1);
    return 0;
  });
}

TEST(Resync, AfterOneRankSkippedACall_TheRanksAreInStep) {
  const auto outcomes = on_ranks<std::string>(4, [](Communicator& group, Agreement& agreement) {
    EXPECT_TRUE(agreement.agree("train", rows(5), kBuild));
    // The last rank skips an evaluation, and is one call ahead where the others are.
    const bool skips = group.rank().value == 3;
    const auto wrong = agreement.agree(skips ? "train" : "evaluate", rows(6), kBuild);
    EXPECT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, Code::FrameMismatch);
    if (skips) agreement.prefetch("train", rows(7));
    const auto resync = agreement.resync();
    EXPECT_TRUE(resync) << resync.error().text();
    std::string out = text_of(agreement.agree("evaluate", rows(6), kBuild));
    agreement.prefetch("train", rows(5));
    out += ", " + text_of(agreement.agree("train", rows(5), kBuild));
    return out;
  });
  for (const std::string& outcome : outcomes)
    EXPECT_EQ(outcome, "compiled 0 x: f32[6, 3], reused 0 x: f32[5, 3]");
}

TEST(Resync, WhileAnotherRankIsInACall_BothHearWhereTheOtherIs) {
  const auto outcomes = on_ranks<std::string>(3, [](Communicator& group, Agreement& agreement) {
    const bool calls = group.rank().value == 2;
    std::string out;
    if (calls) {
      out = text_of(agreement.agree("step", rows(5), kBuild));
    } else {
      const auto resync = agreement.resync();
      EXPECT_FALSE(resync);
      if (!resync) out = resync.error().text();
    }
    EXPECT_TRUE(agreement.resync());
    EXPECT_TRUE(agreement.agree("step", rows(5), kBuild));
    return out;
  });
  for (const std::string& outcome : outcomes) {
    EXPECT_EQ(outcome, outcomes[0]);
    EXPECT_NE(outcome.find("FRAME_MISMATCH"), std::string::npos);
    EXPECT_NE(outcome.find("ranks 0-1: resync in group world; rank 2: call 0 of step in group "
                           "world"),
              std::string::npos)
        << outcome;
  }
}

TEST(Prefetch, InTrouble_ThatAnotherRoundComesBefore_IsTheErrorOfThatRound) {
  const auto outcomes = on_ranks<std::string>(3, [](Communicator& group, Agreement& agreement) {
    RankStatus rank_status;
    if (group.rank().value == 1)
      rank_status.local_error = Status{Code::BadInput, "x is no tensor", {}, {}};
    agreement.prefetch("step", rows(5), rank_status);
    const auto more = agreement.more(true);
    EXPECT_TRUE(agreement.resync());
    EXPECT_TRUE(agreement.agree("step", rows(5), kBuild));
    return more ? "more" : more.error().text();
  });
  for (const std::string& outcome : outcomes)
    EXPECT_NE(outcome.find(
                  "BAD_INPUT: rank 1 failed before call 0 of step in group world, prefetched: x is "
                  "no tensor"),
              std::string::npos)
        << outcome;
}

TEST(Prefetch, OfAnAgreementThatIsNoLongerUsed_IsDropped_AndTheNextOneGoesOut) {
  SeededRanks(4, 11).run([&](Communicator& group) {
    GroupRounds rounds(group);
    auto first = std::make_unique<Agreement>(rounds, "first", DecisionConfig{});
    Agreement second(rounds, "second", {});
    first->prefetch("step", rows(5));
    second.prefetch("step", rows(6));
    EXPECT_TRUE(first->is_ahead("step"));
    EXPECT_TRUE(first->abandon());
    EXPECT_TRUE(second.more(true));  // brings the vote in
    EXPECT_FALSE(rounds.driver().has_ahead());
    first.reset();
    second.prefetch("other", rows(7));
    EXPECT_TRUE(second.is_ahead("step"));
    EXPECT_FALSE(second.is_ahead("other"));
    EXPECT_EQ(text_of(second.agree("step", rows(6), kBuild)), "compiled 0 x: f32[6, 3]");
    EXPECT_TRUE(second.abandon());
    EXPECT_TRUE(second.resync());
    EXPECT_FALSE(second.abandon());
    EXPECT_EQ(text_of(second.agree("step", rows(6), kBuild)), "reused 0 x: f32[6, 3]");
  });
}

TEST(Resync, OfARankThatAloneHasFailed_TellsTheOthersWhereverTheyAre) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<std::string> outcomes(5);
    SeededRanks(5, seed).run([&](Communicator& group) {
      const int rank = group.rank().value;
      GroupRounds rounds(group);
      Agreement agreement(rounds, "world", {});
      EXPECT_TRUE(agreement.agree("step", rows(4), kBuild));
      if (seed % 2 == 0) agreement.prefetch("step", rows(4));
      std::string& out = outcomes[static_cast<std::size_t>(rank)];
      // Two have failed and one has nothing to say; the others go on.
      if (rank == 4) {
        out = "waited";
      } else if (rank % 2 == 1) {
        out = "told";
      } else {
        out = text_of(agreement.agree("step", rows(4), kBuild));
        if (out.find("reused") == 0) out = text_of(agreement.agree("step", rows(4), kBuild));
      }
      RankStatus rank_status;
      if (out == "told")
        rank_status.local_error = Status{Code::RuntimeAssert, "no " + std::to_string(rank), {}, {}};
      const auto resync =
          rounds.resync({.group = "world", .kind = RoundKey::Kind::Resync}, std::move(rank_status));
      EXPECT_TRUE(resync) << resync.error().text();
      EXPECT_EQ(text_of(agreement.agree("step", rows(4), kBuild)), "reused 0 x: f32[4, 3]");
    });
    EXPECT_EQ(outcomes[1] + outcomes[3] + outcomes[4], "toldtoldwaited");
    for (const int rank : {0, 2})
      EXPECT_EQ(
          outcomes[static_cast<std::size_t>(rank)].find("RUNTIME_ASSERT: rank 1 failed before "),
          0U)
          << outcomes[static_cast<std::size_t>(rank)];
  }
}

TEST(More, IsTrueWhileAnyRankHasData_AndFalseOnAllWhenNoneHas) {
  const auto rounds = on_ranks<int>(5, [](Communicator& group, Agreement& agreement) {
    int mine = 0;
    for (;; ++mine) {
      const auto more = agreement.more(mine < group.rank().value);
      if (!more || !*more) return more ? mine : -1;
    }
  });
  EXPECT_EQ(rounds, std::vector<int>(5, 4));
}

}  // namespace
}  // namespace lockstep::worker::prefetch_test
