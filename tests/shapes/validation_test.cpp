// What an environment was asked against what it emits.
#include "random_expr.h"
#include "validation/solver.h"
#include "validation/validation.h"
#include <gtest/gtest.h>

#include <lockstep/shapes/guard_set.h>

namespace lockstep::shapes::validation_test {
namespace {

constexpr Range kSize{2, Range::kMax}, kCount{0, Range::kMax};

TEST(Asked, WhatTheProgramReliesOn_IsLoggedAsAsked) {
  ShapeEnv env;
  const Expr x = env.backed("x.size(0)", 6, kSize), u = env.unbacked("n.item()", kCount, {"t", 1});
  EXPECT_FALSE(env.evaluate(equal(x, 5), {"t", 2}));
  EXPECT_TRUE(env.evaluate(not_equal(2 * x, 10), {"t", 3}));  // proven
  env.check(less(u, x), {"t", 4});
  env.check(less_equal(u, x), {"t", 5});  // proven
  EXPECT_EQ(env.to_int(x + 1, {"t", 6}), 7);
  EXPECT_TRUE(env.evaluate_or(equal(u, 3), true, {"t", 7}));  // open: the fallback
  EXPECT_THROW((void)env.evaluate(equal(u, 3), {"t", 8}), DataDependentError);
  EXPECT_TRUE(env.statically_true(less(u, x)));
  std::vector<std::string> log;
  for (const auto& asked : env.asked()) {
    log.push_back(asked.where.text() + " " + asked.predicate.text() + (asked.answer ? "" : " not"));
  }
  EXPECT_EQ(log, (std::vector<std::string>{"t:2 s0 == 5 not", "t:3 s0 != 5", "t:4 s0 > u0",
                                           "t:5 s0 >= u0", "t:6 s0 == 6"}));
  EXPECT_EQ(env.record({false, 0}).range, Range::of(6));
  EXPECT_EQ(env.record({false, 0}).declared, kSize);
}

// Branches, checks and numbers of several kinds; what is wrong with a copy of it must be seen.
struct Validated : ::testing::Test {
  ShapeEnv env;
  Expr x = env.backed("x.size(0)", 12, kSize), y = env.backed("y.size(0)", 4, kSize),
       n = env.unbacked("n.item()", kCount, {"train.cpp", 1});
  Transcript transcript;

  void SetUp() override {
    EXPECT_TRUE(env.evaluate(greater(x, 2 * y), {"train.cpp", 2}));
    EXPECT_TRUE(env.evaluate(equal(mod(x, 3), 0), {"train.cpp", 3}));
    EXPECT_TRUE(env.evaluate(greater_equal(x, 5), {"train.cpp", 4}));  // proven
    env.check(less_equal(n, y), {"train.cpp", 5});
    EXPECT_FALSE(env.evaluate(greater_equal(n, y + 3), {"train.cpp", 6}));  // proven
    transcript = transcript_of(env);
    transcript.rewritten = {{floor_div(x, 3) * 3, env.simplify(floor_div(x, 3) * 3)},
                            {max(x, y), env.simplify(max(x, y))}};
  }
  [[nodiscard]] std::vector<std::string> findings() const {
    std::vector<std::string> out;
    for (const auto& finding : validate(transcript).findings) out.push_back(finding.text);
    return out;
  }
};

using Texts = std::vector<std::string>;

TEST_F(Validated, WhatIsEmitted_IsProven) {
  EXPECT_EQ(transcript.guards.size(), 2u);
  EXPECT_EQ(transcript.rewritten[1].second, x);
  const Validation found = validate(transcript);
  EXPECT_TRUE(solver_is_available() ? found.holds() : found.findings.empty()) << found.text();
}

TEST_F(Validated, DroppedGuard_IsReportedWithSizes) {
  transcript.guards.erase(transcript.guards.begin());
  const auto all = validate(transcript).findings;
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].kind, Finding::Kind::Unsound);
  EXPECT_TRUE(all[0].text.starts_with(
      "train.cpp:2: `x.size(0) > 2*y.size(0)` was answered true, but guards and asserts let "
      "x.size(0) = "))
      << all[0].text;
  EXPECT_LE(all[0].at.at({false, 0}), 2 * all[0].at.at({false, 1}));
}

