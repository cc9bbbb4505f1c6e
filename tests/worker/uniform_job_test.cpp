// Sizes that are the same on all ranks of a group, on real ranks: layers whose collectives need
// them go on as symbols, and a size that differs is one error for all before anything moves.
#include <deque>

#include "job_ranks.h"
#include <fmt/format.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/language/collective_ops.h>

namespace lockstep::worker::uniform_job_test {
namespace {

using collectives::Reduce;

/// Compiles at the first call and, as a size changes, at the second; then never again.
class UniformJob : public JobRanks {
 protected:
  CompiledFrame<X, Y>& frame(const std::function<Y(X)>& body, const FrameOptions& options = {}) {
    steps.push_back(job->frame<X, Y>("step" + std::to_string(steps.size()), options, body));
    return steps.back();
  }
  [[nodiscard]] static Result<Y> call(CompiledFrame<X, Y>& step, std::int64_t rows, double value) {
    return step({filled({rows, 2}, value)});
  }
  void expect_rows(CompiledFrame<X, Y>& step, std::int64_t rows, std::int64_t want_rows,
                   double want) {
    const auto out = call(step, rows, 1 + rank);
    ASSERT_TRUE(out) << out.error().text();
    const Array y = out->y.array();
    EXPECT_EQ(y.sizes()[0], want_rows);
    for (std::int64_t i = 0; i < y.elements(); ++i) EXPECT_EQ(y.at(i), want) << "element " << i;
  }
  /// The last rank has one row more than the others.
  void expect_refused(CompiledFrame<X, Y>& step, std::int64_t rows, std::int64_t more,
                      const std::string& what) {
    const auto result = call(step, last ? rows + more : rows, 1);
    ASSERT_FALSE(result.has_value()) << "rows moved";
    const Status& error = result.error();
    EXPECT_EQ(error.code, Code::ConstraintViolation) << error.text();
    EXPECT_EQ(error.source, "x.size(0)") << error.text();
    EXPECT_TRUE(contains(error.message, what)) << error.text();
    EXPECT_TRUE(contains(error.message, "uniform_job_test.cpp:")) << error.text();
    ASSERT_EQ(error.groups.size(), 2U) << error.text();
    EXPECT_EQ(error.groups[0].value, std::to_string(rows));
    EXPECT_EQ(error.groups[1].value, std::to_string(rows + more));
    EXPECT_EQ(error.groups[1].ranks.text(), std::to_string(size - 1));
    expect_joint(error);
  }
  [[nodiscard]] double sum_of_ranks() const { return size * (size + 1) / 2.0; }
  std::deque<CompiledFrame<X, Y>> steps;
};

TEST_F(UniformJob, AllReduceOfASize_ThatChangesOnAllRanksAlike) {
  auto& step = frame([](X in) { return Y{all_reduce(in.x)}; });
  for (const std::int64_t rows : {4, 6, 9, 4, 2, 31}) {
    expect_rows(step, rows, rows, sum_of_ranks());
    EXPECT_EQ(step.last_compiled(), rows == 4 ? step.last_compiled() : rows == 6) << rows;
  }
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, SizesZeroAndOne) {
  auto& step = frame([](X in) { return Y{all_reduce(in.x)}; });
  for (const std::int64_t rows : {0, 1, 5, 0, 1, 2}) expect_rows(step, rows, rows, sum_of_ranks());
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, EveryCollective) {
  auto& gather = frame([](X in) { return Y{all_gather(in.x)}; });
  auto& scatter = frame([](X in) { return Y{reduce_scatter(in.x)}; });
  auto& spread = frame([](X in) { return Y{broadcast(in.x, Rank{0})}; });
  auto& exchange = frame([](X in) { return Y{all_to_all_single(in.x) + in.x * 0.0}; });
  for (const std::int64_t rows : {size, 3 * size, 2 * size, 7 * size}) {
    expect_rows(scatter, rows, rows / size, sum_of_ranks());
    expect_rows(spread, rows, rows, 1);
    const auto gathered = call(gather, rows, 1 + rank);
    ASSERT_TRUE(gathered) << gathered.error().text();
    const auto exchanged = call(exchange, rows, 1 + rank);
    ASSERT_TRUE(exchanged) << exchanged.error().text();
    ASSERT_EQ(gathered->y.array().sizes()[0], rows * size);
    ASSERT_EQ(exchanged->y.array().sizes()[0], rows);
    for (std::int64_t i = 0; i < rows * size; ++i)
      EXPECT_EQ(gathered->y.array().at(2 * i), 1 + static_cast<double>(i / rows));
    for (std::int64_t i = 0; i < rows; ++i)
      EXPECT_EQ(exchanged->y.array().at(2 * i), 1 + static_cast<double>(i / (rows / size)));
  }
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, RowsThatDoNotShare_AreATraceError) {
  if (size == 1) return;  // one rank has all shares
  auto& step = frame([](X in) { return Y{reduce_scatter(in.x)}; });
  expect_rows(step, 2 * size, 2, sum_of_ranks());
  expect_rows(step, 4 * size, 4, sum_of_ranks());
  const auto result = call(step, 4 * size + 1, 1);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::TraceError) << result.error().text();
  EXPECT_TRUE(contains(result.error().text(), "cannot be shared by")) << result.error().text();
  expect_joint(result.error());
  expect_rows(step, 6 * size, 6, sum_of_ranks());
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, ASizeThatDiffers_IsOneErrorAndTheNextCallWorks) {
  if (size == 1) return;  // one rank has one size
  auto& step = frame([](X in) { return Y{all_reduce(in.x)}; });
  expect_refused(step, 3, 1, "all_reduce");  // at the first call
  expect_rows(step, 4, 4, sum_of_ranks());
  expect_rows(step, 6, 6, sum_of_ranks());
  expect_refused(step, 6, 1, "all_reduce");  // at a hit
  expect_refused(step, 9, 5, "all_reduce");
  expect_rows(step, 11, 11, sum_of_ranks());
  EXPECT_FALSE(step.last_compiled());
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, ASizeThatDoesNotShareEither_IsToldAsOneThatDiffers) {
  if (size == 1) return;  // one rank has one size
  auto& step = frame([](X in) { return Y{reduce_scatter(in.x)}; });
  expect_rows(step, 2 * size, 2, sum_of_ranks());
  expect_rows(step, 4 * size, 4, sum_of_ranks());
  expect_refused(step, 4 * size, 1, "reduce_scatter");
  expect_rows(step, 6 * size, 6, sum_of_ranks());
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, AnEntryThatNeedsNoSizeAlike_ServesTheCall) {
  // Padded together where all are short, each on its own where one is long.
  auto& step = frame([](X in) {
    if (group_any(in.x.size(0) > 100)) return Y{in.x * 2.0};
    return Y{all_reduce(in.x)};
  });
  expect_rows(step, 4, 4, sum_of_ranks());
  expect_rows(step, 6, 6, sum_of_ranks());
  expect_rows(step, 101 + rank, 101 + rank, 2 * (1 + rank));
  expect_rows(step, 200 + 3 * rank, 200 + 3 * rank, 2 * (1 + rank));
  EXPECT_FALSE(step.last_compiled());
  expect_rows(step, 300, 300, 2 * (1 + rank));
  EXPECT_FALSE(step.last_compiled());
  expect_rows(step, 8, 8, sum_of_ranks());
  EXPECT_FALSE(step.last_compiled());
  if (size > 1) expect_refused(step, 8, 1, "all_reduce");
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, Gradients) {
  // y = sum over ranks; the loss weighs it by rank + 1, so the gradient is the sum of the weights.
  auto& step = frame([](X in) {
    const Tensor weight = cast(group_rank(in.x), DType::F64) + 1.0;
    const Tensor y = all_gather(all_reduce(in.x));
    return Y{grad(sum(y) * weight, {in.x})[0]};
  });
  for (const std::int64_t rows : {3, 5, 0, 8}) expect_rows(step, rows, rows, sum_of_ranks() * size);
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, CheckSame_MakesASizeUniform) {
  auto& step = frame([](X in) {
    check_same(in.x.size(0));
    return Y{in.x * 2.0};
  });
  expect_rows(step, 4, 4, 2 * (1 + rank));
  expect_rows(step, 5, 5, 2 * (1 + rank));
  expect_rows(step, 6, 6, 2 * (1 + rank));
  EXPECT_FALSE(step.last_compiled());
  if (size > 1) expect_refused(step, 7, 1, "check_same");
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, ASumOfSizes_IsWhatMustBeEqual) {
  // x.size(0) differs, the rows that go into the collective do not.
  auto& step = frame([](X in) {
    const SymInt rows = in.x.size(0);
    const Tensor doubled = cat({in.x, in.x}, 0);
    return Y{all_reduce(slice(doubled, 0, 0, rows % 4))};
  });
  for (const std::int64_t rows : {4, 5, 6})
    expect_rows(step, rows + 4 * rank, rows % 4, sum_of_ranks());
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, ACapacityThatTheGroupAgreesOn) {
  // Rows of all ranks padded to the greatest number: read back from an all_reduce, so uniform.
  auto& step = frame([](X in) {
    const SymInt most = item(all_reduce(scalar(in.x.size(0)), Reduce::Max), Values::NonNegative);
    const SymInt room = most - in.x.size(0);
    check(room >= 0);
    return Y{all_gather(pad(in.x, 0, 0, room))};
  });
  for (const std::int64_t rows : {2, 5, 3}) {
    const auto out = call(step, rows + rank, 1 + rank);
    ASSERT_TRUE(out) << out.error().text();
    const Array y = out->y.array();
    const std::int64_t most = rows + size - 1;
    ASSERT_EQ(y.sizes()[0], size * most);
    for (std::int64_t i = 0; i < size * most; ++i)
      EXPECT_EQ(y.at(2 * i), i % most < rows + i / most ? 1 + static_cast<double>(i / most) : 0);
  }
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, ASizeThatOnlyTheRunKnows_IsComparedThere) {
  auto& step = frame([](X in) {
    const SymInt rows = item(scalar(in.x.size(0)) + 0, Values::NonNegative);
    check(rows == in.x.size(0));
    return Y{all_reduce(in.x)};
  });
  expect_rows(step, 4, 4, sum_of_ranks());
  expect_rows(step, 7, 7, sum_of_ranks());
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, SizesThatDataGive_AreComparedBeforeRowsMove) {
  auto& step = frame([](X in) {
    const Tensor some = index_select(in.x, squeeze(nonzero(sum(in.x, {1}) > 0.0), 1));
    return Y{all_reduce(some)};
  });
  expect_rows(step, 4, 4, sum_of_ranks());
  expect_rows(step, 6, 6, sum_of_ranks());
  if (size > 1) {
    const auto result = call(step, 5, last ? -1 : 1);
    ASSERT_FALSE(result.has_value()) << "rows moved";
    EXPECT_EQ(result.error().code, Code::ConstraintViolation) << result.error().text();
    EXPECT_TRUE(contains(result.error().message, "is 5 on rank")) << result.error().text();
    EXPECT_TRUE(contains(result.error().message, "and 0 on " + last_text()))
        << result.error().text();
    expect_joint(result.error());
  }
  expect_rows(step, 7, 7, sum_of_ranks());
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, WhereGraphsMayDiffer_SizesAreCompared) {
  auto& step = frame([](X in) { return Y{all_reduce(in.x * (in.x.size(0) > 5 ? 2.0 : 1.0))}; },
                     {.consistency = Consistency::SameCollectives});
  expect_rows(step, 4, 4, sum_of_ranks());
  expect_rows(step, 6, 6, 2 * sum_of_ranks());
  expect_rows(step, 3, 3, sum_of_ranks());
  if (size > 1) {
    const auto result = call(step, last ? 6 : 5, 1);
    ASSERT_FALSE(result.has_value()) << "rows moved";
    EXPECT_EQ(result.error().code, Code::ConstraintViolation) << result.error().text();
    EXPECT_EQ(result.error().source, "x.size(0)");
    expect_joint(result.error());
  }
  expect_rows(step, 5, 5, sum_of_ranks());
  EXPECT_TRUE(finish());
}

TEST_F(UniformJob, AuditedFrame_SizesAreCompared) {
  auto& step = frame([](X in) { return Y{all_reduce(in.x)}; }, {.audit = true});
  for (const std::int64_t rows : {4, 6, 3, 0, 1}) expect_rows(step, rows, rows, sum_of_ranks());
  for (const bool apart : {true, false, true}) {
    if (!apart || size == 1) {
      expect_rows(step, 7, 7, sum_of_ranks());
      continue;
    }
    const auto result = call(step, last ? 6 : 5, 1);
    ASSERT_FALSE(result.has_value()) << "rows moved";
    EXPECT_EQ(result.error().code, Code::ConstraintViolation) << result.error().text();
    EXPECT_EQ(result.error().source, "x.size(0)");
    // Ranks that decide for themselves tell it each in their own words.
    EXPECT_TRUE(contains(result.error().message, "x.size(0) is 5 on rank"))
        << result.error().text();
    EXPECT_TRUE(contains(result.error().message, "and 6 on " + last_text()));
  }
  EXPECT_TRUE(finish());
}

/// Sets of ranks that share a size; other sets have another one.
class UniformGroups : public UniformJob {
 protected:
  void SetUp() override {
    UniformJob::SetUp();
    part = size % 2 == 0 ? 2 : size;
    place = rank / part;
    set = job->group("set", RankSet::range({place * part}, {place * part + part - 1})).value();
  }
  [[nodiscard]] double sum_of_set() const {
    return part * (place * part) + part * (part + 1) / 2.0;
  }
  int part = 1, place = 0;
  Group set;
};

TEST_F(UniformGroups, EachSetHasASizeOfItsOwn) {
  auto& step = frame([this](X in) {
    const Tensor y = all_reduce(in.x, Reduce::Sum, set);
    return Y{all_reduce(y * 2.0, Reduce::Max, set) * 0.5};
  });
  for (const std::int64_t rows : {4, 6, 2, 9})
    expect_rows(step, rows + place, rows + place, sum_of_set());
  EXPECT_FALSE(step.last_compiled());
  EXPECT_TRUE(finish());
}

TEST_F(UniformGroups, ADifferenceInOneSet_ReachesTheWholeFrame) {
  if (size == 1) return;  // one rank has one size
  auto& step = frame([this](X in) { return Y{all_reduce(in.x, Reduce::Sum, set)}; });
  expect_rows(step, 4, 4, sum_of_set());
  expect_rows(step, 6, 6, sum_of_set());
  const auto result = call(step, last ? 8 : 7, 1);
  ASSERT_FALSE(result.has_value()) << "rows moved, or a set did not hear of it";
  EXPECT_EQ(result.error().code, Code::ConstraintViolation) << result.error().text();
  EXPECT_TRUE(contains(result.error().message, "is 7 on rank")) << result.error().text();
  EXPECT_TRUE(contains(result.error().message, "and 8 on " + last_text())) << result.error().text();
  EXPECT_TRUE(contains(result.error().message, "uniform_job_test.cpp:")) << result.error().text();
  expect_joint(result.error());
  expect_rows(step, 5, 5, sum_of_set());
  EXPECT_TRUE(finish());
}

TEST_F(UniformGroups, CheckSame_HoldsWithoutACollectiveOfTheGroup) {
  auto& step = frame([this](X in) {
    check_same(in.x.size(0), set);
    return Y{in.x * 2.0};
  });
  for (const std::int64_t rows : {4, 6, 3})
    expect_rows(step, rows + place, rows + place, 2 * (1 + rank));
  if (size > 1) {
    const auto result = call(step, last ? 8 : 7, 1);
    ASSERT_FALSE(result.has_value()) << "a difference was not seen";
    EXPECT_EQ(result.error().code, Code::RuntimeAssert) << result.error().text();
    EXPECT_TRUE(contains(result.error().message, "check_same")) << result.error().text();
    expect_joint(result.error());
  }
  expect_rows(step, 5, 5, 2 * (1 + rank));
  EXPECT_TRUE(finish());
}

TEST_F(UniformGroups, WhatIsUniformOverTheFrame_IsOverItsGroups) {
  // Two needs and one fact: the vote of the call carries it, and no round is left for the run.
  auto& step = frame([this](X in) {
    check_same(in.x.size(0));
    return Y{all_reduce(in.x, Reduce::Sum, set)};
  });
  expect_rows(step, 4, 4, sum_of_set());
  expect_rows(step, 6, 6, sum_of_set());
  if (size > 1) expect_refused(step, 6, 1, "check_same");
  EXPECT_TRUE(finish());
}

TEST_F(UniformGroups, ASetWithinAnother_NeedsNoComparisonOfItsOwn) {
  const Group one = job->group("one", RankSet::of({rank})).value();
  const Group whole = job->group("whole", RankSet::all(size)).value();
  auto& step = frame([&](X in) {
    const Tensor y = all_reduce(in.x, Reduce::Sum, whole);
    return Y{all_reduce(all_reduce(y, Reduce::Max, set), Reduce::Max, one)};
  });
  for (const std::int64_t rows : {4, 6, 2, 0}) expect_rows(step, rows, rows, sum_of_ranks());
  if (size > 1) {
    const auto result = call(step, last ? 8 : 7, 1);
    ASSERT_FALSE(result.has_value()) << "rows moved";
    EXPECT_EQ(result.error().code, Code::ConstraintViolation) << result.error().text();
    expect_joint(result.error());
  }
  expect_rows(step, 3, 3, sum_of_ranks());
  EXPECT_TRUE(finish());
}

/// Rows that differ between ranks: rank r has its own number of them, each r + 1 plus a tenth of
/// its place.
class UnevenJob : public UniformJob {
 protected:
  [[nodiscard]] static std::int64_t rows_of(int r, int call) { return (r * 3 + call * 2) % 5; }
  [[nodiscard]] Tensor mine(int call, bool turned = false) const {
    const std::int64_t rows = rows_of(rank, call);
    Array out(DType::F64,
              turned ? std::vector<std::int64_t>{2, rows} : std::vector<std::int64_t>{rows, 2});
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t d = 0; d < 2; ++d)
        out.set(turned ? d * rows + i : i * 2 + d, value(rank, i));
    return out;
  }
  [[nodiscard]] static double value(int r, std::int64_t row) {
    return r + 1 + 0.125 * static_cast<double>(row);
  }
  [[nodiscard]] std::int64_t all_rows(int call) const {
    std::int64_t rows = 0;
    for (int r = 0; r < size; ++r) rows += rows_of(r, call);
    return rows;
  }
  static constexpr int kCalls = 6;  // with no row, one row, and all ranks alike among them
};

