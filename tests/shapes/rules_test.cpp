// Every rule of the normal form, of simplification and of the prover, three times: the engine does
// it, the solver proves it for all integers, and every point of a small box agrees. What is proven
// is the written expression, which nothing simplified, against what the engine made of it.
#include "written_rules.h"
#include <gtest/gtest.h>

#include <lockstep/shapes/shape_env.h>
#include <lockstep/shapes/solver.h>

namespace lockstep::shapes {
namespace {

using testing::declare_all;
using testing::greatest;
using testing::least;
using testing::quotient;
using testing::remainder;
using testing::Said;
using testing::Tree;
using testing::Values;

const Tree x = Tree::symbol(0), y = Tree::symbol(1), u = Tree::symbol(2), v = Tree::symbol(3);
using Given = std::vector<Said>;

// `via`: steps that the solver is given, each of which it has to prove first; they have a value
// wherever the rest has.
struct Law {
  const char* name;
  Given given;
  Said then;
  Given via = {};
};
struct Rule {
  const char* name;
  Given given;
  Tree before;
  const char* after;  // as the engine prints it
  Given via = {};
};

// What the rules rest on, with free parameters.
const std::vector<Law>& laws() {
  static const std::vector<Law> all = {
      // floor_div
      {"whole multiples leave a quotient", {y != 0}, quotient(x + y * u, y) == quotient(x, y) + u},
      {"both signs change", {y != 0}, quotient(0 - x, 0 - y) == quotient(x, y)},
      {"a common factor is cancelled", {y != 0, u != 0}, quotient(u * x, u * y) == quotient(x, y)},
      {"a constant is floored by a common factor",
       {y >= 1, u >= 1},
       quotient(u * x + v, u * y) == quotient(x + quotient(v, u), y)},
      {"nested quotients merge",
       {y != 0, v >= 1},
       quotient(quotient(x, y) + u, v) == quotient(x + u * y, y * v)},
      {"an interval within one quotient", {y >= 1, u * y <= x, x < u * y + y}, quotient(x, y) == u},
      {"quotients grow with the dividend", {y >= 1, x <= u}, quotient(x, y) <= quotient(u, y)},
      {"quotients fall with the dividend", {y <= -1, x <= u}, quotient(u, y) <= quotient(x, y)},
      {"quotients fall with the divisor",
       {x >= 0, y >= 1, y <= u},
       quotient(x, u) <= quotient(x, y)},
      {"below zero they grow", {x <= 0, y >= 1, y <= u}, quotient(x, y) <= quotient(x, u)},
      // mod
      {"whole multiples leave a remainder",
       {y != 0},
       remainder(x + y * u, y) == remainder(x, y),
       {quotient(x + y * u, y) == quotient(x, y) + u}},
      {"the sign of a divisor",
       {y != 0},
       remainder(0 - x, 0 - y) == 0 - remainder(x, y),
       {quotient(0 - x, 0 - y) == quotient(x, y)}},
      {"a common factor of a remainder",
       {y != 0, u != 0},
       remainder(u * x, u * y) == u * remainder(x, y),
       {quotient(u * x, u * y) == quotient(x, y)}},
      {"a constant beside a common factor",
       {y >= 1, u >= 1},
       remainder(u * x + v, u * y) == u * remainder(x + quotient(v, u), y) + remainder(v, u),
       {quotient(u * x + v, u * y) == quotient(x + quotient(v, u), y)}},
      {"a remainder in a remainder",
       {y != 0, u != 0},
       remainder(remainder(x, y * u) + v, y) == remainder(x + v, y),
       {quotient(remainder(x, y * u) + v, y) == quotient(x + v, y) - u * quotient(x, y * u)}},
      {"a remainder is below its divisor", {y >= 1}, remainder(x, y) <= y - 1},
      {"a remainder is not negative", {y >= 1}, remainder(x, y) >= 0},
      {"a remainder is at most its dividend", {y >= 1, x >= 0}, remainder(x, y) <= x},
      {"a small number is its remainder", {x >= 0, x < y}, remainder(x, y) == x},
      {"a remainder by its quotient", {y != 0}, remainder(x, y) == x - y * quotient(x, y)},
      {"a residue of a multiple",
       {v != 0, x == v * u + y},
       remainder(x, v) == remainder(y, v),
       {quotient(x, v) == quotient(y, v) + u}},
      // Min and Max
      {"an extreme of sums", {u >= 0}, v + u * greatest(x, y) == greatest(v + u * x, v + u * y)},
      {"a least of sums", {u >= 0}, v + u * least(x, y) == least(v + u * x, v + u * y)},
      {"the beaten operand of a Max", {y <= x}, greatest(x, y) == x},
      {"the beaten operand of a Min", {x <= y}, least(x, y) == x},
      {"nested ones are one", {}, greatest(greatest(x, y), u) == greatest(x, greatest(y, u))},
      // Bounds of sign.cpp, and the prover's steps
      {"a quotient from below", {y >= 1}, x - y + 1 <= y * quotient(x, y)},
      {"a quotient from above", {y >= 1}, y * quotient(x, y) <= x},
      {"a fact taken out", {x >= 0, u >= 0, y >= u * x}, y >= 0},
      {"factors of one sign", {x >= 0, y >= 0}, x * y >= 0},
      {"factors of two signs", {x >= 0, y <= 0}, x * y <= 0},
      {"factors that are not zero", {x != 0, y != 0}, x * y != 0},
      {"a product at its corners", {x >= 0, x <= u, y >= 0, y <= v}, x * y <= u * v},
      {"a common factor of an inequality", {u >= 1, u * x + v >= 0}, x + quotient(v, u) >= 0},
      {"and back", {u >= 1, x + quotient(v, u) >= 0}, u * x + v >= 0},
      {"a linear term solved", {u >= 1, v <= u * x}, quotient(v + u - 1, u) <= x},
  };
  return all;
}

// What the normal form does, knowing nothing.
const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {"multiples and the constant split off",
       {},
       quotient(6 * x + 4 * y + 13, 3),
       "2*s0 + (4*s1 + 1) // 3 + 4"},
      {"a negative constant rounds down", {}, quotient(x - 1, 4), "(s0 + 3) // 4 - 1"},
      {"by one", {}, quotient(x + y, 1), "s0 + s1"},
      {"by minus one", {}, quotient(x, -1), "-s0"},
      {"by a negative number", {}, quotient(x + 1, -3), "(-s0 + 2) // 3 - 1"},
      {"a common factor, the constant floored",
       {},
       quotient(4 * x + 6 * y + 5, 8),
       "(2*s0 + 3*s1 + 2) // 4"},
      {"nested quotients", {}, quotient(quotient(x, 3) + 5, 4), "(s0 + 3) // 12 + 1"},
      {"nested quotients by symbols", {}, quotient(quotient(x, y) + 2, 3), "(s0 + 2*s1) // (3*s1)"},
      {"nested quotients by a negative number", {}, quotient(quotient(x, -3), 4), "(-s0) // 12"},
      {"an interval within one quotient", {}, quotient(remainder(x, 5) + 10, 5), "2"},
      {"an interval within one quotient, below zero", {}, quotient(remainder(x, 4) - 8, 8), "-1"},
      {"a product by a factor", {}, quotient(x * y, x), "s1"},
      {"a polynomial by its divisor", {}, quotient(x * x - y * y, x + y), "s0 - s1"},
      {"a polynomial with a rest", {}, quotient(x * y + 1, x), "s1 + 1 // s0"},
      {"a common monomial", {}, quotient(x * y + x, x * u), "(s1 + 1) // u0"},
      {"a common content", {}, quotient(4 * x + 2, 6 * y), "(2*s0 + 1) // (3*s1)"},
      {"both signs", {}, quotient(0 - x, 0 - y), "s0 // s1"},
      {"a leading minus below", {}, quotient(x, 0 - 2 * y), "(-s0) // (2*s1)"},
      {"coefficients reduced", {}, remainder(7 * x + 5 * y + 9, 4), "Mod(3*s0 + s1 + 1, 4)"},
      {"a remainder by one", {}, remainder(x, 1), "0"},
      {"a remainder by a negative number", {}, remainder(x, -3), "-Mod(2*s0, 3)"},
      {"a common factor of a remainder", {}, remainder(6 * x + 5, 9), "3*Mod(2*s0 + 1, 3) + 2"},
      {"remainders opened", {}, remainder(2 * remainder(x, 6) + y, 4), "Mod(2*s0 + s1, 4)"},
      {"a remainder within its range", {}, remainder(remainder(x, 3) + 1, 4), "Mod(s0, 3) + 1"},
      {"a remainder by a polynomial",
       {},
       remainder(x * y, x - 1),
       "Mod(s1, s0 - 1)",
       {quotient(x * y, x - 1) == y + quotient(y, x - 1)}},
      {"a multiple of a symbol",
       {},
       remainder(x * y + u, x),
       "Mod(u0, s0)",
       {quotient(x * y + u, x) == y + quotient(u, x)}},
      {"a monomial out of a remainder",
       {},
       remainder(x * y, x * u),
       "s0*Mod(s1, u0)",
       {quotient(x * y, x * u) == quotient(y, u)}},
      {"a remainder by a negated symbol",
       {},
       remainder(x, 0 - y),
       "-Mod(-s0, s1)",
       {quotient(x, 0 - y) == quotient(0 - x, y)}},
      {"what is left of a division",
       {},
       remainder(x, 4) + 4 * quotient(x, 4),
       "4*(s0 // 4) + Mod(s0, 4)"},
      {"a Max of a sum and more", {}, greatest(x, x + 1), "s0 + 1"},
      {"a Min of a sum and less", {}, least(x, x - 2), "s0 - 2"},
      {"terms and factors out of a Max",
       {},
       greatest(2 * x + 4 * y, 2 * x + 2 * u),
       "2*s0 + 2*Max(2*s1, u0)"},
      {"a factor out of a Min, with its sign",
       {},
       least(0 - 2 * x, 0 - 4 * y),
       "2*Min(-s0, -2*s1)"},
      {"nested extremes", {}, greatest(greatest(x, y), greatest(u, x)), "Max(s0, s1, u0)"},
      {"a Max within a sum", {}, greatest(greatest(x, y) + 1, u), "Max(s0 + 1, s1 + 1, u0)"},
      {"constants of a Max", {}, greatest(greatest(x, 3), 5), "Max(s0, 5)"},
      {"vector 20", {}, greatest(1, greatest(257, u)) - greatest(257, u), "0"},
      {"a remainder beaten by its divisor", {}, greatest(remainder(x, 4), 4), "4"},
      {"a Min beaten by a Max", {}, greatest(least(x, y), x), "s0"},
      {"a pair that cancels", {}, greatest(x - greatest(x, y), y - greatest(x, y)), "0"},
      {"a quotient against its dividend", {}, greatest(2 * quotient(x, 2), x), "s0"},
  };
  return all;
}

