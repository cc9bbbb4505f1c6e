// Variables that a frame's function captures: constants of the entry, and the check that finds
// those that have changed, on real ranks.
#include <functional>

#include "job_ranks.h"

namespace lockstep::worker::captures_job_test {
namespace {

/// A batch, a rate that is a runtime value, and one that is branched on.
struct In {
  Tensor x;
  SymFloat rate, limit;
  template <class V>
  void fields(V& v) {
    v("x", x), v("rate", rate), v("limit", limit);
  }
};

class CapturesJob : public JobRanks {
 protected:
  void SetUp() override {}  // each test says how often it checks
  void start_checked(std::uint32_t every, DecisionConfig decision = {}) {
    job.reset();
    auto made = Job::attach(
        MPI_COMM_WORLD,
        {.decision = decision, .settings = quiet(), .summary = false, .check_captures = every});
    ASSERT_TRUE(made) << made.error().text();
    job = std::move(*made);
    size = job->size();
    rank = job->rank();
    last = rank == size - 1;
  }
  /// The calls of `step` until one fails; how many came first.
  template <class Step>
  int calls_until_it_fails(Step& step, int limit, Status& error) {
    for (int call = 0; call < limit; ++call)
      if (const auto out = step(X{filled({4}, 1)}); !out) {
        error = out.error();
        return call;
      }
    return limit;
  }
  static std::string line_text(int line) { return "captures_job_test.cpp:" + std::to_string(line); }
};

TEST_F(CapturesJob, NothingChanges_SameResultsAndAsManyTracesAsAsked) {
  for (const std::uint32_t every : {0U, 1U, 3U}) {
    for (const bool floats : {false, true}) {
      start_checked(every, {.specialize_float = floats});
      int traces = 0;
      const double scale = 3;
      const auto body = [&](const In& in) {
        ++traces;
        Tensor y = in.x * in.rate * scale;
        if (floats ? in.limit.value() > 0.5 : bool(in.limit > 0.5)) y = y * 2.0;
        if (group_any(in.x.size(0) > 4)) y = y * 5.0;
        if (in.x.size(0) % 2 == 0) y = y + 1.0;
        return Y{all_reduce(sum(y))};
      };
      auto step = job->frame<In, Y>("step", body);
      int hits = 0, expected = 0;
      for (int call = 0; call < 24; ++call) {
        const auto rows = [&](int r) { return 2 + 2 * ((call + r) % 3) + call % 2; };
        const double rate = floats ? 0.5 : 0.25 * call, limit = call % 3 == 0 ? 0.25 : 0.75;
        const auto out = step(In{filled({rows(rank)}, 1), rate, limit});
        ASSERT_TRUE(out) << out.error().text();
        double total = 0;
        bool any = false;
        for (int r = 0; r < size; ++r) any = any || rows(r) > 4;
        for (int r = 0; r < size; ++r) {
          const int n = rows(r);
          const double y = rate * scale * (limit > 0.5 ? 2 : 1) * (any ? 5 : 1) + (n % 2 == 0);
          total += n * y;
        }
        EXPECT_DOUBLE_EQ(only(out->y), total) << call;
        if (step.last_compiled() || contains(step.last_call(), "interpreted"))
          ++expected;
        else
          expected += every != 0 && ++hits % static_cast<int>(every) == 0;
      }
      EXPECT_EQ(traces, expected) << every;
      EXPECT_TRUE(finish());
    }
  }
}

TEST_F(CapturesJob, NumberThatChangesOnOneRankOrAll_IsOneErrorWithItsLine) {
  for (const bool everywhere : {false, true}) {
    start_checked(2);
    double scale = 2;
    const int line = __LINE__ + 1;
    const auto body = [&](const X& in) { return Y{all_reduce(sum(in.x * scale))}; };
    auto step = job->frame<X, Y>("step", body);
    Status error;
    EXPECT_EQ(calls_until_it_fails(step, 6, error), 6) << error.text();  // hits 1 to 5
    if (everywhere || last) scale = 2.5;
    EXPECT_EQ(calls_until_it_fails(step, 6, error), 0);
    expect_joint(error);
    EXPECT_EQ(error.code, Code::TraceError);
    EXPECT_EQ(exit_code(error.code), 3);
    EXPECT_TRUE(contains(error.message,
                         "frame step: traced again, its function does not give entry "
                         "0 any more: " +
                             line_text(line) + " recorded "))
        << error.message;
    EXPECT_TRUE(contains(error.message, "full(2) then, and ") &&
                contains(error.message, "full(2.5) now;"))
        << error.message;
    // The entry is as it was; so is the check, at the same distance.
    EXPECT_EQ(calls_until_it_fails(step, 6, error), 1);
    scale = 2;
    const auto out = step(X{filled({4}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 8.0 * size);
    EXPECT_TRUE(finish());
  }
}

/// Every way in which a captured variable comes into a graph, changed on one rank.
TEST_F(CapturesJob, WhatEverItIsCapturedFor_IsNamedWithTheLine) {
  start_checked(1);
  std::int64_t captured = 2;
  struct Case {
    const char* name;
    int line;
    std::function<Y(X)> body;
  };
  // A line each: clang-format would part __LINE__ from the body.
  // clang-format off
  const std::vector<Case> cases{
      {"size", __LINE__, [&](X in) { return Y{reshape(in.x, {captured, -1}) + 1.0}; }},
      {"start", __LINE__, [&](X in) { return Y{slice(in.x, 0, captured - 1, 2)}; }},
      {"limit", __LINE__, [&](X in) { return Y{in.x.size(0) > captured ? in.x + 1.0 : in.x}; }},
      {"check", __LINE__, [&](X in) { return check(in.x.size(0) > captured), Y{in.x + 1.0}; }},
      {"choice", __LINE__, [&](X in) { return Y{captured == 2 ? in.x + 1.0 : in.x * 2.0}; }},
      {"question", __LINE__, [&](X in) { return Y{group_any(in.x.size(0) > captured) ? in.x * 3.0 : in.x}; }},
      {"fewer", __LINE__, [&](X in) { return Y{captured == 2 ? exp(in.x + 1.0) : in.x + 1.0}; }},
      {"thrown", __LINE__, [&](X in) { return captured == 2 ? Y{in.x + 1.0} : throw std::runtime_error("no such case"); }},
  };
  // clang-format on
  for (const Case& c : cases) {
    captured = 2;
    auto step = job->frame<X, Y>(c.name, c.body);
    for (const std::int64_t rows : {4, 6, 8}) ASSERT_TRUE(step(X{filled({rows}, 1)})) << c.name;
    ASSERT_FALSE(step.last_compiled()) << c.name;
    if (last) captured = 4 - 1;
    if (last && std::string(c.name) == "size") captured = 4;
    const auto out = step(X{filled({8}, 1)});
    ASSERT_FALSE(out) << c.name;
    expect_joint(out.error());
    EXPECT_EQ(out.error().code, Code::TraceError) << c.name;
    const std::string line = c.name == std::string("thrown") ? "no such case" : line_text(c.line);
    EXPECT_TRUE(contains(out.error().message, line)) << c.name << ": " << out.error().message;
    captured = 2;
    EXPECT_TRUE(step(X{filled({8}, 1)})) << c.name;
  }
  EXPECT_TRUE(finish());
}

TEST_F(CapturesJob, PrefetchedCalls_AreCheckedAsOthersAre) {
  start_checked(2);
  double scale = 2;
  auto step =
      job->frame<X, Y>("step", [&](const X& in) { return Y{all_reduce(sum(in.x * scale))}; });
  const auto batch = [&] { return X{filled({3}, 1)}; };
  step.prefetch(batch());
  for (int call = 0; call < 7; ++call) {
    step.prefetch(batch());
    if (call == 5 && last) scale = 3;
    const auto out = step(batch());
    // Calls 1 to 4 are hits; the 6th call's check, of hit 6, is the first to see the change.
    EXPECT_EQ(out.has_value(), call != 6) << call;
    if (!out) expect_joint(out.error());
  }
  EXPECT_TRUE(finish());
}

TEST_F(CapturesJob, FrameOfSomeRanks_IsCheckedAmongThem) {
  start_checked(1);
  const Group low = job->group("low", rank == 0 ? RankSet::of(Rank{0}) : RankSet()).value();
  int traces = 0;
  double scale = 1;
  auto step = job->frame<X, Y>("part", {.group = low}, [&](const X& in) {
    ++traces;
    return Y{sum(in.x * scale)};
  });
  auto local = job->frame<X, Y>("local", {.consistency = Consistency::Local},
                                [&](const X& in) { return Y{sum(in.x * scale)}; });
  if (rank == 0) {
    for (int call = 0; call < 3; ++call) EXPECT_TRUE(step(X{filled({4}, 1)}));
    EXPECT_EQ(traces, 3);
    scale = 2;
    EXPECT_FALSE(step(X{filled({4}, 1)}));
  }
  scale = 1;
  EXPECT_TRUE(local(X{filled({4}, 1)}));
  if (last) scale = 2;
  EXPECT_EQ(local(X{filled({4}, 1)}).has_value(), !last);
  EXPECT_TRUE(finish());
}

TEST_F(CapturesJob, AuditedFrame_TellsAllRanks) {
  start_checked(1);
  double scale = 1;
  auto step = job->frame<X, Y>("step", {.audit = true},
                               [&](const X& in) { return Y{all_reduce(sum(in.x * scale))}; });
  for (int call = 0; call < 3; ++call) ASSERT_TRUE(step(X{filled({4}, 1)}));
  if (last) scale = 2;
  const auto out = step(X{filled({4}, 1)});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::TraceError);
  expect_joint(out.error());
  scale = 1;
  EXPECT_TRUE(step(X{filled({4}, 1)}));
  EXPECT_TRUE(finish());
}

TEST_F(CapturesJob, RanksThatCheckDifferentlyOften_AreAConfigMismatch) {
  int ranks = 1, mine = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &mine);
  if (ranks == 1) return;
  const auto made = Job::attach(
      MPI_COMM_WORLD,
      {.settings = quiet(), .summary = false, .check_captures = mine == ranks - 1 ? 5U : 0U});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::ConfigMismatch) << made.error().text();
  EXPECT_TRUE(contains(made.error().text(), "LOCKSTEP_CHECK_CAPTURES")) << made.error().text();
}

}  // namespace
}  // namespace lockstep::worker::captures_job_test
