// What goes wrong on one rank, or between ranks, is one error on all of them, and the job goes on.
#include <map>
#include <optional>
#include <stdexcept>

#include "job_ranks.h"

namespace lockstep::worker::job_failure_test {
namespace {

class JobFailure : public JobRanks {
 protected:
  /// The frame's next call works on all ranks, and so does a frame that nobody has called yet.
  template <class In>
  void expect_goes_on(CompiledFrame<In, Y>& step, In in, double value) {
    for (int call = 0; call < 2; ++call) {
      const auto out = step(in);
      ASSERT_TRUE(out) << out.error().text();
      EXPECT_EQ(only(out->y), value);
    }
    expect_job_goes_on();
  }
  void expect_job_goes_on() {
    auto next = job->frame<X, Y>("next", [](X in) { return Y{all_reduce(sum(in.x))}; });
    const auto out = next({filled({3}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 3 * size);
    EXPECT_TRUE(finish());
  }
  template <class Out>
  Status refused(const Result<Out>& result, Code code) {
    if (result) {
      ADD_FAILURE() << "went well, wanted " << code_name(code);
      return {};
    }
    EXPECT_EQ(code_name(result.error().code), code_name(code)) << result.error().text();
    expect_joint(result.error());
    return result.error();
  }
};

TEST_F(JobFailure, BranchThatDiverges_NamesLineRanksAndFixes) {
  if (size == 1) return;
  int line = 0;
  auto step = job->frame<X, Y>("step", [&line](X in) {
    Tensor y = sum(in.x);
    line = __LINE__ + 1;
    if (in.x.size(0) > 4) y = y - all_reduce(y);
    return Y{all_reduce(y)};
  });
  const Status error = refused(step({filled({last ? 6 : 3}, 1)}), Code::BranchDivergence);
  const std::string others = size == 2 ? "rank 0" : "ranks 0-" + std::to_string(size - 2);
  for (const std::string& part :
       {"job_failure_test.cpp:" + std::to_string(line), "x.size(0)" + std::string(), last_text(),
        others, std::string("group_any(cond)"), std::string("select")})
    EXPECT_TRUE(contains(error.text(), part)) << part << " is not in " << error.text();
  ASSERT_EQ(error.groups.size(), 2U);
  EXPECT_EQ(error.groups[1].ranks, RankSet::of(Rank{size - 1}));
  expect_goes_on(step, {filled({3}, 1)}, 3 * size);
}

// Regression: both ran, as one frame to the ranks.
TEST_F(JobFailure, SecondFrameOfAName_IsRefusedAtItsFirstCallOnAllRanks) {
  const auto body = [](X in) { return Y{all_reduce(sum(in.x))}; };
  auto step = job->frame<X, Y>("step", body);
  auto again = job->frame<X, Y>("step", body);
  const Status error = refused(again({filled({3}, 1)}), Code::BadInput);
  EXPECT_TRUE(contains(error.text(), "a frame step has been made before")) << error.text();
  EXPECT_TRUE(contains(error.text(), "give another frame another name")) << error.text();
  expect_goes_on(step, {filled({3}, 1)}, 3 * size);
}

TEST_F(JobFailure, SecondFrameOfANameOnOneRank_NamesThatRank) {
  if (size == 1) return;
  const auto body = [](X in) { return Y{all_reduce(sum(in.x))}; };
  auto step = job->frame<X, Y>("step", body);
  std::optional<CompiledFrame<X, Y>> again;
  if (last) again = job->frame<X, Y>("step", {.consistency = Consistency::SameGraph}, body);
  const Status error = refused((again ? *again : step)({filled({3}, 1)}), Code::BadInput);
  EXPECT_TRUE(contains(error.text(), last_text() + " failed before")) << error.text();
  EXPECT_TRUE(contains(error.text(), "a frame step has been made before")) << error.text();
  const auto out = step({filled({3}, 1)});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->y), 3 * size);
}

// Regression: the calls ran, and finish() spoke of pending asserts and agreed values.
TEST_F(JobFailure, FramesMadeInAnotherOrder_AreAMismatchAtTheFirstCall) {
  if (size == 1) return;
  const auto body = [](X in) { return Y{all_reduce(sum(in.x))}; };
  std::optional<CompiledFrame<X, Y>> first, second;
  if (last) second = job->frame<X, Y>("second", body);
  first = job->frame<X, Y>("first", body);
  if (!last) second = job->frame<X, Y>("second", body);
  const Status error = refused((*first)({filled({3}, 1)}), Code::FrameMismatch);
  EXPECT_TRUE(contains(error.text(), "made their frames in different orders")) << error.text();
  ASSERT_EQ(error.groups.size(), 2U) << error.text();
  EXPECT_EQ(error.groups[0].value, "made before all others");
  EXPECT_EQ(error.groups[1].value, "made after frame second");
  EXPECT_EQ(error.groups[1].ranks, RankSet::of(Rank{size - 1}));
}

TEST_F(JobFailure, FrameOfAnotherName_NamesTheRanksAndTheFrames) {
  if (size == 1) return;
  const auto body = [](X in) { return Y{all_reduce(sum(in.x))}; };
  auto step = job->frame<X, Y>(last ? "stepp" : "step", body);
  const Status error = refused(step({filled({3}, 1)}), Code::FrameMismatch);
  ASSERT_EQ(error.groups.size(), 2U) << error.text();
  EXPECT_EQ(error.groups[0].value, "step");
  EXPECT_EQ(error.groups[1].value, "stepp");
  EXPECT_EQ(error.groups[1].ranks, RankSet::of(Rank{size - 1}));
}

// Members make frames of their group, and every rank may make local ones, without a place among
// those of all ranks.
TEST_F(JobFailure, FramesOfSomeRanksOnly_DoNotShiftThoseOfAll) {
  const auto body = [](X in) { return Y{sum(in.x)}; };
  const auto alone = job->group("alone", RankSet::of(Rank{rank}));
  ASSERT_TRUE(alone) << alone.error().text();
  if (last) {
    auto mine = job->frame<X, Y>("mine", {.group = *alone}, body);
    auto look = job->frame<X, Y>("look", {.consistency = Consistency::Local}, body);
    EXPECT_TRUE(mine({filled({3}, 1)}));
    EXPECT_TRUE(look({filled({3}, 1)}));
  }
  auto step = job->frame<X, Y>("step", [](X in) { return Y{all_reduce(sum(in.x))}; });
  auto of_group = job->frame<X, Y>("step", {.group = *alone}, body);
  EXPECT_TRUE(of_group({filled({3}, 1)})) << "a name may be used in each group";
  expect_goes_on(step, {filled({3}, 1)}, 3 * size);
}

// Regression: it was "the branch", with group_any as a way out.
TEST_F(JobFailure, SizeMadeANumberWhereSizesDiffer_IsToldAsToInt) {
  if (size == 1) return;
  int line = 0;
  auto step = job->frame<X, Y>("step", [&line](X in) {
    line = __LINE__ + 1;
    const auto rows = static_cast<double>(in.x.size(0).to_int());
    return Y{all_reduce(sum(in.x) * rows)};
  });
  const Status error = refused(step({filled({last ? 6 : 3}, 1)}), Code::BranchDivergence);
  for (const std::string& part :
       {"to_int() at job_failure_test.cpp:" + std::to_string(line) + " fixes x.size(0) to ",
        std::string("keep it a SymInt"), std::string("mark the dim static"), last_text()})
    EXPECT_TRUE(contains(error.text(), part)) << part << " is not in " << error.text();
  EXPECT_FALSE(contains(error.text(), "group_any")) << error.text();
  EXPECT_FALSE(contains(error.text(), "branch at")) << error.text();
}

// Regression: the programs differed at input("x"), without a line.
TEST_F(JobFailure, SizeMadeANumberOnOneRank_NamesItsLine) {
  if (size == 1) return;
  int line = 0;
  auto step = job->frame<X, Y>("step", [&](X in) {
    line = __LINE__ + 1;
    const std::int64_t rows = last ? in.x.size(0).to_int() : 1;
    EXPECT_GT(rows, 0);
    return Y{all_reduce(sum(in.x))};
  });
  const auto first = step({filled({3}, 1)});
  ASSERT_TRUE(first) << first.error().text();
  const Status error = refused(step({filled({5}, 1)}), Code::GraphDivergence);
  ASSERT_EQ(error.groups.size(), 2U) << error.text();
  EXPECT_EQ(error.groups[1].ranks, RankSet::of(Rank{size - 1}));
  EXPECT_TRUE(contains(error.groups[1].value, "to_int() at job_failure_test.cpp:" +
                                                  std::to_string(line) + " fixes x.size(0)"))
      << error.text();
}

TEST_F(JobFailure, ProgramsThatDiffer_NameTheFirstNode) {
  if (size == 1) return;
  bool differs = true;
  auto step = job->frame<X, Y>("step", [&](X in) {
    const Tensor y = in.x + 1.0;
    return Y{all_reduce(sum(differs && last ? y * 3.0 : y * 2.0))};
  });
  const Status error = refused(step({filled({2}, 1)}), Code::GraphDivergence);
  EXPECT_TRUE(contains(error.text(), "job_failure_test.cpp:")) << error.text();
  EXPECT_EQ(error.groups.size(), 2U) << error.text();
  differs = false;
  expect_goes_on(step, {filled({2}, 1)}, 8 * size);
}

TEST_F(JobFailure, AutocastThatDiffers_IsFoundAtTheFirstCall) {
  if (size == 1) return;
  DType dtype = last ? DType::F16 : DType::BF16;
  auto step = job->frame<X, Y>("step", [&](X in) {
    const Tensor x = cast(in.x, DType::F32);
    const Autocast low(x, dtype);
    return Y{all_reduce(sum(cast(matmul(unsqueeze(x, 0), unsqueeze(x, 1)), DType::F64)))};
  });
  const Status error = refused(step({filled({4}, 3)}), Code::GraphDivergence);
  EXPECT_TRUE(contains(error.text(), "job_failure_test.cpp:")) << error.text();
  for (const char* part : {"bf16[1, 4]", "f16[1, 4]"})
    EXPECT_TRUE(contains(error.text(), part)) << error.text();
  dtype = DType::BF16;
  expect_goes_on(step, {filled({4}, 3)}, 36 * size);
}

TEST_F(JobFailure, RankNumberAsAConstant_IsNamed) {
  if (size == 1) return;
  bool baked = true;
  auto step = job->frame<X, Y>("step", [&](X in) {
    const Tensor y = exp(in.x) + (baked ? 10.0 + job->rank() : 1.0);
    return Y{all_reduce(sum(y))};
  });
  const Status error = refused(step({filled({2}, 0)}), Code::GraphDivergence);
  EXPECT_TRUE(
      contains(error.message, "the only difference is a constant: 10 on rank 0, 11 on rank 1"))
      << error.text();
  EXPECT_EQ(contains(error.message, "which is the rank's number + 10"), size > 2) << error.text();
  baked = false;
  expect_goes_on(step, {filled({2}, 0)}, 4 * size);
}

TEST_F(JobFailure, ExceptionInTheTraceOfOneRank_NamesTheRank) {
  bool throws = true;
  auto step = job->frame<X, Y>("step", [&](X in) {
    if (throws && last) throw std::runtime_error("the tokenizer is missing");
    return Y{all_reduce(sum(in.x))};
  });
  const Status error = refused(step({filled({2}, 1)}), Code::TraceError);
  EXPECT_TRUE(contains(error.message, last_text())) << error.text();
  EXPECT_TRUE(contains(error.message, "the tokenizer is missing")) << error.text();
  throws = false;
  expect_goes_on(step, {filled({2}, 1)}, 2 * size);
}

TEST_F(JobFailure, ExceptionWhereOthersAskTheGroup_NamesTheRank) {
  bool throws = true;
  auto step = job->frame<X, Y>("step", [&](X in) {
    if (throws && last) throw std::runtime_error("no more data");
    Tensor y = sum(in.x);
    if (group_any(in.x.size(0) > 4)) y = y * 2.0;
    return Y{all_reduce(y)};
  });
  X in{filled({6}, 1)};
  in.x.mark(0, Mark::Dynamic);
  const Status error = refused(step(in), Code::TraceError);
  EXPECT_TRUE(contains(error.message, last_text())) << error.text();
  EXPECT_TRUE(contains(error.message, "no more data")) << error.text();
  throws = false;
  expect_goes_on(step, in, 12 * size);
}

TEST_F(JobFailure, OneRankAsksTheGroupAQuestionMore_IsAnErrorAtOnce) {
  if (size == 1) return;
  bool asks = true;
  auto step = job->frame<X, Y>("step", [&](X in) {
    Tensor y = sum(in.x);
    if (asks && last && group_any(in.x.size(0) > 4)) y = y * 2.0;
    return Y{all_reduce(y)};
  });
  X in{filled({6}, 1)};
  in.x.mark(0, Mark::Dynamic);
  const auto out = step(in);
  ASSERT_FALSE(out);
  expect_joint(out.error());
  asks = false;
  expect_goes_on(step, in, 6 * size);
}

TEST_F(JobFailure, DtypeAndNumberOfDims_AreNamed) {
  if (size == 1) return;
  auto step = job->frame<X, Y>("step", [](X in) { return Y{all_reduce(sum(in.x))}; });
  Status error = refused(step({last ? Tensor(Array::zeros(DType::F32, {2})) : filled({2}, 1)}),
                         Code::DtypeMismatch);
  EXPECT_EQ(error.source, "x");
  error = refused(
      step({filled(last ? std::vector<std::int64_t>{2, 1} : std::vector<std::int64_t>{2}, 1)}),
      Code::NdimMismatch);
  EXPECT_EQ(error.source, "x");
  expect_goes_on(step, {filled({2}, 1)}, 2 * size);
}

struct Bag {
  std::map<std::string, Tensor> tensors;
  template <class V>
  void fields(V& v) {
    v("tensors", tensors);
  }
};

TEST_F(JobFailure, SourceThatOneRankLacks_IsNamed) {
  if (size == 1) return;
  auto step =
      job->frame<Bag, Y>("step", [](Bag in) { return Y{all_reduce(sum(in.tensors.at("a")))}; });
  Bag in{{{"a", filled({2}, 1)}, {"b", filled({3}, 1)}}};
  if (last) in.tensors.erase("b");
  const Status error = refused(step(in), Code::SourceMismatch);
  EXPECT_TRUE(contains(error.source, "b")) << error.text();
  EXPECT_EQ(error.groups.size(), 2U);
  in.tensors.erase("b");
  expect_goes_on(step, in, 2 * size);
}

struct Number {
  SymInt x;
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};

struct Plain {
  std::int64_t rows = 0;
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("rows", rows), v("x", x);
  }
};

// Regression: it was told as to_int() at a header of ours.
TEST_F(JobFailure, PlainNumberThatDiffers_IsNamed) {
  if (size == 1) return;
  auto step = job->frame<Plain, Y>(
      "step", [](Plain in) { return Y{all_reduce(sum(in.x)) * static_cast<double>(in.rows)}; });
  const Status error = refused(step({last ? 5 : 3, filled({2}, 1)}), Code::BranchDivergence);
  EXPECT_TRUE(contains(error.message,
                       "step: the plain number rows fixes rows to 3, the agreed "
                       "example, but that holds on rank"))
      << error.text();
  EXPECT_TRUE(contains(error.message, "declare it SymInt")) << error.text();
  EXPECT_FALSE(contains(error.text(), ".h:")) << error.text();
  expect_goes_on(step, {3, filled({2}, 1)}, 6 * size);
}

struct Scaled {
  double rate = 0;
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("rate", rate), v("x", x);
  }
};

