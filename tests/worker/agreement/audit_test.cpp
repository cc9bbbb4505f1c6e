// The audit: machines of several ranks folded in one thread, over a simulated network with lost
// ranks, and against other kinds of rounds.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "virtual_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/simulated/simulated.h>
#include <lockstep/worker/agree/agreement/audit.h>
#include <lockstep/worker/agree/agreement/audit_evidence.h>
#include <lockstep/worker/agree/agreement/rank_table.h>

namespace lockstep::worker::audit_test {
namespace {

using collectives::NetworkOptions;
using collectives::Round;
using collectives::TreeRound;
using collectives::VirtualNetwork;
using collectives::VoteRound;
using shapes::Fingerprint;
using testing::Test;

Fingerprint named(const std::string& text) { return shapes::fingerprint(text); }

/// A rank that runs `program` on rows of inputs.
AuditedCall runs(const std::string& program, std::int64_t rows = 8,
                 std::optional<std::string> collectives = "all_reduce") {
  AuditedCall own;
  own.observation = Inputs().tensor("tokens", {rows, 16}).boolean("train", true).build();
  own.program = named(program);
  if (collectives) own.collectives = collectives->empty() ? Fingerprint{} : named(*collectives);
  own.collectives_text = collectives.value_or("");
  return own;
}

AuditedCall fails(const std::string& why) {
  AuditedCall own = runs("");
  own.collectives = Fingerprint{};
  own.local_error = Status{Code::CompileError, why, {}, {}};
  return own;
}

/// Ranks that audit over a simulated network.
class Job {
 public:
  explicit Job(const NetworkOptions& options)
      : network(options), ledgers(static_cast<std::size_t>(options.size)) {}

  /// One call; outcomes of the ranks that come to an end. `frames`: per rank, else all in "f".
  std::vector<AuditOutcome> call(std::vector<AuditedCall> calls,
                                 const std::vector<std::string>& frames = {}) {
    machines_.clear();
    rounds_.clear();
    for (std::size_t r = 0; r < calls.size(); ++r) {
      RoundKey key;
      key.frame = frames.empty() ? "f" : frames[r];
      key.round = key.call = number;
      machines_.push_back(std::make_unique<AuditMachine>(Rank{static_cast<std::int32_t>(r)}, key,
                                                         ledgers[r], std::move(calls[r])));
      rounds_.push_back(nullptr);
    }
    ++number;
    for (std::size_t r = 0; r < machines_.size(); ++r) start(r);
    do {
      for (auto ended = network.take_ended(); !ended.empty(); ended = network.take_ended())
        for (const Rank rank : ended) end_round(static_cast<std::size_t>(rank.value));
    } while (network.step());
    std::vector<AuditOutcome> out;
    for (const auto& machine : machines_)
      if (machine->outcome() != nullptr) out.push_back(*machine->outcome());
    return out;
  }

  /// One call that all ranks end alike.
  AuditOutcome joint(std::vector<AuditedCall> calls, const std::vector<std::string>& frames = {}) {
    const std::size_t size = calls.size();
    const auto all = call(std::move(calls), frames);
    EXPECT_EQ(all.size(), size);
    for (const AuditOutcome& one : all) {
      EXPECT_EQ(one.finding, all[0].finding);
      EXPECT_EQ(one.error, all[0].error);
      EXPECT_EQ(one.times, all[0].times);
    }
    for (const AuditLedger& ledger : ledgers) EXPECT_EQ(ledger.summary(), ledgers[0].summary());
    return all.at(0);
  }

  VirtualNetwork network;
  std::vector<AuditLedger> ledgers;
  std::uint64_t number = 0;

 private:
  void start(std::size_t r) {
    const AuditMachine& machine = *machines_[r];
    if (machine.outcome() != nullptr) return;
    const Rank self{static_cast<std::int32_t>(r)};
    if (const auto* vote = std::get_if<action::Vote>(&machine.next()))
      rounds_[r] = std::make_unique<VoteRound>(self, network.size(), vote->mine, vote->combine);
    else if (const auto* to_join = std::get_if<action::TreeJoin>(&machine.next()))
      rounds_[r] = std::make_unique<TreeRound>(self, network.size(), to_join->mine, to_join->join);
    network.communicator(self).start(*rounds_[r]);
  }
  void end_round(std::size_t r) {
    const auto done = network.communicator(Rank{static_cast<std::int32_t>(r)}).poll();
    const std::unique_ptr<Round> round = std::move(rounds_[r]);
    if (!done)
      machines_[r]->failed(done.error());
    else if (const auto* vote = dynamic_cast<const VoteRound*>(round.get()))
      machines_[r]->voted(vote->result());
    else
      machines_[r]->joined(dynamic_cast<const TreeRound&>(*round).result());
    start(r);
  }