TEST_F(Validated, DroppedAssert_IsReported) {
  transcript.asserts.clear();
  const auto all = findings();
  ASSERT_GE(all.size(), 2u);
  EXPECT_TRUE(all[0].starts_with("train.cpp:5: `y.size(0) >= n.item()` was answered true, but"));
  EXPECT_TRUE(
      all[1].starts_with("train.cpp:6: `y.size(0) + 3 <= n.item()` was answered false, but"));
}

TEST_F(Validated, GuardThatIsOneTooWeak_IsReported) {
  transcript.guards[0].predicate = greater_equal(x, 2 * y);
  const auto all = validate(transcript).findings;
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].at.at({false, 0}), 2 * all[0].at.at({false, 1}));
}

TEST_F(Validated, GuardThatTurnsAwayMore_IsReportedAsStronger) {
  transcript.guards[0].predicate = greater(x, 2 * y + 1);
  const auto all = validate(transcript).findings;
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].kind, Finding::Kind::Stronger);
  EXPECT_EQ(all[0].at.at({false, 0}), 2 * all[0].at.at({false, 1}) + 1);
  EXPECT_TRUE(all[0].text.starts_with(
      "train.cpp:2: the guard `x.size(0) >= 2*y.size(0) + 2` turns away x.size(0) = "))
      << all[0].text;
}

TEST_F(Validated, BoundThatNothingSays_IsReported) {
  transcript.symbols[0].range.lower = 10;
  EXPECT_TRUE(findings().at(0).starts_with(
      "`x.size(0) >= 10` is taken as known, but guards and asserts let x.size(0) = "));
}

TEST_F(Validated, ReplacementThatNothingSays_IsReported) {
  transcript.replacements[{false, 0}] = 3 * y;
  EXPECT_TRUE(findings().at(0).starts_with("`x.size(0)` is replaced by `3*y.size(0)`, but"));
}

TEST_F(Validated, RewritingToAnotherValue_IsReported) {
  transcript.rewritten.push_back({floor_div(x, 2), x - floor_div(x, 2)});
  EXPECT_EQ(findings().size(), 1u);
  transcript.rewritten.back() = {x, floor_div(x * n, n)};
  EXPECT_EQ(findings().size(), 0u) << "the normal form is x";
  transcript.rewritten.back() = {x, x + floor_div(0 * n, n) + mod(y, n) - mod(y, n)};
  EXPECT_EQ(findings().size(), 0u);
  transcript.rewritten.back() = {x, min(x, x + floor_div(y, n))};
  EXPECT_EQ(findings().size(), 1u) << "no value where n is zero";
}

TEST_F(Validated, GuardOnAnUnbackedSymbol_IsReported) {
  transcript.guards.push_back({less_equal(n, y), {"train.cpp", 5}});
  EXPECT_EQ(findings(),
            Texts{"train.cpp:5: the guard `y.size(0) >= n.item()` holds a value that is "
                  "known only when the graph runs"});
}

TEST_F(Validated, QuestionThatNobodySettles_IsOpenAndNoSuccess) {
  // Large domains and no steps: neither side knows.
  const Validation found = validate(transcript, {.solver_steps = 1, .points = 2});
  EXPECT_TRUE(found.findings.empty()) << found.text();
  EXPECT_GT(found.open.size(), 0u);
  EXPECT_FALSE(found.holds());
}

TEST_F(Validated, Twice_SaysTheSame) {
  transcript.guards.erase(transcript.guards.begin());
  EXPECT_EQ(validate(transcript).text(), validate(transcript).text());
}

TEST(Validation, GuardThatSettlesABranchOnAnUnbackedSymbol_IsToldAsSufficient) {
  ShapeEnv env;
  const Expr s = env.backed("x.size(0)", 3, kSize), u = env.unbacked("n.item()", {}, {"t", 1});
  EXPECT_TRUE(env.evaluate(equal(u * s * s, 9 * u), {"t", 2}));
  const Validation found = validate(transcript_of(env));
  ASSERT_EQ(found.findings.size(), 1u) << found.text();
  EXPECT_EQ(found.findings[0].kind, Finding::Kind::Sufficient);
  EXPECT_TRUE(found.findings[0].text.starts_with("t:2: the guard `x.size(0) == 3` turns away x"));
  EXPECT_EQ(found.findings[0].at.at({true, 0}), 0);
  EXPECT_TRUE(!solver_is_available() || found.holds()) << found.text();
}