TEST_F(JobFailure, PlainFloat_IsPinned_AndNamedWhereItDiffers) {
  auto step = job->frame<Scaled, Y>(
      "step", [](Scaled in) { return Y{all_reduce(sum(in.x)) * (in.rate > 1 ? 2.0 : in.rate)}; });
  for (const double rate : {0.5, 3.0, 0.5}) {
    const auto out = step({rate, filled({2}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 2 * size * std::min(rate, 2.0));
  }
  if (size > 1) {
    const Status error =
        refused(step({last ? 0.25 : 0.75, filled({2}, 1)}), Code::BranchDivergence);
    EXPECT_TRUE(contains(error.message, "step: the plain number rate is fixed: (rate == 0.75)"))
        << error.text();
  }
  expect_goes_on(step, {0.5, filled({2}, 1)}, 1.0 * size);
}

TEST_F(JobFailure, KindThatDiffers_IsNamed) {
  if (size == 1) return;
  // The ranks have different ideas of the input x of "step".
  const auto of_tensor = [&] {
    return job->frame<X, Y>("step", [](X in) { return Y{in.x}; })({filled({2}, 1)});
  };
  const auto of_number = [&] {
    return job->frame<Number, Y>("step", [](Number) { return Y{}; })({4});
  };
  const auto error = refused(last ? of_number() : of_tensor(), Code::KindMismatch);
  EXPECT_EQ(error.source, "x");
  EXPECT_TRUE(job->settle());
}

TEST_F(JobFailure, DifferentFrames_AreAnErrorAtOnce) {
  if (size == 1) return;
  auto train = job->frame<X, Y>("train", [](X in) { return Y{all_reduce(sum(in.x))}; });
  auto test = job->frame<X, Y>("test", [](X in) { return Y{all_reduce(sum(in.x))}; });
  const X in{filled({2}, 1)};
  const Status error = refused(last ? test(in) : train(in), Code::FrameMismatch);
  EXPECT_TRUE(contains(error.text(), "train") && contains(error.text(), "test")) << error.text();
  expect_goes_on(train, in, 2 * size);
}

TEST_F(JobFailure, SettleAgainstACall_IsAnErrorAtOnce) {
  if (size == 1) return;
  auto step = job->frame<X, Y>("step", [](X in) { return Y{all_reduce(sum(in.x))}; });
  const X in{filled({2}, 1)};
  if (last)
    refused(job->settle(), Code::FrameMismatch);
  else
    refused(step(in), Code::FrameMismatch);
  expect_goes_on(step, in, 2 * size);
}

TEST_F(JobFailure, InputWithoutAValueOnOneRank_IsAnErrorOnAll) {
  auto step = job->frame<X, Y>("step", [](X in) { return Y{all_reduce(sum(in.x))}; });
  const Status error = refused(last ? step({Tensor()}) : step({filled({2}, 1)}), Code::BadInput);
  EXPECT_TRUE(contains(error.message, last_text())) << error.text();
  expect_goes_on(step, {filled({2}, 1)}, 2 * size);
}

struct Counted {
  Tensor x, counts;
  template <class V>
  void fields(V& v) {
    v("x", x), v("counts", counts);
  }
};

/// Sums the first counts[0] elements over all ranks, refusing counts that are too large.
Y sum_counted(Counted in) {
  const SymInt count = tolist(in.counts, Values::NonNegative)[0];
  check(count <= in.x.size(0), "more elements were counted than there are");
  return Y{all_reduce(sum(slice(in.x, 0, 0, count)))};
}

TEST_F(JobFailure, CheckThatFailsOnOneRank_IsKnownToAllBeforeTheNextCollective) {
  auto step = job->frame<Counted, Y>("step", sum_counted);
  const auto with_count = [](std::int64_t count) {
    return Counted{filled({4}, 1), integers({count})};
  };
  // Both on the call that compiles, and on one that runs an entry that has served before.
  for (int round = 0; round < 2; ++round) {
    const Status error = refused(step(with_count(last ? 5 : 3)), Code::RuntimeAssert);
    EXPECT_TRUE(contains(error.message, last_text())) << error.text();
    EXPECT_TRUE(contains(error.message, "more elements were counted than there are"))
        << error.text();
    const auto out = step(with_count(3));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_FALSE(step.last_compiled());
    EXPECT_EQ(only(out->y), 3 * size);
  }
  const Status error = refused(step(with_count(last ? -1 : 3)), Code::RuntimeAssert);
  EXPECT_TRUE(contains(error.message, last_text())) << error.text();
  expect_goes_on(step, with_count(2), 2 * size);
}

// Other rounds of the group lie between, which users do not count.
TEST_F(JobFailure, ErrorsCountTheCallsOfTheirFrame) {
  auto f = job->frame<Counted, Y>("f", sum_counted), g = job->frame<Counted, Y>("g", sum_counted);
  const Counted well{filled({4}, 1), integers({3})};
  const Counted ill{filled({4}, 1), integers({last ? 5 : 3})};
  for (int call = 0; call < 2; ++call) {
    ASSERT_TRUE(f(well));
    ASSERT_TRUE(g(well));
    ASSERT_TRUE(job->more(true));
    ASSERT_TRUE(f(well));
  }
  const auto expect_said = [&](CompiledFrame<Counted, Y>& step, const std::string& call) {
    const Status error = refused(step(ill), Code::RuntimeAssert);
    EXPECT_TRUE(contains(error.message, " of " + call + ": ") ||
                contains(error.message, " before " + call + ": "))
        << call << " is not in " << error.message;
  };
  expect_said(g, "call 2 of g");
  expect_said(f, "call 4 of f");
  g.prefetch(ill);
  expect_said(g, "call 3 of g");
  expect_goes_on(f, well, 3 * size);
}

TEST_F(JobFailure, CheckThatFailsInAnInterpretedCall_IsKnownToAll) {
  start({.automatic_dynamic = false, .recompile_limit = 1, .settle = false});
  auto step = job->frame<Counted, Y>("step", sum_counted);
  const auto with_count = [](std::int64_t rows, std::int64_t count) {
    return Counted{filled({rows}, 1), integers({count})};
  };
  ASSERT_TRUE(step(with_count(4, 3)));
  refused(step(with_count(5, last ? 6 : 3)), Code::RuntimeAssert);
  EXPECT_TRUE(contains(step.last_call(), "interpreted")) << step.last_call();
  expect_goes_on(step, with_count(5, 3), 3 * size);
}

TEST_F(JobFailure, IndexOutOfRangeOnOneRank_IsAnErrorOnAll) {
  auto step = job->frame<Counted, Y>(
      "step", [](Counted in) { return Y{all_reduce(sum(index_select(in.x, in.counts)))}; });
  const Status error =
      refused(step({filled({4}, 1), integers({0, last ? 4 : 3})}), Code::RuntimeAssert);
  EXPECT_TRUE(contains(error.message, last_text())) << error.text();
  expect_goes_on(step, {filled({4}, 1), integers({0, 3})}, 2 * size);
}

TEST_F(JobFailure, FailureAfterTheLastCollective_IsSettledAtTheEnd) {
  auto step = job->frame<Counted, Y>("step", [](Counted in) {
    const Tensor y = all_reduce(sum(in.x));
    return Y{y + sum(index_select(in.x, in.counts))};
  });
  refused(step({filled({4}, 1), integers({last ? 9 : 0})}), Code::RuntimeAssert);
  expect_goes_on(step, {filled({4}, 1), integers({0})}, 4 * size + 1);
}

TEST_F(JobFailure, BranchOnDataThatExistsOnlyAtRunTime_SaysWhatToDo) {
  auto step = job->frame<Counted, Y>("step", [](Counted in) {
    if (tolist(in.counts)[0] > 2) return Y{in.x * 2.0};
    return Y{in.x};
  });
  const Status error = refused(step({filled({4}, 1), integers({3})}), Code::TraceError);
  EXPECT_TRUE(contains(error.message, "job_failure_test.cpp:")) << error.text();
  EXPECT_TRUE(contains(error.message, "where(") || contains(error.message, "check("))
      << error.text();
  expect_job_goes_on();
}

}  // namespace
}  // namespace lockstep::worker::job_failure_test