  std::vector<std::unique_ptr<AuditMachine>> machines_;
  std::vector<std::unique_ptr<Round>> rounds_;
};

TEST(Audit, AllRunTheSame_CostsOneVoteAndFindsNothing_ForOneToFiveRanks) {
  for (int size = 1; size <= 5; ++size) {
    Job job({.size = size});
    const auto n = static_cast<std::size_t>(size);
    std::vector<AuditedCall> calls;
    // Sizes may differ as long as the programs do not.
    for (std::size_t r = 0; r < n; ++r)
      calls.push_back(runs("p", static_cast<std::int64_t>(3 + r)));
    const AuditOutcome outcome = job.joint(calls);
    EXPECT_FALSE(outcome.finding || outcome.error) << size;
    EXPECT_LE(job.network.traffic({0}).messages, 4U);
    EXPECT_EQ(job.network.traffic({0}).bytes, job.network.traffic({0}).messages * 64);
  }
}

TEST(Audit, OneRankRunsAnotherProgram_IsAFindingWithRanksMajorityAndTheSizeThatTellsThemApart) {
  Job job({.size = 4});
  AuditedCall odd = runs("q", 9);
  odd.is_new = true;
  odd.program_text = "rows fixed at 9";
  const AuditOutcome outcome = job.joint({runs("p", 8), runs("p", 8), runs("p", 8), odd});
  ASSERT_TRUE(outcome.finding);
  EXPECT_FALSE(outcome.error);
  EXPECT_EQ(outcome.finding->code, Code::GraphDivergence);
  EXPECT_EQ(outcome.finding->source, "tokens.size(0)");
  EXPECT_EQ(outcome.finding->message,
            "audited call 0 of f: the ranks run different programs; ranks 0-2 are the majority; "
            "tokens.size(0) tells them apart (ranks 0-2: 8; rank 3: 9); some compiled while others "
            "found an entry in their caches; their "
            "collectives are the same, so the call goes on");
  ASSERT_EQ(outcome.finding->groups.size(), 2U);
  EXPECT_EQ(outcome.finding->groups[1].ranks, RankSet::of({3}));
  EXPECT_NE(outcome.finding->groups[1].value.find(
                "(rows fixed at 9), compiled for this call, collectives"),
            std::string::npos)
      << outcome.finding->groups[1].value;
}

TEST(Audit, NoProgramHasMoreThanHalf_SaysNoMajority) {
  Job job({.size = 4});
  const AuditOutcome outcome = job.joint({runs("p"), runs("p"), runs("q"), runs("q")});
  ASSERT_TRUE(outcome.finding);
  EXPECT_NE(outcome.finding->message.find("no majority"), std::string::npos);
  EXPECT_NE(outcome.finding->message.find("no observed input tells them apart"), std::string::npos);
  EXPECT_EQ(outcome.finding->source, "");
}

TEST(Audit, CollectivesDiffer_StopsAllRanks_AndShowsTheFirstThatDiffers) {
  Job job({.size = 3});
  const AuditOutcome outcome =
      job.joint({runs("p", 4, "all_reduce\nall_gather"), runs("p", 4, "all_reduce\nall_gather"),
                 runs("q", 1, "all_reduce")});
  ASSERT_TRUE(outcome.error);
  EXPECT_FALSE(outcome.finding);
  EXPECT_EQ(outcome.error->code, Code::GraphDivergence);
  EXPECT_NE(outcome.error->message.find(
                "collective 2 is not the same (ranks 0-1: all_gather; rank 2: (none))"),
            std::string::npos)
      << outcome.error->message;
  EXPECT_EQ(outcome.error->source, "tokens.size(0)");
  EXPECT_FALSE(job.joint({runs("p"), runs("p"), runs("p")}).error) << "the next call works";
  EXPECT_EQ(job.ledgers[0].errors(), 1U);
}

TEST(Audit, TextsOfAnyLength_PartAtTheirFirstOtherLine_OnEveryRank) {
  std::string p = "8 rows", q = "9 rows", list = "a";
  for (int line = 1; line <= 6000; ++line) {
    p += "\nnode " + std::to_string(line) + "\tat p.py:1";
    q += line == 5432 ? "\nanother node" : "\nnode " + std::to_string(line);
    q += "\tat q.py:2";
    list += "\nall_gather " + std::to_string(line);
  }
  Job job({.size = 3});
  std::vector<AuditedCall> calls{runs("p"), runs("q"), runs("p")};
  for (std::size_t r = 0; r < 3; ++r) calls[r].program_text = r == 1 ? q : p;
  const AuditOutcome found = job.joint(calls);
  ASSERT_TRUE(found.finding);
  EXPECT_NE(found.finding->message.find(
                "the ranks run different programs, from line 5432 on "
                "(ranks 0,2: node 5432 at p.py:1; rank 1: another node at q.py:2)"),
            std::string::npos)
      << found.finding->message;
  EXPECT_NE(found.finding->groups[1].value.find("(9 rows), from its cache"), std::string::npos);
  const AuditOutcome longer =
      job.joint({runs("p", 8, list), runs("p", 8, list + "\nb"), runs("p", 8, list)});
  ASSERT_TRUE(longer.error);
  EXPECT_NE(longer.error->message.find("collective 6002 is not the same (ranks 0,2: (none); "
                                       "rank 1: b)"),
            std::string::npos)
      << longer.error->message;
}

TEST(Audit, IssuedCollectivesDiffer_IsAnErrorThatSaysSo_AndTheFramesOnesAreNotKnown) {
  Job job({.size = 2});
  std::vector<AuditedCall> calls{runs("p", 8, "all_reduce"), runs("p", 8, "all_reduce\nbarrier")};
  for (AuditedCall& call : calls) call.issued = true;
  const AuditOutcome outcome = job.joint(calls);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->code, Code::GraphDivergence);
  EXPECT_EQ(outcome.error->message,
            "audited call 0 of f: since the call before it the ranks have issued different "
            "collectives: collective 2 is not the same (rank 0: (none); rank 1: barrier); no "
            "majority; results since then may be wrong");
  calls = {runs("p", 8, ""), runs("p", 8, "")};
  for (AuditedCall& call : calls) call.issued = true;
  const AuditOutcome elsewhere = job.joint(calls, {"train", "evaluate"});
  ASSERT_TRUE(elsewhere.error) << "the frames may have collectives";
  EXPECT_EQ(elsewhere.error->code, Code::FrameMismatch);
}

TEST(Audit, CollectivesNotKnownOnOneRank_IsAFindingThatSaysSo) {
  Job job({.size = 2});
  const AuditOutcome outcome = job.joint({runs("p"), runs("q", 8, std::nullopt)});
  ASSERT_TRUE(outcome.finding);
  EXPECT_NE(outcome.finding->message.find("not known on every rank"), std::string::npos);
  EXPECT_NE(outcome.finding->groups[1].value.find("collectives not known"), std::string::npos);
}

TEST(Audit, KnownCollectivesDiffer_StopEvenIfAThirdRankDoesNotKnowItsOwn) {
  Job job({.size = 3});
  EXPECT_TRUE(job.joint({runs("p", 8, "a"), runs("q", 8, "b"), runs("q", 8, std::nullopt)}).error);
}

TEST(Audit, ARankInTrouble_StopsTheOthersOnlyIfTheyHaveCollectives) {
  Job job({.size = 3});
  const AuditOutcome stopped = job.joint({runs("p"), fails("no compiler"), runs("p")});
  ASSERT_TRUE(stopped.error);
  EXPECT_EQ(stopped.error->code, Code::CompileError);
  EXPECT_NE(stopped.error->message.find("rank 1 failed before audited call 0 of f: no compiler"),
            std::string::npos)
      << stopped.error->message;
  const AuditOutcome unknown =
      job.joint({runs("p", 8, std::nullopt), fails("no compiler"), runs("p", 8, "")});
  EXPECT_TRUE(unknown.error) << "what is not known may be a collective";
  const AuditOutcome goes_on =
      job.joint({runs("p", 8, ""), fails("no compiler"), runs("p", 8, "")});
  ASSERT_TRUE(goes_on.finding);
  EXPECT_EQ(goes_on.finding->code, Code::CompileError);
}

TEST(Audit, DifferentFrames_StopUnlessTheirCollectivesAreTheSame) {
  Job job({.size = 3});
  const AuditOutcome stopped =
      job.joint({runs("p"), runs("p"), runs("p", 8, "")}, {"train", "train", "evaluate"});
  ASSERT_TRUE(stopped.error);
  EXPECT_EQ(stopped.error->code, Code::FrameMismatch);
  EXPECT_EQ(stopped.error->groups, (std::vector<RankValue>{{RankSet::range({0}, {1}), "train"},
                                                           {RankSet::of({2}), "evaluate"}}));
  EXPECT_TRUE(job.joint({runs("p"), runs("p"), runs("p", 8, std::nullopt)}, {"a", "a", "b"}).error);
  const AuditOutcome goes_on =
      job.joint({runs("p", 8, ""), runs("p", 8, ""), runs("p", 8, "")}, {"a", "a", "b"});
  ASSERT_TRUE(goes_on.finding);
  EXPECT_EQ(goes_on.finding->code, Code::FrameMismatch);
}

TEST(Audit, AFindingThatComesAgain_IsCountedAndNotReportedAgain_WhateverItsSizes) {
  Job job({.size = 2});
  for (std::uint64_t i = 0; i < 5; ++i) {
    const auto rows = static_cast<std::int64_t>(10 + i);
    EXPECT_EQ(job.joint({runs("p"), runs("q" + std::to_string(i), rows)}).times, i + 1);
  }
  AuditedCall other = runs("q");
  other.observation = Inputs().tensor("tokens", {8, 17}).boolean("train", true).build();
  EXPECT_EQ(job.joint({runs("p"), other}).times, 1U) << "about another input";
  ASSERT_EQ(job.ledgers[1].findings().size(), 2U);
  EXPECT_NE(job.ledgers[1].summary().find("6 calls, 6 with a finding (2 different), 0 stopped"),
            std::string::npos)
      << job.ledgers[1].summary();
}

TEST(Audit, MoreFindingsThanAreKept_AreCountedTogether) {
  AuditLedger ledger;
  const Status finding{Code::GraphDivergence, "m", {}, {}};
  for (std::size_t i = 0; i < AuditLedger::kMost; ++i)
    EXPECT_EQ(ledger.note(finding, std::to_string(i)), 1U);
  EXPECT_GT(ledger.note(finding, "one too many"), 1U);
  EXPECT_EQ(ledger.note(finding, "0"), 2U);
  EXPECT_EQ(ledger.findings().size(), AuditLedger::kMost);
  EXPECT_NE(ledger.summary().find("1 more, not told apart"), std::string::npos);
}

TEST(Audit, ALostRank_IsAnErrorOnEveryOther) {
  Job job({.size = 4});
  job.network.crash({2}, Instant{0});
  const auto outcomes = job.call({runs("p"), runs("p"), runs("p"), runs("p")});
  ASSERT_GE(outcomes.size(), 3U);
  for (const AuditOutcome& outcome : outcomes) EXPECT_TRUE(outcome.error);
}

/// A rank in an agreed call meets a rank in an audited call: both collect the same rank table.
TEST(Audit, MeetsARankInAnotherKindOfRound_AllGetTheSameFrameMismatch) {
  RoundKey key;
  key.frame = "f";
  AuditLedger ledger;
  AuditMachine audited({0}, key, ledger, runs("p"));
  DecisionConfig config;
  CodeCache frame("f");
  CallMachine agreed({1}, 2, config, key, frame, runs("p").observation);
  collectives::Vote both = std::get<action::Vote>(audited.next()).mine;
  const auto& other = std::get<action::Vote>(agreed.next()).mine;
  for (std::size_t i = 0; i < both.words.size(); ++i) both.words[i] &= other.words[i];
  audited.voted(both);
  agreed.voted(both);
  const auto& mine = std::get<action::TreeJoin>(audited.next());
  const auto& theirs = std::get<action::TreeJoin>(agreed.next());
  const Bytes rank_table = mine.join(mine.mine, theirs.mine);
  ASSERT_EQ(rank_table, theirs.join(mine.mine, theirs.mine));
  audited.joined(rank_table);
  agreed.joined(rank_table);
  ASSERT_NE(audited.outcome(), nullptr);
  ASSERT_TRUE(audited.outcome()->error);
  EXPECT_EQ(audited.outcome()->error->code, Code::FrameMismatch);
  EXPECT_EQ(audited.outcome()->error, std::get<action::Finish>(agreed.next()).outcome.error);
}

/// Over random jobs: a finding if and only if programs differ and known collectives do not, an
/// error if and only if known collectives differ; each reported once per content.
TEST(Audit, RandomRanks_FindingIffProgramsDiffer_ErrorIffCollectivesDo) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int findings = 0, errors = 0, clean = 0;
  for (int job_number = 0; job_number < 60; ++job_number) {
    const int size = 1 + static_cast<int>(random() % 5);
    Job job({.size = size, .seed = random()});
    for (int c = 0; c < 12; ++c) {
      std::vector<AuditedCall> calls;
      std::set<std::string> programs;
      std::set<std::string> known;
      for (int r = 0; r < size; ++r) {
        const std::string program = random() % 4 == 0 ? "q" : "p";
        const bool unknown = random() % 8 == 0;
        const std::string collectives = random() % 8 == 0 ? "" : "a";
        programs.insert(program);
        if (!unknown) known.insert(collectives);
        calls.push_back(runs(program, static_cast<std::int64_t>(random() % 4),
                             unknown ? std::nullopt : std::optional(collectives)));
        calls.back().is_new = random() % 2 == 0;
      }
      const AuditOutcome outcome = job.joint(calls);
      EXPECT_EQ(outcome.error.has_value(), known.size() > 1);
      EXPECT_EQ(outcome.finding.has_value(), programs.size() > 1 && known.size() <= 1);
      findings += outcome.finding.has_value();
      errors += outcome.error.has_value();
      clean += !outcome.finding && !outcome.error;
    }
  }
  EXPECT_GT(findings, 50);
  EXPECT_GT(errors, 50);
  EXPECT_GT(clean, 50);
}

