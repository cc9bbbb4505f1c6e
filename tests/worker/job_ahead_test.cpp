// Prefetch, uneven data and resync through the job, on real ranks.
#include <vector>

#include "job_ranks.h"

namespace lockstep::worker::job_ahead_test {
namespace {

class JobAhead : public JobRanks {
 protected:
  CompiledFrame<X, Y> frame(const std::string& name) {
    return job->frame<X, Y>(name, [](X in) { return Y{all_reduce(sum(in.x * in.x))}; });
  }
  [[nodiscard]] X batch(int call) const {
    return {filled({1 + (rank + 2 * call) % 4, 3}, 1.0 + call)};
  }
  [[nodiscard]] double total(int call) const {
    double rows = 0;
    for (int r = 0; r < size; ++r) rows += 1 + (r + 2 * call) % 4;
    return rows * 3 * (1.0 + call) * (1.0 + call);
  }
};

TEST_F(JobAhead, PrefetchedCalls_GiveTheSameResults_AlsoWhereTheyCompile) {
  auto step = frame("step");
  step.prefetch(batch(0));
  for (int call = 0; call < 12; ++call) {
    if (call < 11) step.prefetch(batch(call + 1));
    if (call == 6) {
      const auto settled = job->settle();  // with a vote out
      ASSERT_TRUE(settled) << settled.error().text();
    }
    const auto out = step(batch(call));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), total(call)) << call;
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobAhead, SizesThatAllNeedAlike_ArePromisedToo) {
  auto step = job->frame<X, Y>("padded", [](X in) { return Y{all_reduce(in.x)}; });
  const auto rows = [](int call) { return 2 + (5 * call) % 7; };
  const auto padded = [&](int call, int more) {
    return X{filled({rows(call) + more, 3}, 1.0 + call)};
  };
  const auto expect = [&](const Result<Y>& out, int call) {
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(out->y.array().sizes()[0], rows(call));
    EXPECT_EQ(out->y.array().at(0), size * (1.0 + call));
  };
  step.prefetch(padded(0, 0));
  for (int call = 0; call < 8; ++call) {
    step.prefetch(padded(call + 1, 0));
    expect(step(padded(call, 0)), call);
  }
  expect(step(padded(8, 0)), 8);
  if (size > 1) {
    step.prefetch(padded(9, last ? 1 : 0));
    const auto out = step(padded(9, last ? 1 : 0));
    ASSERT_FALSE(out) << "rows moved";
    EXPECT_EQ(out.error().code, Code::ConstraintViolation) << out.error().text();
    expect_joint(out.error());
  }
  expect(step(padded(10, 0)), 10);
  EXPECT_TRUE(finish());
}

TEST_F(JobAhead, TwoFramesInTurn_EachKeepsItsPromises) {
  auto train = frame("train"), evaluate = frame("evaluate");
  train.prefetch(batch(0));
  for (int call = 0; call < 6; ++call) {
    train.prefetch(batch(call + 1));
    if (call % 2 == 1) evaluate.prefetch(batch(call));
    const auto out = train(batch(call));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), total(call));
    if (call % 2 == 0) continue;
    const auto seen = evaluate(batch(call));
    ASSERT_TRUE(seen) << seen.error().text();
    EXPECT_EQ(only(seen->y), total(call));
  }
  EXPECT_TRUE(finish());  // with a promise left over, on all ranks alike
}

TEST_F(JobAhead, InputThatCannotBeReadWhenPrefetched_IsTheErrorOfThatCallOnAllRanks) {
  auto step = frame("step");
  ASSERT_TRUE(step(batch(0)));
  step.prefetch(last ? X{} : batch(1));
  const auto out = step(last ? X{} : batch(1));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::BadInput);
  EXPECT_TRUE(contains(out.error().text(), last_text())) << out.error().text();
  if (size > 1) expect_joint(out.error());
  const auto next = step(batch(2));
  ASSERT_TRUE(next) << next.error().text();
  EXPECT_EQ(only(next->y), total(2));
}

TEST_F(JobAhead, AfterOneRankSkippedAFrame_ResyncMendsAndTrainingGoesOn) {
  if (size == 1) return;
  auto train = frame("train"), evaluate = frame("evaluate");
  ASSERT_TRUE(train(batch(0)));
  const auto wrong = last ? train(batch(1)) : evaluate(batch(1));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::FrameMismatch);
  expect_joint(wrong.error());
  if (last) train.prefetch(batch(2));  // with a vote out on one rank
  const auto resync = job->resync();
  ASSERT_TRUE(resync) << resync.error().text();
  for (int call = 3; call < 6; ++call) {
    train.prefetch(batch(call));
    const auto out = train(batch(call));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), total(call));
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobAhead, ResyncWhileOthersCall_IsAnErrorThatSaysWhoIsWhere) {
  if (size == 1) return;
  auto step = frame("step");
  Status error;
  if (last) {
    const auto resync = job->resync();
    ASSERT_FALSE(resync);
    error = resync.error();
  } else {
    const auto out = step(batch(0));
    ASSERT_FALSE(out);
    error = out.error();
  }
  EXPECT_EQ(error.code, Code::FrameMismatch);
  EXPECT_TRUE(contains(error.text(), last_text() + ": resync")) << error.text();
  expect_joint(error);
  ASSERT_TRUE(job->resync());
  EXPECT_TRUE(step(batch(0)));
  EXPECT_TRUE(finish());
}

TEST_F(JobAhead, ResyncMendsGroupsToo) {
  if (size % 2 != 0) return;
  const std::int32_t first = rank - rank % 2;
  RankSet members;
  members.insert(RankSet::Run{first, first + 1});
  const auto pair = job->group("pair", members);
  ASSERT_TRUE(pair) << pair.error().text();
  const auto body = [](X in) { return Y{all_reduce(sum(in.x))}; };
  auto one = job->frame<X, Y>("one", {.group = *pair}, body);
  auto two = job->frame<X, Y>("two", {.group = *pair}, body);
  const auto wrong = rank % 2 == 0 ? one(batch(0)) : two(batch(0));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::FrameMismatch);
  const auto resync = job->resync();
  ASSERT_TRUE(resync) << resync.error().text();
  EXPECT_TRUE(one(batch(1)));
  EXPECT_TRUE(finish());
}

TEST_F(JobAhead, More_IsTrueWhileAnyRankHasData) {
  auto step = frame("step");
  int steps = 0;
  for (;; ++steps) {
    const bool have = steps < 2 * rank + 1;
    const auto more = job->more(have);
    ASSERT_TRUE(more) << more.error().text();
    if (!*more) break;
    const auto out = step({filled({have ? 2 : 0, 3}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    int with_data = 0;
    for (int r = 0; r < size; ++r) with_data += steps < 2 * r + 1;
    EXPECT_EQ(only(out->y), 6.0 * with_data);
  }
  EXPECT_EQ(steps, 2 * (size - 1) + 1);
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::job_ahead_test