// What simplification does, knowing that much.
const std::vector<Rule>& rules_given() {
  static const std::vector<Rule> all = {
      {"a quotient of less", {x >= 0, x < y}, quotient(x, y), "0"},
      {"a remainder of less", {x >= 0, x < y}, remainder(x, y), "s0"},
      {"what one rule leaves to another",
       {x >= 0, x <= 1, y == 2},
       remainder(x + y, greatest(x, y)),
       "s0"},
      {"a known remainder", {remainder(x, 6) == 4}, remainder(x, 3), "1"},
      {"a known remainder of a multiple", {remainder(x, 6) == 4}, remainder(5 * x + 1, 6), "3"},
      {"an exact quotient", {remainder(x, 4) == 0}, quotient(x, 4) * 4, "4*(s0 // 4)"},
      {"a replaced symbol", {y == 3 * x}, quotient(y, 3), "s0"},
      {"a replaced number", {x == 5}, remainder(x * y, 5), "0"},
      {"an operand that never decides", {x <= y}, greatest(x, y), "s1"},
      {"the other one", {x <= y}, least(x, y), "s0"},
      {"one value left by bounds", {x >= 4, x <= 7}, quotient(x, 4), "1"},
      {"an atom with one value", {x >= 1, y >= 1}, least(greatest(x, 1) + y, 2), "2"},
  };
  return all;
}

