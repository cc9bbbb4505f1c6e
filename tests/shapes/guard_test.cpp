#include "random_expr.h"
#include <gtest/gtest.h>

#include <lockstep/shapes/expr/guard.h>

namespace lockstep::shapes::guard_test {
namespace {

using testing::random_predicate;
using testing::random_written;
using testing::valuation;
using testing::Values;

const Expr s0 = Expr::symbol({false, 0}), s1 = Expr::symbol({false, 1});
const Expr u0 = Expr::symbol({true, 0});

TEST(Predicate, EqualOnesWrittenDifferently_AreEqual) {
  EXPECT_EQ(equal(2 * s0, 4 * s1), equal(2 * s1, s0));
  EXPECT_EQ(less(s0, s1), greater_equal(s1 - 1, s0));
  EXPECT_EQ(greater_equal(2 * s0 + 4 * s1 + 3, 0), greater_equal(s0 + 2 * s1 + 1, 0));
  EXPECT_EQ(equal(36 * u0, 36), equal(u0, 1));
  EXPECT_EQ(less(s0, s1).negated(), greater_equal(s0, s1));
  EXPECT_EQ(equal(s0, s1).negated().negated(), equal(s1, s0));
}

TEST(Predicate, WithoutSymbols_IsConstant) {
  EXPECT_EQ(equal(2 * s0, 2 * s1 + 1).constant(), false);
  EXPECT_EQ(not_equal(2 * s0, 2 * s1 + 1).constant(), true);
  EXPECT_EQ(less(s0, s0 + 1).constant(), true);
  EXPECT_EQ(less(s0, s1).constant(), std::nullopt);
  EXPECT_EQ(less(3, 4), less(5, 9));
}

TEST(Predicate, Text_HasNoMinusSigns) {
  EXPECT_EQ(equal(2 * s0, s1).text(), "2*s0 == s1");
  EXPECT_EQ(less(s0, u0).text(), "s0 < u0");
  EXPECT_EQ(less_equal(u0, s0).text(), "s0 >= u0");
  EXPECT_EQ(less_equal(s0, 5).text(), "s0 <= 5");
  EXPECT_EQ(greater(s0, 5).text(), "s0 >= 6");
  EXPECT_EQ(equal(s0 + s1, 24576).text(), "s0 + s1 == 24576");
  EXPECT_EQ(not_equal(s0, 0).text(), "s0 != 0");
  EXPECT_EQ(greater_equal(s0, -3).text(), "s0 + 3 >= 0");
}

// Relation, truth and text of random predicates agree with the relation as written.
TEST(Predicate, RandomPredicates_AgreeWithTheWrittenRelationAndRoundTrip) {
  const std::uint64_t seed = 99;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 60000; ++i) {
    const auto a = random_written(random, 3), b = random_written(random, 2);
    int kind = 0;
    Predicate p;
    Expr e;
    try {
      e = a.expr();
      p = random_predicate(random, e, b.expr(), kind);
    } catch (const OverflowError&) {
      continue;
    }
    const auto expr_back = parse_expr(e.text());
    ASSERT_TRUE(expr_back && *expr_back == e) << "seed " << seed << ": " << e.text();
    const auto back = parse_predicate(p.text());
    ASSERT_TRUE(back && *back == p) << "seed " << seed << ": " << p.text();
    for (int j = 0; j < 4; ++j) {
      Values values;
      for (auto& v : values) v = static_cast<std::int64_t>(random() % 9) - 3;
      const auto x = a.value(values), y = b.value(values);
      if (!x || !y) continue;
      ASSERT_EQ(p.evaluate(valuation(values)), testing::relation_holds(kind, *x, *y))
          << "seed " << seed << ": " << p.text();
      ASSERT_EQ(p.negated().evaluate(valuation(values)), !testing::relation_holds(kind, *x, *y));
    }
  }
}

TEST(Parse, OtherTexts_AreRefused) {
  for (const char* text :
       {"", "s", "s0 +", "(s0", "s0)", "Mod(s0)", "Mod(s0, 2, 3)", "Max(s0)", "x0", "s0 s1",
        "99999999999999999999", "s99999999999", "9223372036854775807 + 1"}) {
    EXPECT_EQ(parse_expr(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_expr(std::string(100000, '(')), std::nullopt);
  EXPECT_EQ(parse_expr(std::string(100000, '-')), std::nullopt);
  for (const char* text : {"s0", "s0 = 1", "s0 == 1 == 2", "== 1", "s0 <"}) {
    EXPECT_EQ(parse_predicate(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_expr(" -9223372036854775808 "), Expr(INT64_MIN));
  for (const Expr& e : {s0 + Expr(INT64_MIN), s0 * s0 + Expr(INT64_MIN) * s0 + 1})
    EXPECT_EQ(parse_expr(e.text()), e) << e.text();
  EXPECT_EQ(parse_expr("s0 - 9223372036854775808 // 3"), std::nullopt);
  EXPECT_EQ(parse_expr("s0 - 92233720368547758080"), std::nullopt);
  EXPECT_EQ(parse_predicate("s0<=5"), less_equal(s0, 5));
  EXPECT_EQ(parse_predicate("7 * s0 % 4 // 2 == 1"), equal(floor_div(mod(7 * s0, 4), 2), 1));
}

TEST(Parse, Condition_TakesNamesOfTheCaller_AndSaysWhatItCouldNotRead) {
  const NameReader rows = [](std::string_view& rest) -> std::optional<Expr> {
    if (!rest.starts_with("rows")) return std::nullopt;
    rest.remove_prefix(4);
    return s0;
  };
  std::string_view unread;
  EXPECT_EQ(parse_condition("2*rows % 8 == rows-1", rows, unread), equal(mod(2 * s0, 8), s0 - 1));
  EXPECT_EQ(parse_condition("rows == s1 + 1", rows, unread), std::nullopt);
  EXPECT_EQ(unread, "s1 + 1");
  EXPECT_EQ(parse_condition("s1 == 1 == rows", rows, unread), std::nullopt);
  EXPECT_EQ(unread, "s1 == 1 == rows");
}

// The program against direct evaluation, over values that also overflow.
TEST(GuardProgram, RandomGuards_AgreeWithDirectEvaluation) {
  const std::uint64_t seed = 4711;
  std::mt19937_64 random(seed);
  const std::vector<Symbol> slots = {{true, 1}, {false, 0}, {true, 0}, {false, 1}};
  std::array<int, 3> outcomes{};  // holds, false, no value
  for (int i = 0; i < 20000; ++i) {
    std::vector<Guard> guards;
    while (guards.size() < 3) {
      int kind = 0;
      try {
        const Expr a = random_written(random, 3).expr(), b = random_written(random, 2).expr();
        guards.push_back({random_predicate(random, a, b, kind), {}});
      } catch (const OverflowError&) {
      }
    }
    const auto program = GuardProgram::compile(guards, slots);
    for (int j = 0; j < 8; ++j) {
      Values values;
      for (auto& v : values) {
        v = static_cast<std::int64_t>(random()) >> (j < 4 ? 60 : 1 + random() % 40);
      }
      std::optional<std::size_t> expected;
      for (std::size_t g = 0; g < guards.size() && !expected; ++g) {
        const auto value = guards[g].predicate.evaluate(valuation(values));
        ++outcomes[!value ? 2 : *value ? 0 : 1];
        if (value != true) expected = g;
      }
      const std::array<std::int64_t, 4> in_slots{values[3], values[0], values[2], values[1]};
      ASSERT_EQ(program.first_failure(in_slots), expected) << "seed " << seed << ", round " << i;
    }
  }
  for (const int count : outcomes) EXPECT_GT(count, 1000);
}

TEST(GuardProgram, DeepExpressions_UseALargerStack) {
  Expr e = s0;
  for (std::int64_t i = 2; i < 40; ++i) e = s1 + max(s0 * floor_div(100 * i, e + i), 2);
  const auto program = GuardProgram::compile({{greater_equal(e, 0), {}}}, {{false, 0}, {false, 1}});
  const std::array<std::int64_t, 2> values{3, 4};
  const Valuation at = [&](Symbol s) { return values[s.serial]; };
  EXPECT_EQ(program.holds(values), greater_equal(e, 0).evaluate(at));
}

TEST(GuardProgram, NoGuards_Hold) {
  EXPECT_TRUE(GuardProgram::compile({}, {}).holds({}));
  EXPECT_THROW(GuardProgram::compile({{equal(s0, 1), {}}}, {}), std::logic_error);
}

TEST(DeferredAssert, Due_IsTheLatestUnbackedByNumber) {
  std::vector<Expr> counts;
  for (std::uint32_t i = 0; i <= 10; ++i) counts.push_back(Expr::symbol({true, i}));
  EXPECT_EQ((DeferredAssert{equal(sum(counts), 20), {}, {}}).due(), (Symbol{true, 10}));
  EXPECT_EQ((DeferredAssert{equal(s0, s1), {}, {}}).due(), std::nullopt);
}

// Symbols are bound one after the other, the inputs first: an assert is due at the first moment at
// which it can be tested, so after the last of its symbols and not later.
TEST(DeferredAssert, Due_IsTheFirstMomentAtWhichItHasAValue) {
  std::mt19937_64 random(1729);
  constexpr std::uint32_t kUnbacked = 13;
  int tested = 0, after_inputs = 0;
  for (int round = 0; round < 20000; ++round) {
    int kind = 0;
    const Expr a = random_written(random, 2).expr(), b = random_written(random, 2).expr();
    std::map<Symbol, Expr> renamed;
    for (std::size_t i = 0; i < testing::kSymbols; ++i) {
      const bool unbacked = random() % 4 != 0;
      renamed[testing::symbol_at(i)] =
          Expr::symbol({unbacked, static_cast<std::uint32_t>(unbacked ? random() % kUnbacked : i)});
    }
    const DeferredAssert deferred{
        random_predicate(random, a, b, kind).substitute(renamed), {"t.cpp", 1}, {}};
    std::array<std::int64_t, 2 * kUnbacked> values{};
    for (auto& value : values) value = static_cast<std::int64_t>(random() % 9) - 3;
    // `bound` unbacked ones have their values.
    const auto answer = [&](std::uint32_t bound) {
      return deferred.predicate.evaluate([&](Symbol s) -> std::optional<std::int64_t> {
        if (s.unbacked && s.serial >= bound) return std::nullopt;
        return values[s.serial + (s.unbacked ? kUnbacked : 0)];
      });
    };
    const auto whole = answer(kUnbacked);
    if (!whole) continue;
    std::uint32_t first = 0;
    while (!answer(first)) ++first;
    const auto due = deferred.due();
    ASSERT_EQ(due ? due->serial + 1 : 0, first) << deferred.predicate.text();
    ASSERT_TRUE(!due || due->unbacked);
    ASSERT_EQ(answer(first), whole);
    ++tested;
    if (!due) ++after_inputs;
  }
  std::printf("seed 1729: %d asserts, %d of them after the inputs\n", tested, after_inputs);
  EXPECT_GT(tested, 10000);
  EXPECT_GT(after_inputs, 500);
}

}  // namespace
}  // namespace lockstep::shapes::guard_test