TEST(Validation, SmallDomains_AreSearchedWhereTheSolverGivesUp) {
  ShapeEnv env;
  const Expr a = env.backed("a", 3, {0, 20}), b = env.backed("b", 4, {1, 20});
  EXPECT_TRUE(env.evaluate(less(a * a * b, 40), {"t", 1}));
  Transcript transcript = transcript_of(env);
  transcript.rewritten = {{mod(a * a, b) + b * floor_div(a * a, b), a * a}};
  const Validation found = validate(transcript, {.solver_steps = 1, .points = 1000});
  EXPECT_TRUE(found.holds()) << found.text();
  EXPECT_EQ(found.searched, 1u);
  transcript.rewritten[0].second = a * a + floor_div(b, 20);
  EXPECT_EQ(validate(transcript, {.solver_steps = 1, .points = 1000}).findings.size(), 1u);
}

// Random programs that are right at one point: what they emit says what they were asked.
TEST(Validation, RandomPrograms_EmitWhatTheyWereAsked) {
  const std::uint64_t seed = 4242;
  std::mt19937_64 random(seed);
  Validation all;
  std::size_t sufficient = 0;
  for (int round = 0; round < 100; ++round) {
    ShapeEnv env;
    testing::Values truth{};
    for (std::size_t i = 0; i < testing::kSymbols; ++i) {
      const std::int64_t lower = static_cast<std::int64_t>(random() % 4) - 1;
      truth[i] = lower + static_cast<std::int64_t>(random() % 6);
      const Range range{lower, random() % 2 == 0 ? Range::kMax : lower + 8};
      i < 2 ? env.backed("s" + std::to_string(i), truth[i], range)
            : env.unbacked("u" + std::to_string(i - 2), range, {"t", 1});
    }
    std::vector<std::pair<Expr, Expr>> rewritten;
    for (std::uint32_t i = 0; i < 5; ++i) {
      try {
        int kind = 0;
        const Expr a = testing::random_written(random, 1 + i % 2).expr(),
                   b = testing::random_written(random, 1).expr();
        const Predicate p = testing::random_predicate(random, a, b, kind);
        const auto value = p.evaluate(testing::valuation(truth));
        if (!value) continue;
        if (random() % 2 == 0) {
          env.check(*value ? p : p.negated(), {"t", 10 + i});
        } else {
          ASSERT_EQ(env.evaluate(p, {"t", 10 + i}), *value);
        }
        rewritten.push_back({a, {}});
      } catch (const DataDependentError&) {
      } catch (const OverflowError&) {
      }
    }
    for (auto& [before, after] : rewritten) after = env.simplify(before);
    Transcript transcript = transcript_of(env);
    GuardSet guards{{}, env.guards()};
    for (const auto& record : env.symbols()) guards.ranges[record.symbol] = record.declared;
    transcript.guards = minimal_guards(guards);  // what an entry keeps
    transcript.rewritten = std::move(rewritten);
    const Validation found = validate(transcript);
    for (const auto& finding : found.findings) {
      ASSERT_EQ(finding.kind, Finding::Kind::Sufficient)
          << "seed " << seed << ", round " << round << ": " << found.text();
      ++sufficient;
    }
    all.proven += found.proven;
    all.searched += found.searched;
    all.open.insert(all.open.end(), found.open.begin(), found.open.end());
  }
  std::printf("seed %llu: %zu proven, %zu searched, %zu open, %zu sufficient\n",
              static_cast<unsigned long long>(seed), all.proven, all.searched, all.open.size(),
              sufficient);
  for (const auto& line : all.open) std::printf("open: %s\n", line.c_str());
  EXPECT_GT(all.proven + all.searched, 500u);
  if (solver_is_available()) {
    EXPECT_LE(all.open.size(), 2u);
  }
}

}  // namespace
}  // namespace lockstep::shapes::validation_test
