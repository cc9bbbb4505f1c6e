// Every rule of the normal form, of simplification and of the prover, three times: the engine does
// it, the solver proves it for all integers, and every point of a small box agrees. What is proven
// is the written expression, which nothing simplified, against what the engine made of it.
#include "rule_tables.h"
#include <gtest/gtest.h>

#include <lockstep/shapes/shape_env.h>
#include "validation/solver.h"

namespace lockstep::shapes::rules_test {
namespace {

using testing::declare_all;
using testing::Given;
using testing::Law;
using testing::Rule;
using testing::Said;
using testing::Values;

constexpr unsigned kSteps = 2'000'000;

struct Count {
  int proven = 0, unknown = 0;
};

SmtQuery query_of(const Given& given) {
  SmtQuery out;
  declare_all(out);
  for (const Said& said : given) said.require(out, true);
  return out;
}

// Whether the solver says that nothing meets the query.
bool is_empty(const SmtQuery& query, const std::string& name) {
  const auto answer = solve(query.text(), kSteps);
  EXPECT_NE(answer.outcome, SolverAnswer::Outcome::Satisfiable) << name << "\n" << query.text();
  return answer.outcome == SolverAnswer::Outcome::Unsatisfiable;
}

// The steps in turn, each from those before; then that `refuted` leaves nothing.
template <class Refuted>
void prove(const char* name, Given given, const Given& via, const Refuted& refuted, Count& count) {
  bool proven = true;
  for (const Said& step : via) {
    SmtQuery query = query_of(given);
    step.require(query, false);
    proven = is_empty(query, name) && proven;
    given.push_back(step);
  }
  SmtQuery query = query_of(given);
  refuted(query);
  proven = is_empty(query, name) && proven;
  ++(proven ? count.proven : count.unknown);
  if (!proven) std::printf("unknown: %s\n", name);
}

template <class Test>
void for_each_point(std::int64_t lower, std::int64_t upper, const Test& test) {
  for (auto a = lower; a <= upper; ++a) {
    for (auto b = lower; b <= upper; ++b) {
      for (auto c = lower; c <= upper; ++c) {
        for (auto d = lower; d <= upper; ++d) test(Values{a, b, c, d});
      }
    }
  }
}

bool all_hold(const Given& given, const Values& values) {
  return std::all_of(given.begin(), given.end(),
                     [&](const Said& said) { return said.holds(values) == true; });
}

// Unknown is no proof: it is counted, and there are no more than so many.
void settle(const char* what, const Count& count, int unknown_at_most = 0) {
  std::printf("%s: %d proven, %d unknown%s\n", what, count.proven, count.unknown,
              solver_is_available() ? "" : " (no solver in this build)");
  if (solver_is_available()) {
    EXPECT_LE(count.unknown, unknown_at_most);
  }
}

TEST(Rules, LawsTheyRestOn_HoldForAllIntegers) {
  Count count;
  for (const Law& law : testing::laws()) {
    int points = 0;
    for_each_point(-5, 6, [&](const Values& at) {
      if (!all_hold(law.given, at)) return;
      ++points;
      ASSERT_EQ(law.then.holds(at), true)
          << law.name << " at " << at[0] << " " << at[1] << " " << at[2] << " " << at[3];
    });
    EXPECT_GT(points, 100) << law.name;
    prove(
        law.name, law.given, law.via, [&](SmtQuery& q) { law.then.require(q, false); }, count);
  }
  settle("laws", count);
}

TEST(Rules, NormalForm_DoesWhatIsProven) {
  Count count;
  for (const Rule& rule : testing::rules()) {
    const Expr after = rule.before.written.expr();
    EXPECT_EQ(after.text(), rule.after) << rule.name;
    for_each_point(-5, 6, [&](const Values& at) {
      const auto value = rule.before.written.value(at);
      ASSERT_TRUE(!value || after.evaluate(testing::valuation(at)) == value) << rule.name;
    });
    const auto changed = [&](SmtQuery& query) {
      query.require_other(smt(query, rule.before.written), query.value(after));
    };
    prove(rule.name, rule.given, rule.via, changed, count);
  }
  settle("normal form", count, 2);  // quotients by `x - 1` and by `-y`
}

// An environment in which just that is known.
ShapeEnv knowing(const Given& given) {
  std::optional<Values> sample;
  for_each_point(-5, 8, [&](const Values& at) {
    if (!sample && all_hold(given, at)) sample = at;
  });
  ShapeEnv env;
  for (std::size_t i = 0; i < testing::kSymbols; ++i) {
    i < 2 ? env.backed("s", sample.value()[i], {}) : env.unbacked("u", {}, {});
  }
  for (const Said& said : given) env.check(said.predicate(), {"t", 1});
  return env;
}

TEST(Rules, Simplification_DoesWhatIsProven) {
  Count count;
  for (const Rule& rule : testing::rules_given()) {
    const Expr after = knowing(rule.given).simplify(rule.before.written.expr());
    EXPECT_EQ(after.text(), rule.after) << rule.name;
    for_each_point(-5, 8, [&](const Values& at) {
      const auto value = rule.before.written.value(at);
      ASSERT_TRUE(!value || !all_hold(rule.given, at) ||
                  after.evaluate(testing::valuation(at)) == value)
          << rule.name;
    });
    const auto changed = [&](SmtQuery& query) {
      query.require_other(smt(query, rule.before.written), query.value(after));
    };
    prove(rule.name, rule.given, rule.via, changed, count);
  }
  settle("simplification", count);
}

TEST(Rules, Proofs_AreProofs) {
  Count count;
  for (const Law& law : testing::proofs()) {
    EXPECT_EQ(knowing(law.given).prove(law.then.predicate()), true) << law.name;
    for_each_point(-5, 8, [&](const Values& at) {
      if (!all_hold(law.given, at)) return;
      ASSERT_NE(law.then.holds(at), false) << law.name;
    });
    prove(
        law.name, law.given, law.via, [&](SmtQuery& q) { law.then.require(q, false); }, count);
  }
  settle("prover", count);
}

// The functions that have no rules of their own, at every point of a box.
TEST(Rules, CeilDivAndPower_AreWhatTheyStandFor) {
  const Expr a = Expr::symbol({false, 0}), b = Expr::symbol({false, 1});
  for (const Expr& divisor : {b, Expr(4), Expr(-3), b + 1, a * b}) {
    for (const Expr& dividend : {a, a * 6 + 5, b - a, a * b + 2}) {
      const Expr up = ceil_div(dividend, divisor);
      for_each_point(-5, 6, [&](const Values& at) {
        const auto values = testing::valuation(at);
        const auto n = dividend.evaluate(values), d = divisor.evaluate(values);
        if (*d == 0) return;
        const auto expected = *n / *d + (*n % *d != 0 && (*n < 0) == (*d < 0) ? 1 : 0);
        ASSERT_EQ(up.evaluate(values), expected) << up.text() << " at " << at[0] << " " << at[1];
      });
    }
  }
  for (const Expr& base : {a, a - b, floor_div(a, 2), mod(b, 3) - 1, Expr(-2)}) {
    for (std::uint32_t exponent = 0; exponent <= 5; ++exponent) {
      const Expr raised = power(base, exponent);
      for_each_point(-5, 6, [&](const Values& at) {
        std::int64_t expected = 1;
        for (std::uint32_t i = 0; i < exponent; ++i)
          expected *= base.evaluate(testing::valuation(at)).value();
        ASSERT_EQ(raised.evaluate(testing::valuation(at)), expected) << raised.text();
      });
    }
  }
}

// The guards of a root let in the sizes with that root, and no other.
TEST(Rules, Isqrt_GuardsItsRootAlone) {
  for (std::int64_t hint = 0; hint <= 130; ++hint) {
    ShapeEnv env;
    const Expr s = env.backed("s", hint, {0, Range::kMax});
    const std::int64_t root = env.isqrt(2 * s + 1, {"t", 1});
    ASSERT_LE(root * root, 2 * hint + 1);
    ASSERT_GT((root + 1) * (root + 1), 2 * hint + 1);
    for (std::int64_t n = 0; n <= 300; ++n) {
      const bool same = root * root <= 2 * n + 1 && 2 * n + 1 < (root + 1) * (root + 1);
      const bool admitted =
          std::all_of(env.guards().begin(), env.guards().end(), [&](const Guard& guard) {
            return guard.predicate.evaluate([&](Symbol) { return n; }) == true;
          });
      ASSERT_EQ(admitted, same) << "the root of 2*" << hint << " + 1, at " << n;
    }
  }
}

}  // namespace
}  // namespace lockstep::shapes::rules_test
