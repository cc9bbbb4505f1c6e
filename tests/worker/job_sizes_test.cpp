// What a user says of sizes beforehand, through the job, on real ranks: relations declared for
// every call, and branches that become asserts.
#include <vector>

#include "job_ranks.h"

namespace lockstep::worker::job_sizes_test {
namespace {

struct Two {
  Tensor x, y;
  template <class V>
  void fields(V& v) {
    v("x", x), v("y", y);
  }
};

class JobSizes : public JobRanks {
 protected:
  /// x has 1 + (rank + call) % 5 rows, y twice as many.
  [[nodiscard]] std::int64_t rows(int r, int call) const { return 1 + (r + call) % 5; }
  [[nodiscard]] Two batch(int call) const {
    return {filled({rows(rank, call), 3}, 1.0), filled({2 * rows(rank, call)}, 2.0)};
  }
  /// What sums over x and y and over all ranks come to.
  [[nodiscard]] double total(int call) const {
    double out = 0;
    for (int r = 0; r < size; ++r) out += static_cast<double>(rows(r, call)) * (3 + 4);
    return out;
  }
  static Y sums(const Two& in) { return Y{all_reduce(sum(in.x)) + all_reduce(sum(in.y))}; }
  void expect_right(CompiledFrame<Two, Y>& step, int call) const {
    const auto out = step(batch(call));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), total(call)) << "call " << call;
  }
};