TEST_F(UnevenJob, AllGather_JoinsRowsInRankOrder_AndTheirGradientsComeBack) {
  auto& rows = frame([](X in) { return Y{all_gather(in.x, 0)}; });
  auto& columns = frame([](X in) { return Y{all_gather(in.x, 1)}; });
  // Every rank's loss weighs element i by 1 + i/8, times its own number.
  auto& gradient = frame([](X in) {
    const Tensor y = all_gather(in.x, 0);
    const Tensor weight = cast(iota(y.sizes(), 0), DType::F64) * 0.125 + 1.0;
    const Tensor me = cast(group_rank(in.x), DType::F64) + 1.0;
    return Y{grad(sum(y * weight) * me, {in.x})[0]};
  });
  for (int call = 0; call < kCalls; ++call) {
    const auto y = rows({mine(call)});
    const auto t = columns({mine(call, true)});
    const auto g = gradient({mine(call)});
    ASSERT_TRUE(y) << y.error().text();
    ASSERT_TRUE(t) << t.error().text();
    ASSERT_TRUE(g) << g.error().text();
    const std::int64_t all = all_rows(call);
    ASSERT_EQ(y->y.array().sizes(), (std::vector<std::int64_t>{all, 2}));
    ASSERT_EQ(t->y.array().sizes(), (std::vector<std::int64_t>{2, all}));
    std::int64_t at = 0;
    for (int r = 0; r < size; ++r)
      for (std::int64_t i = 0; i < rows_of(r, call); ++i, ++at) {
        EXPECT_EQ(y->y.array().at(2 * at), value(r, i));
        EXPECT_EQ(t->y.array().at(at), value(r, i));
        if (r == rank) {
          EXPECT_EQ(g->y.array().at(2 * i), sum_of_ranks() * (1 + 0.125 * static_cast<double>(at)));
        }
      }
  }
  EXPECT_TRUE(finish());
}

