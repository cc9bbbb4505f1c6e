// Groups of a job on real ranks: what is agreed on in a group alone, and how their errors read.
#include "group_program.h"
#include "job_ranks.h"
#include <fmt/format.h>

namespace lockstep::worker::job_groups_test {
namespace {

/// Two halves of the job's ranks; with an odd number the last rank is in neither.
class JobGroupsTest : public JobRanks {
 protected:
  void SetUp() override {
    JobRanks::SetUp();
    half_size = std::max(1, size / 2);
    const int first = rank / half_size * half_size;
    if (first < 2 * half_size) {
      mine = RankSet::range({first}, {first + half_size - 1});
      upper = first > 0;
    }
  }
  Group halves() {
    auto made = job->group("half", mine);
    EXPECT_TRUE(made) << made.error().text();
    return made ? *made : Group{};
  }

  RankSet mine;
  int half_size = 1;
  bool upper = false;
};

X rows(std::int64_t count, double value = 1) { return {filled({count}, value)}; }

Y total(X in) { return {all_reduce(sum(in.x))}; }

TEST_F(JobGroupsTest, CallsAreCountedAndAgreedInTheGroupAlone) {
  const Group half = halves();
  auto part = job->frame<X, Y>("part", {.group = half}, total);
  auto whole = job->frame<X, Y>("whole", total);
  if (!half.empty()) {
    EXPECT_EQ(half.size(), half_size);
    EXPECT_EQ(half.rank.value, rank % half_size);
    // One half calls more often than the other, with sizes that differ there only.
    for (std::int64_t call = 0; call < (upper ? 5 : 3); ++call) {
      const auto out = part(rows(upper ? 3 + call : 7, 1 + rank));
      ASSERT_TRUE(out) << out.error().text();
      double expected = 0;
      for (int r = rank / half_size * half_size; r < rank / half_size * half_size + half_size; ++r)
        expected += static_cast<double>((upper ? 3 + call : 7) * (1 + r));
      EXPECT_EQ(only(out->y), expected);
      EXPECT_EQ(part.last_compiled(), upper ? call < 2 : call == 0) << part.last_call();
    }
  }
  const auto all = whole(rows(2));
  ASSERT_TRUE(all) << all.error().text();
  EXPECT_EQ(only(all->y), 2.0 * size);
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, Summary_HasTheFramesOfAllGroups) {
  if (size < 2) return;
  job.reset();
  auto made = Job::attach(MPI_COMM_WORLD, {.settings = quiet(), .summary = true});
  ASSERT_TRUE(made) << made.error().text();
  job = std::move(*made);
  const Group half = halves();
  auto whole = job->frame<X, Y>("whole", total);
  // Frames that the lower half does not have, and one that both have and call differently often.
  auto both = job->frame<X, Y>("both", {.group = half}, total);
  if (!half.empty()) {
    for (int call = 0; call < (upper ? 3 : 1); ++call) ASSERT_TRUE(both(rows(2)));
  }
  if (upper) {
    ASSERT_TRUE((job->frame<X, Y>("upper", {.group = half}, total))(rows(2)));
  }
  ASSERT_TRUE(whole(rows(2)));
  testing::internal::CaptureStdout();
  const bool ended = finish();
  const std::string said = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(ended);
  if (rank != 0) {
    EXPECT_EQ(said, "");
    return;
  }
  const auto line = [](const std::string& name, int calls, const std::string& ranks) {
    return fmt::format("  {:<24}{:>8}{:>10}{:>8}{:>10}{:>8}{}\n", name, calls, 1, calls - 1, 0, 0,
                       ranks.empty() ? "" : "  rank" + ranks);
  };
  const auto ranks = [&](int first) {
    return half_size == 1 ? fmt::format(" {}", first)
                          : fmt::format("s {}-{}", first, first + half_size - 1);
  };
  EXPECT_TRUE(contains(said, line("whole", 1, ""))) << said;
  EXPECT_TRUE(contains(said, line("both (half)", 1, ranks(0)))) << said;
  EXPECT_TRUE(contains(said, line("both (half)", 3, ranks(half_size)))) << said;
  EXPECT_TRUE(contains(said, line("upper (half)", 1, ranks(half_size)))) << said;
}

TEST_F(JobGroupsTest, RankWithoutASet_IsToldSoAndNobodyWaitsForIt) {
  const Group first = job->group("first", rank == 0 ? RankSet::of({0}) : RankSet{}).value();
  auto step = job->frame<X, Y>("step", {.group = first}, total);
  const auto out = step(rows(3));
  EXPECT_EQ(static_cast<bool>(out), rank == 0);
  if (rank != 0) {
    EXPECT_EQ(out.error().code, Code::BadInput);
    EXPECT_TRUE(contains(out.error().message, "this rank is in no set of group first"))
        << out.error().message;
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, DeclarationsThatDoNotFit_AreOneErrorOnAllRanks) {
  if (size < 2) return;
  const RankSet pair = RankSet::range({0}, {1});
  // The last rank gives a set that it is not in, declares another name, and disagrees on the set.
  const auto foreign = job->group("a", last ? RankSet::of({0}) : RankSet::of({rank}));
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, Code::BadInput);
  EXPECT_TRUE(contains(foreign.error().message, last_text() + " gave rank 0"))
      << foreign.error().message;
  expect_joint(foreign.error());

  const auto other = job->group(last ? "c" : "b", RankSet::all(size));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::ConfigMismatch);
  EXPECT_EQ(other.error().groups.size(), 2U);
  expect_joint(other.error());