TEST_F(JobSizes, Declared_DimsAreDynamicFromTheFirstCall_AndRelationsKnown) {
  bool even = false;
  auto step = job->frame<Two, Y>(
      "step", {.constraints = {"1 <= x.size(0)", "x.size(0) <= 64", "y.size(0) == 2 * x.size(0)"}},
      [&](const Two& in) {
        even = statically_true(in.y.size(0) % 2 == 0);
        if (in.y.size(0) >= in.x.size(0)) return sums(in);  // no guard: it follows
        return Y{sum(in.x)};
      });
  expect_right(step, 0);
  EXPECT_TRUE(even);
  for (int call = 1; call < 6; ++call) {
    expect_right(step, call);
    EXPECT_TRUE(contains(step.last_call(), "reused")) << step.last_call();
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobSizes, Declared_BrokenByOneRank_IsTheErrorOfAll_AndTheNextCallWorks) {
  auto step = job->frame<Two, Y>("step", {.constraints = {"y.size(0) == 2 * x.size(0)"}}, sums);
  expect_right(step, 0);
  Two wrong = batch(1);
  if (last) wrong.y = filled({2 * rows(rank, 1) + 1}, 2.0);
  for (int again = 0; again < 2; ++again) {
    if (again == 1) step.prefetch(wrong);
    const auto out = step(wrong);
    ASSERT_FALSE(out);
    expect_joint(out.error());
    EXPECT_EQ(out.error().code, Code::ConstraintViolation) << out.error().text();
    EXPECT_TRUE(contains(out.error().text(), "`2*x.size(0) == y.size(0)` was declared"))
        << out.error().text();
    EXPECT_TRUE(contains(out.error().text(), last_text())) << out.error().text();
    expect_right(step, 2 + again);
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobSizes, Declared_FunctionThatServesLess_SaysWhichLine) {
  unsigned line = 0;
  auto step = job->frame<Two, Y>("step", {.constraints = {"1 <= x.size(0)", "x.size(0) <= 64"}},
                                 [&](const Two& in) {
                                   line = __LINE__ + 1;
                                   if (in.x.size(0) <= 32) return sums(in);
                                   return Y{sum(in.x)};
                                 });
  const auto out = step(batch(0));
  ASSERT_FALSE(out);
  expect_joint(out.error());
  EXPECT_EQ(out.error().code, Code::TraceError);
  EXPECT_TRUE(contains(out.error().text(), "job_sizes_test.cpp:" + std::to_string(line)) &&
              contains(out.error().text(), "declared to be between 1 and 64"))
      << out.error().text();
  EXPECT_TRUE(finish());
}

// The text between the quotes of a refusal is a constraint as it stands.
TEST_F(JobSizes, Declared_AsTheErrorSays_TheFunctionCompiles) {
  const auto body = [](const Two& in) {
    if (in.x.size(0) % 2 == 1 && in.y.size(0) == 3 * in.x.size(0) + 1) return sums(in);
    return Y{sum(in.x)};
  };
  std::vector<std::string> constraints = {"1 <= x.size(0)", "x.size(0) <= 64", "y.size(0) >= 1"};
  std::vector<std::string> pasted;
  const auto at = [](std::int64_t n) { return Two{filled({n, 3}, 1.0), filled({3 * n + 1}, 2.0)}; };
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto step =
        job->frame<Two, Y>("step" + std::to_string(attempt), {.constraints = constraints}, body);
    const auto out = step(at(5));
    if (out) {
      EXPECT_EQ(only(out->y), size * (15.0 + 32.0));
      const auto other = step(at(9));
      ASSERT_TRUE(other) << other.error().text();
      EXPECT_TRUE(contains(step.last_call(), "reused")) << step.last_call();
      break;
    }
    const std::string text = out.error().text(), opening = "declare \"";
    const std::size_t from = text.find(opening) + opening.size();
    ASSERT_NE(text.find(opening), std::string::npos) << text;
    pasted.push_back(text.substr(from, text.find('"', from) - from));
    constraints.push_back(pasted.back());
  }
  EXPECT_EQ(pasted,
            (std::vector<std::string>{"x.size(0) % 2 == 1", "y.size(0) == 3*x.size(0) + 1"}));
  EXPECT_TRUE(finish());
}

TEST_F(JobSizes, Declared_OtherwiseOnOneRank_IsAFrameMismatchThatSaysWhat) {
  if (size == 1) return;
  const auto declared = [&](const char* what) {
    FrameOptions options;
    const std::string option = what;
    if (option == "constraints")
      options.constraints = {last ? "x.size(0) <= 32" : "x.size(0) <= 64"};
    else if (option == "recordings")
      options.recordings = CaptureOptions{.sizes = {{"x.size(0)", {last ? 32 : 64}}}, .limit = 4};
    else if (last)
      options.complex_branches = shapes::ShapeOptions::Complex::Assert;
    return options;
  };
  for (const auto& [what, said] : {std::pair{"constraints", "`x.size(0) <= 32`"},
                                   {"branches", "complex branches as asserts"},
                                   {"recordings", "at most 4 recordings, x.size(0) of 32"}}) {
    auto step = job->frame<Two, Y>(what, declared(what), sums);
    const auto out = step(batch(0));
    ASSERT_FALSE(out);
    expect_joint(out.error());
    EXPECT_EQ(out.error().code, Code::FrameMismatch) << out.error().text();
    EXPECT_TRUE(contains(out.error().text(), "different options") &&
                contains(out.error().text(), said))
        << out.error().text();
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobSizes, Declared_OfSizesThatAreNotThere_IsRefused) {
  auto step = job->frame<Two, Y>("step", {.constraints = {"z.size(0) <= 64"}}, sums);
  const auto out = step(batch(0));
  ASSERT_FALSE(out);
  expect_joint(out.error());
  EXPECT_EQ(out.error().code, Code::BadInput);
  EXPECT_TRUE(contains(out.error().text(), "z.size(0) <= 64") &&
              contains(out.error().text(), "x.size(0), x.size(1), y.size(0)"))
      << out.error().text();
  EXPECT_TRUE(finish());
}

TEST_F(JobSizes, ComplexBranchAsAssert_OneEntryServesAllThatSatisfyIt) {
  for (const auto complex :
       {shapes::ShapeOptions::Complex::Guard, shapes::ShapeOptions::Complex::Assert}) {
    const bool asserts = complex == shapes::ShapeOptions::Complex::Assert;
    auto step = job->frame<Two, Y>(asserts ? "asserts" : "guards", {.complex_branches = complex},
                                   [](const Two& in) {
                                     if (in.x.size(0) * in.x.size(1) == in.y.size(0))
                                       return sums(in);
                                     return Y{all_reduce(sum(in.x))};
                                   });
    // The same sizes on all ranks: a guard on them is a guard of all.
    const auto give = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
      Two in{filled({a, b}, 1.0), filled({c}, 2.0)};
      mark_dynamic(in.x, 0), mark_dynamic(in.x, 1), mark_dynamic(in.y, 0);
      return step(in);
    };
    ASSERT_TRUE(give(3, 4, 12));
    const auto fits = give(5, 6, 30);
    ASSERT_TRUE(fits) << fits.error().text();
    EXPECT_EQ(only(fits->y), size * (30.0 + 60.0));
    EXPECT_TRUE(contains(step.last_call(), "reused")) << step.last_call();
    const auto other = give(5, 6, 31);
    ASSERT_EQ(static_cast<bool>(other), !asserts);
    if (other) {
      EXPECT_EQ(only(other->y), size * 30.0);
      EXPECT_TRUE(contains(step.last_call(), "compiled")) << step.last_call();
    } else {
      expect_joint(other.error());
      EXPECT_EQ(other.error().code, Code::RuntimeAssert) << other.error().text();
      EXPECT_TRUE(contains(other.error().text(), "x.size(0)*x.size(1) == y.size(0)"))
          << other.error().text();
    }
    ASSERT_TRUE(give(2, 2, 4));
  }
  EXPECT_TRUE(finish());
}

/// Rows sent to the ranks as `counts` says.
struct Routed {
  Tensor rows, counts;
  template <class V>
  void fields(V& v) {
    v("rows", rows), v("counts", counts);
  }
};

/// What arrives, without a reduction over ranks.
Y received(const Routed& in) {
  const Sizes to = tolist(in.counts, Values::NonNegative);
  const Sizes from = tolist(all_to_all_single(in.counts), Values::NonNegative);
  return Y{sum(all_to_all_single(in.rows, from, to))};
}

class VectorOfSizes : public JobRanks {
 protected:
  /// Rows that hold this rank's number plus one, as many as the counts say, `more` on top.
  [[nodiscard]] Routed routed(const std::vector<std::int64_t>& counts,
                              std::int64_t more = 0) const {
    std::int64_t all = more;
    for (const std::int64_t count : counts) all += count;
    return {filled({all, 2}, 1.0 + rank), integers(counts)};
  }
};

TEST_F(VectorOfSizes, Vector_54_SplitsOfEveryPair_ArriveWhereTheyAreMeant) {
  auto step = job->frame<Routed, Y>("route", received);
  std::vector<std::int64_t> counts;
  double expected = 0;
  for (int p = 0; p < size; ++p) {
    counts.push_back(static_cast<std::int64_t>(p + 1) * (rank + 1));
    expected += 2.0 * (1.0 + p) * (p + 1) * (rank + 1);
  }
  const auto out = step(routed(counts));
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->y), expected);
  EXPECT_TRUE(finish());
}

TEST_F(VectorOfSizes, Vector_55_RankThatReceivesNothing_SumsToZero) {
  auto step = job->frame<Routed, Y>("route", received);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(size), 3);
  counts.back() = 0;
  for (int call = 0; call < 2; ++call) {
    const auto out = step(routed(counts));
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), last ? 0.0 : 6.0 * size * (size + 1) / 2);
  }
  EXPECT_TRUE(finish());
}

TEST_F(VectorOfSizes, Vector_56_CountsThatDoNotAddUpOnOneRank_AreTheErrorOfAll) {
  auto step = job->frame<Routed, Y>("route", received);
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size), 2);
  ASSERT_TRUE(step(routed(counts)));
  const auto out = step(routed(counts, last ? 1 : 0));
  ASSERT_FALSE(out);
  expect_joint(out.error());
  EXPECT_EQ(out.error().code, Code::RuntimeAssert) << out.error().text();
  EXPECT_TRUE(contains(out.error().text(), last_text())) << out.error().text();
  const auto after = step(routed(counts));
  ASSERT_TRUE(after) << after.error().text();
  EXPECT_EQ(only(after->y), 4.0 * size * (size + 1) / 2);
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::job_sizes_test