TEST_F(UnevenJob, ReduceScatter_GivesEachRankItsShareOfTheSum) {
  // Every rank holds all rows, times its number; its share is as long as its input.
  auto& step = frame([](X in) {
    const Tensor all = all_gather(in.x, 0) * (cast(group_rank(in.x), DType::F64) + 1.0);
    return Y{reduce_scatter(all, in.x.size(0), 0)};
  });
  auto& gradient = frame([](X in) {
    const Tensor y = reduce_scatter(all_gather(in.x, 0), in.x.size(0), 0);
    return Y{grad(sum(y * y), {in.x})[0]};
  });
  for (int call = 0; call < kCalls; ++call) {
    const auto y = step({mine(call)});
    const auto g = gradient({mine(call)});
    ASSERT_TRUE(y) << y.error().text();
    ASSERT_TRUE(g) << g.error().text();
    ASSERT_EQ(y->y.array().sizes(), (std::vector<std::int64_t>{rows_of(rank, call), 2}));
    for (std::int64_t i = 0; i < rows_of(rank, call); ++i) {
      EXPECT_EQ(y->y.array().at(2 * i), sum_of_ranks() * value(rank, i));
      // y = n x, and each of the n copies of x in the sum gets 2 y.
      EXPECT_EQ(g->y.array().at(2 * i), 2.0 * size * size * value(rank, i));
    }
  }
  EXPECT_TRUE(finish());
}