// What the prover answers, knowing that much.
const std::vector<Law>& proofs() {
  static const Tree q = quotient(quotient(y, 2) - 1, 8);
  static const std::vector<Law> all = {
      {"an interval", {x >= 2, y >= 3}, x + 2 * y >= 8},
      {"an interval of a product", {x >= 2, y >= 3}, x * y >= 6},
      {"an interval of a quotient", {x >= 8, x <= 11}, quotient(x, 4) == 2},
      {"an even power", {}, x * x >= 0},
      {"a bound of the same direction", {x - y >= 2}, 2 * x - 2 * y + 1 >= 0},
      {"an excluded value", {x != 5}, 2 * x != 10},
      {"a remainder excludes", {remainder(x, 4) == 1}, x != 6},
      {"coefficients exclude", {}, 2 * x != 4 * y + 1},
      {"a quotient from above", {}, 4 * quotient(x, 4) <= x},
      {"a quotient from below", {}, x - 3 <= 4 * quotient(x, 4)},
      {"a quotient by a symbol from above", {y >= 1}, y * quotient(x, y) <= x},
      {"a quotient by a symbol from below", {y >= 1}, x + 1 <= y * quotient(x, y) + y},
      {"a remainder by a symbol", {y >= 1}, remainder(x, y) < y},
      {"a remainder of something positive", {x >= 0, y >= 1}, remainder(x, y) <= x},
      {"a Max from below", {}, x <= greatest(x, y)},
      {"a Min from above", {}, least(x, y) <= y},
      {"a Min against a Max", {}, least(x, y) <= greatest(x, y)},
      {"lower bounds shifted", {x >= 2, y >= 2}, x + y <= x * y},
      {"upper bounds shifted", {x <= 3, y <= 4}, x + 2 * y <= 11},
      {"minus a multiple of a fact", {y >= 2 * x + 3, x >= 0}, y > x},
      {"minus a fact, by intervals", {x + y >= 5, u >= 2}, x + y + u >= 7},
      {"a common monomial", {x >= 1, y >= 1, u >= 1}, x * y + x * u >= 0},
      {"a factor that is not zero", {x >= 1, y != 0}, x * y != 0},
      {"proportional coefficients",
       {u >= 2, y >= 2},
       u * q * q + 2 * u * q + u != q * q + 2 * q + 1},
      {"a remainder as a quotient", {remainder(x, 3) == 0}, 3 * quotient(x, 3) == x},
  };
  return all;
}

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
  EXPECT_NE(answer.verdict, SolverAnswer::Verdict::Satisfiable) << name << "\n" << query.text();
  return answer.verdict == SolverAnswer::Verdict::Unsatisfiable;
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
  for (const Law& law : laws()) {
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
  for (const Rule& rule : rules()) {
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
  for (const Rule& rule : rules_given()) {
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
  for (const Law& law : proofs()) {
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

}  // namespace
}  // namespace lockstep::shapes