Bytes random_payload(std::mt19937& random) {
  Inputs inputs;
  for (const char* name : {"a", "b", "c"}) {
    const auto value = static_cast<std::int64_t>(random() % 3);
    switch (random() % 4) {
      case 0:
        inputs.tensor(name, {value, 2});
        break;
      case 1:
        inputs.integer(name, value);
        break;
      case 2:
        inputs.boolean(name, value == 1);
        break;
      default:
        break;
    }
  }
  return evidence_payload(evidence_of(random() % 2, inputs.build()));
}

TEST(AuditEvidence, Join_IsAssociative_AndDamagedPayloadsAreNoEvidence) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 300; ++i) {
    const Bytes a = random_payload(random), b = random_payload(random), c = random_payload(random);
    EXPECT_EQ(join_evidence(join_evidence(a, b), c), join_evidence(a, join_evidence(b, c)));
    Bytes cut = a;
    cut.resize(random() % a.size());
    EXPECT_TRUE(read_evidence(cut).empty());
  }
}

TEST(AuditEvidence, Cause_PrefersWhatTellsAllSetsApart_OverWhatMerelyDiffers) {
  const auto of = [](std::int64_t rows, std::int64_t columns) {
    return evidence_of(0, Inputs().tensor("x", {rows, columns}).build());
  };
  const Evidence left = merged(of(1, 5), of(2, 5));
  const Evidence right = merged(of(2, 6), of(3, 6));
  const auto cause = find_cause({left, right});
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->name, "x.size(1)");
  EXPECT_TRUE(cause->separates);
  const auto overlap = find_cause({merged(of(1, 5), of(2, 5)), of(2, 5)});
  ASSERT_TRUE(overlap);
  EXPECT_EQ(overlap->name, "x.size(0)");
  EXPECT_FALSE(overlap->separates);
  EXPECT_EQ(overlap->values, (std::vector<std::string>{"1 to 2", "2"}));
  EXPECT_FALSE(find_cause({of(1, 5), of(1, 5)}));
}

TEST(AuditEvidence, Cause_NamesASourceThatIsAbsentOrOfAnotherKind) {
  const Evidence with = evidence_of(0, Inputs().tensor("x", {4}).integer("n", 3).build());
  const Evidence without = evidence_of(0, Inputs().tensor("x", {4}).build());
  const auto absent = find_cause({with, without});
  ASSERT_TRUE(absent);
  EXPECT_EQ(absent->name, "n");
  EXPECT_EQ(absent->values, (std::vector<std::string>{"3", "absent"}));
  const auto kind = find_cause({with, evidence_of(0, Inputs().tensor("x", {4}).real("n").build())});
  ASSERT_TRUE(kind);
  EXPECT_EQ(kind->values, (std::vector<std::string>{"3", "float"}));
}

}  // namespace
}  // namespace lockstep::worker::audit_test