TEST_F(UnevenJob, SharesThatDoNotAddUp_AreOneError) {
  if (size == 1) return;  // one rank has all shares
  auto& step = frame([](X in) { return Y{reduce_scatter(in.x, in.x.size(0), 0)}; });
  const auto result = call(step, 3, 1);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::RuntimeAssert) << result.error().text();
  expect_joint(result.error());
}

TEST_F(UnevenJob, SendRecv_PassesRowsOn_AndGradientsBack) {
  std::vector<Route> routes;
  for (int r = 0; r + 1 < size; ++r) routes.push_back({Rank{r}, Rank{r + 1}});
  auto& step = frame([routes](X in) { return Y{send_recv(in.x, routes)}; });
  auto& gradient = frame([routes](X in) {
    const Tensor y = send_recv(in.x, routes);
    return Y{grad(sum(y * y), {in.x})[0]};
  });
  for (int call = 0; call < kCalls; ++call) {
    const auto y = step({mine(call)});
    const auto g = gradient({mine(call)});
    ASSERT_TRUE(y) << y.error().text();
    ASSERT_TRUE(g) << g.error().text();
    const std::int64_t rows = rank == 0 ? 0 : rows_of(rank - 1, call);
    ASSERT_EQ(y->y.array().sizes(), (std::vector<std::int64_t>{rows, 2}));
    for (std::int64_t i = 0; i < rows; ++i) EXPECT_EQ(y->y.array().at(2 * i), value(rank - 1, i));
    for (std::int64_t i = 0; i < rows_of(rank, call); ++i)
      EXPECT_EQ(g->y.array().at(2 * i), last ? 0 : 2 * value(rank, i));
  }
  EXPECT_TRUE(finish());
}