  const auto apart = job->group("d", last ? RankSet::of({rank}) : RankSet::all(size));
  ASSERT_FALSE(apart);
  EXPECT_EQ(apart.error().code, Code::ConfigMismatch);
  EXPECT_EQ(apart.error().source, "d");
  expect_joint(apart.error());

  const auto taken = job->group("d", RankSet::all(size));
  ASSERT_FALSE(taken);
  EXPECT_TRUE(contains(taken.error().message, "has been declared before"));
  EXPECT_TRUE(job->group("e", rank < 2 ? pair : RankSet{}));
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, ErrorInOneGroup_IsTheOthersNot_AndCountsRanksOfTheJob) {
  if (size < 2) return;
  const Group half = halves();
  if (half.empty()) {
    EXPECT_TRUE(finish());
    return;
  }
  const int bad = 2 * half_size - 1;  // the last rank of the upper half
  auto step = job->frame<X, Y>("step", {.group = half}, [&](X in) {
    if (rank == bad) throw std::runtime_error("no such token");
    return Y{all_reduce(sum(in.x))};
  });
  const auto out = step(rows(4));
  EXPECT_EQ(static_cast<bool>(out), !upper);
  if (upper) {
    EXPECT_EQ(out.error().code, Code::TraceError);
    EXPECT_TRUE(contains(out.error().message, "failed on rank " + std::to_string(bad)))
        << out.error().message;
    for (const RankValue& group : out.error().groups)
      for (const RankSet::Run& run : group.ranks.runs()) EXPECT_GE(run.first, half_size);
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, WrongFrameInAGroup_IsAnImmediateErrorWithBothRankSets) {
  if (size < 4) return;
  const Group half = halves();
  auto step = job->frame<X, Y>("step", {.group = half}, total);
  auto other = job->frame<X, Y>("other", {.group = half}, total);
  const auto out = upper && last ? other(rows(4)) : step(rows(4));
  EXPECT_EQ(static_cast<bool>(out), !upper);
  if (upper) {
    const std::vector<RankValue> expected{{RankSet::of({2}), "step"}, {RankSet::of({3}), "other"}};
    EXPECT_EQ(out.error().code, Code::FrameMismatch);
    EXPECT_EQ(out.error().groups, expected) << out.error().text();
  }
  // The group goes on after it.
  const auto again = step(rows(4));
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(only(again->y), 4.0 * half_size);
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, LocalFrame_EachRankDecidesForItselfAndCallsAsOftenAsItLikes) {
  auto step = job->frame<X, Y>("step", {.consistency = Consistency::Local}, [this](X in) {
    return Y{last ? in.x * 2.0 : in.x + 3.0};  // other programs
  });
  for (std::int64_t call = 0; call < 2 + rank; ++call) {
    const auto out = step(rows(rank == 0 ? 5 : 5 + call));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), last ? 2 : 4);
    EXPECT_EQ(step.last_compiled(), rank == 0 ? call == 0 : call < 2) << step.last_call();
  }
  auto whole = job->frame<X, Y>("whole", total);
  EXPECT_TRUE(whole(rows(1)));
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, CollectiveInALocalFrame_IsRefusedWithItsLine) {
  auto step = job->frame<X, Y>("step", {.consistency = Consistency::Local}, total);
  if (last) {  // alone: nobody is waited for
    const auto out = step(rows(3));
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code, Code::TraceError);
    EXPECT_TRUE(contains(out.error().message, "job_groups_test.cpp:")) << out.error().message;
    EXPECT_TRUE(contains(out.error().message, "all_reduce in frame step, which is local"))
        << out.error().message;
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, FrameMadeWithAnotherConsistency_IsOneErrorAtItsFirstCall) {
  if (size < 2) return;
  FrameOptions options;
  if (last) options.consistency = Consistency::SharedSizes;
  auto step = job->frame<X, Y>("step", options, total);
  const auto out = step(rows(3));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::FrameMismatch);
  EXPECT_EQ(out.error().source, "consistency");
  EXPECT_TRUE(contains(out.error().message, "frame step with different options"));
  ASSERT_EQ(out.error().groups.size(), 2U);
  EXPECT_EQ(out.error().groups[0].value, "as the job's");
  EXPECT_EQ(out.error().groups[1].value, "shared_sizes");
  expect_joint(out.error());
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, ConsistencyLikeTheJobs_IsNoOtherOption) {
  FrameOptions options;
  if (last) options.consistency = Consistency::SameGraph;
  auto step = job->frame<X, Y>("step", options, total);
  EXPECT_TRUE(step(rows(3)));
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, SharedSizesOfOneFrame_RanksMayRunDifferentPrograms) {
  auto loose = job->frame<X, Y>("loose", {.consistency = Consistency::SharedSizes},
                                [this](X in) { return Y{last ? in.x * 2.0 : in.x + 5.0}; });
  auto strict =
      job->frame<X, Y>("strict", [this](X in) { return Y{last ? in.x * 2.0 : in.x + 5.0}; });
  for (const std::int64_t count : {3, 4, 5}) {
    const auto out = loose(rows(count + rank));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), last ? 2 : 6);
  }
  if (size > 1) {
    const auto out = strict(rows(3));
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code, Code::GraphDivergence);
    expect_joint(out.error());
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, SameCollectivesOfOneFrame_GraphsMayDiffer) {
  auto step = job->frame<X, Y>("step", {.consistency = Consistency::SameCollectives}, [this](X in) {
    const Tensor part = last ? sum(in.x) * 2.0 : sum(in.x + 1.0);
    return Y{all_reduce(part)};
  });
  const auto out = step(rows(3));
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->y), 6.0 * size);
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, SameCollectivesThatDiffer_AreAnErrorThatNamesTheFirst) {
  if (size < 2) return;
  auto step = job->frame<X, Y>("step", {.consistency = Consistency::SameCollectives}, [this](X in) {
    const Tensor one = all_reduce(sum(in.x));
    const Tensor two = last ? all_reduce(one, collectives::Reduce::Max) : all_reduce(one);
    return Y{all_reduce(two)};
  });
  const auto out = step(rows(3));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::GraphDivergence);
  EXPECT_TRUE(contains(out.error().message,
                       "traced different collectives, first at number 1 of their list"))
      << out.error().message;
  ASSERT_EQ(out.error().groups.size(), 2U);
  for (const RankValue& group : out.error().groups) {
    EXPECT_TRUE(contains(group.value, "all_reduce")) << group.value;
    EXPECT_TRUE(contains(group.value, "job_groups_test.cpp:")) << group.value;
  }
  expect_joint(out.error());
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, RandomOverlappingGroups_GiveWhatPlainLoopsGive) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    start({});
    GroupProgram program(size, seed);
    std::map<std::string, Group> groups;
    for (const auto& [name, layout] : program.layouts()) {
      groups[name] = job->group(name, program.set_of(name, rank)).value();
      EXPECT_EQ(groups[name], program.group_of(name, rank));
    }
    auto step = job->frame<X, Y>("step", [&](X in) { return Y{program.traced(in.x, groups)}; });
    // As a constant, and as a symbol that all collectives need alike.
    for (const std::int64_t times : {1, 1, 3, 2, 5}) {
      program.widen(times);
      const std::vector<double> own = program.input(rank);
      const auto out = step({Tensor(Array::of(DType::F64, {program.width()}, own))});
      ASSERT_TRUE(out) << out.error().text();
      std::vector<double> got;
      for (std::int64_t i = 0; i < program.width(); ++i) got.push_back(out->y.array().at(i));
      EXPECT_EQ(got, program.expected()[static_cast<std::size_t>(rank)]);
      EXPECT_FALSE(step.last_compiled() && (times == 2 || times == 5)) << step.last_call();
    }
    EXPECT_TRUE(finish());
  }
}

TEST_F(JobGroupsTest, GroupThatWasNeverDeclared_IsATraceErrorOnAllRanks) {
  const Group invented{"invented", RankSet::all(size), Rank{rank}};
  auto step = job->frame<X, Y>(
      "step", [&](X in) { return Y{all_reduce(sum(in.x), collectives::Reduce::Sum, invented)}; });
  const auto out = step(rows(3));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::TraceError);
  EXPECT_TRUE(contains(out.error().message, "group invented has not been declared"));
  expect_joint(out.error());
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, AuditedFrame_ProgramsThatDifferRunOn) {
  auto step = job->frame<X, Y>("step", {.audit = true}, [this](X in) {
    return Y{all_reduce(last ? sum(in.x) * 2.0 : sum(in.x + 1.0))};
  });
  for (std::int64_t call = 0; call < 3; ++call) {
    const auto out = step(rows(3 + call * rank));  // each rank decides what is dynamic
    ASSERT_TRUE(out) << out.error().text();
    double expected = 0;
    for (int r = 0; r < size; ++r) expected += 2.0 * static_cast<double>(3 + call * r);
    EXPECT_EQ(only(out->y), expected);
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, AuditedFrame_CollectivesThatWouldNotMatchAreStoppedOnAllRanks) {
  if (size < 2) return;
  bool odd = false;
  auto step = job->frame<X, Y>("step", {.audit = true}, [&](X in) {
    Tensor y = sum(in.x);
    if (in.x.size(0) > 6) y = all_reduce(y, collectives::Reduce::Max);  // one more on the last rank
    return Y{all_reduce(y)};
  });
  for (const bool apart : {false, true, false}) {
    odd = apart && last;
    const auto out = step(rows(odd ? 9 : 4));
    EXPECT_EQ(static_cast<bool>(out), !apart) << (out ? "" : out.error().text());
    if (out) {
      EXPECT_EQ(only(out->y), 4.0 * size);
      continue;
    }
    EXPECT_EQ(out.error().code, Code::GraphDivergence) << out.error().text();
    expect_joint(out.error());
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobGroupsTest, AuditedFrame_FailureOfOneRankReachesAll) {
  if (size < 2) return;
  auto step = job->frame<X, Y>("step", {.audit = true}, [this](X in) {
    if (last) throw std::runtime_error("no such token");
    return total(in);
  });
  const auto out = step(rows(4));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::TraceError);
  EXPECT_TRUE(contains(out.error().message, "no such token"));
  expect_joint(out.error());
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::job_groups_test