TEST_F(UnevenJob, Gradients_AreFiniteDifferencesOfTheSumOverRanks) {
  std::vector<Route> routes;
  for (int r = 0; r + 1 < size; ++r) routes.push_back({Rank{r + 1}, Rank{r}});
  const auto loss_of = [routes](const Tensor& x) {
    const Tensor me = cast(group_rank(x), DType::F64) + 1.0;
    const Tensor gathered = all_gather(x * x, 0);
    const Tensor weight = cast(iota(gathered.sizes(), 0), DType::F64) * 0.125 + me;
    const Tensor turned = all_gather(permute(x, {1, 0}), 1);
    const Tensor share = reduce_scatter(gathered * x.size(0) * me, x.size(0), 0);
    const Tensor passed = send_recv(x * me, routes);
    return sum(gathered * gathered * weight) + sum(turned * turned * turned) * me +
           sum(share * share) + sum(passed * passed * passed);
  };
  auto& loss = frame([=](X in) { return Y{all_reduce(loss_of(in.x))}; });
  auto& gradient = frame([=](X in) { return Y{grad(loss_of(in.x), {in.x})[0]}; });
  const double h = 1e-5;
  for (int call = 0; call < kCalls; ++call) {
    const auto found = gradient({mine(call)});
    ASSERT_TRUE(found) << found.error().text();
    ASSERT_EQ(found->y.array().sizes(), (std::vector<std::int64_t>{rows_of(rank, call), 2}));
    for (int r = 0; r < size; ++r)
      for (const std::int64_t at : {std::int64_t{0}, 2 * rows_of(r, call) - 1}) {
        if (at >= 2 * rows_of(r, call) || at < 0) continue;
        double side[2];
        for (const int s : {0, 1}) {
          Array x = mine(call).array().clone();
          if (rank == r) x.set(at, x.at(at) + (s ? h : -h));
          const auto out = loss({Tensor(x)});
          ASSERT_TRUE(out) << out.error().text();
          side[s] = only(out->y);
        }
        const double difference = (side[1] - side[0]) / (2 * h);
        if (rank == r) {
          EXPECT_NEAR(found->y.array().at(at) / difference, 1, 1e-7)
              << "call " << call << ", element " << at << " of rank " << r << ": " << difference;
        }
      }
  }
  EXPECT_TRUE(finish());
}

TEST_F(UnevenJob, RowsOfOtherWidths_AreOneError) {
  if (size == 1) return;  // one rank has one width
  auto& step = frame([](X in) { return Y{all_gather(in.x, 0)}; });
  for (const std::int64_t width : {2, 3, 4}) {
    const auto out = step({filled({rank + 1, width}, 1)});
    ASSERT_TRUE(out) << out.error().text();
  }
  const auto result = step({filled({rank + 1, last ? 6 : 5}, 1)});
  ASSERT_FALSE(result.has_value()) << "rows moved";
  EXPECT_EQ(result.error().code, Code::ConstraintViolation) << result.error().text();
  EXPECT_EQ(result.error().source, "x.size(1)");
  expect_joint(result.error());
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::uniform_job_test
