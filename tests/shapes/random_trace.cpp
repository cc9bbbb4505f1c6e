#include "random_trace.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/shapes/guard_set.h>

namespace lockstep::shapes::testing {
namespace {

using Fault = std::optional<std::string>;

std::string text_of(const Values& v) { return fmt::format("{} {} {} {}", v[0], v[1], v[2], v[3]); }

// One query against every point that gets in.
Fault fault_of_query(const RandomTrace& trace, const Predicate& query, Tally& tally) {
  const auto answer = trace.env.prove(query);
  const Expr e = query.expr, simple = trace.env.simplify(e);
  const Range range = trace.env.range(e);
  bool seen_true = false, seen_false = false;
  for (const Values& v : trace.points) {
    const auto value = e.evaluate(valuation(v));
    if (!value) continue;
    const bool holds = query.evaluate(valuation(v)).value();
    (holds ? seen_true : seen_false) = true;
    if (answer && *answer != holds) {
      return fmt::format("`{}` was proven {}, but not at {}", query.text(), *answer, text_of(v));
    }
    if (simple.evaluate(valuation(v)) != value) {
      return fmt::format("`{}` became `{}`, another value at {}", e.text(), simple.text(),
                         text_of(v));
    }
    if (!range.contains(*value)) {
      return fmt::format("`{}` is {} at {}, outside its range", e.text(), *value, text_of(v));
    }
  }
  const Expr again = trace.env.simplify(simple);
  if (again != simple) {
    return fmt::format("`{}` became `{}`, then `{}`", e.text(), simple.text(), again.text());
  }
  ++(answer ? tally.proven : tally.open);
  if (!answer && trace.whole) ++(seen_true != seen_false ? tally.missed : tally.undecided);
  return std::nullopt;
}

// The guards that an entry keeps admit what all of them admit.
Fault fault_of_minimal_guards(const RandomTrace& trace) {
  GuardSet all{{}, trace.env.guards()};
  for (const auto& record : trace.env.symbols()) all.ranges[record.symbol] = record.declared;
  const auto kept = minimal_guards(all);
  for (const Values& v : trace.points) {
    const auto holds = [&](const Guard& guard) {
      return guard.predicate.evaluate(valuation(v)) == true;
    };
    if (std::all_of(kept.begin(), kept.end(), holds) !=
        std::all_of(all.guards.begin(), all.guards.end(), holds)) {
      return fmt::format("the guards that are kept say otherwise at {}", text_of(v));
    }
  }
  return std::nullopt;
}

Fault fault_of_emission(const RandomTrace& trace) {
  for (const auto& guard : trace.env.guards()) {
    if (guard.predicate.expr.has_unbacked() ||
        guard.predicate.evaluate(valuation(trace.truth)) != true) {
      return fmt::format("the guard `{}` is unbacked or fails", guard.predicate.text());
    }
  }
  for (const auto& deferred : trace.env.deferred_asserts()) {
    const auto due = deferred.due();
    const Valuation bound = [&](Symbol s) -> std::optional<std::int64_t> {
      if (s.unbacked && (!due || *due < s)) return std::nullopt;
      return valuation(trace.truth)(s);
    };
    if (deferred.predicate.evaluate(bound) != true) {
      return fmt::format("the assert `{}` fails or is due too early", deferred.predicate.text());
    }
  }
  for (const Values& v : trace.points) {
    for (const auto& p : trace.said) {
      if (p.evaluate(valuation(v)) == false) {
        return fmt::format("`{}` was said, but {} gets in", p.text(), text_of(v));
      }
    }
  }
  return std::nullopt;
}

}  // namespace

RandomTrace::RandomTrace(std::mt19937_64& random) {
  std::array<Range, kSymbols> window;
  whole = random() % 3 == 0;
  for (std::size_t i = 0; i < kSymbols; ++i) {
    window[i].lower = static_cast<std::int64_t>(random() % 5) - 2;
    window[i].upper = window[i].lower + static_cast<std::int64_t>(random() % 5);
    const auto width = static_cast<std::uint64_t>(window[i].upper - window[i].lower + 1);
    truth[i] = window[i].lower + static_cast<std::int64_t>(random() % width);
    Range known = window[i];
    if (!whole && random() % 2 == 0) known.upper = Range::kMax;
    if (!whole && random() % 4 == 0) known.lower = Range::kMin;
    if (i < 2) {
      env.backed("s", truth[i], known);
    } else {
      env.unbacked("u", known, {"t.cpp", 1});
    }
  }
  for (auto a = window[0].lower; a <= window[0].upper; ++a) {
    for (auto b = window[1].lower; b <= window[1].upper; ++b) {
      for (auto c = window[2].lower; c <= window[2].upper; ++c) {
        for (auto d = window[3].lower; d <= window[3].upper; ++d) points.push_back({a, b, c, d});
      }
    }
  }
}

bool RandomTrace::say(const Predicate& p, bool as_branch) {
  const auto value = p.evaluate(valuation(truth));
  if (!value) return true;
  const Predicate holds = *value ? p : p.negated();
  try {
    if (!as_branch) {
      env.check(holds, {"t.cpp", 3});
    } else if (env.evaluate(p, {"t.cpp", 2}) != *value) {
      return false;
    }
  } catch (const DataDependentError&) {
    return true;
  } catch (const OverflowError&) {
    return true;
  } catch (const ConstraintError&) {
    return false;  // it holds at the truth, and so did all before it
  }
  said.push_back(holds);
  return true;
}

bool RandomTrace::promise(const Predicate& p) {
  const auto value = p.evaluate(valuation(truth));
  if (!value) return true;
  const Predicate holds = *value ? p : p.negated();
  try {
    env.declare(holds, {"t.cpp", 4});
  } catch (const OverflowError&) {
    return true;
  } catch (const ConstraintError&) {
    return false;  // it holds at the truth, and so did all before it
  }
  said.push_back(holds);
  return true;
}

bool RandomTrace::enters(const Values& values) const {
  const auto holds = [&](const auto& of) {
    return of.predicate.evaluate(valuation(values)) == true;
  };
  return std::all_of(env.declared().begin(), env.declared().end(), holds) &&
         std::all_of(env.guards().begin(), env.guards().end(), holds) &&
         std::all_of(env.deferred_asserts().begin(), env.deferred_asserts().end(), holds);
}

std::string RandomTrace::text() const {
  std::string out;
  for (const auto& p : said) out += p.text() + "; ";
  for (const auto& r : env.symbols()) {
    out += fmt::format("{} in {}..{}; ", r.symbol.name(), r.range.lower, r.range.upper);
  }
  return out;
}

Predicate random_small_predicate(std::mt19937_64& random) {
  for (;;) {
    try {
      int kind = 0;
      const int depth = random() % 4 == 0 ? 2 : 1;
      const Expr a = random_written(random, depth).expr();
      const Expr b = random_written(random, depth).expr();
      return random_predicate(random, a, b, kind);
    } catch (const OverflowError&) {
    }
  }
}

Fault fault_of_expression(std::uint64_t seed, Tally& tally) {
  std::mt19937_64 random(seed);
  constexpr std::array<std::int64_t, 9> kValues = {0, 1, -1, 2, 3, 5, -2, 7, 12};
  const Written written = random_written(random, random() % 3 == 0 ? 4 : 3);
  Expr e;
  try {
    e = written.expr();
  } catch (const OverflowError&) {
    return std::nullopt;
  }
  ++tally.expressions;
  const Range range = range_of(e);
  for (int i = 0; i < 6; ++i) {
    Values values;
    for (auto& v : values) v = kValues[random() % kValues.size()];
    const auto expected = written.value(values);
    if (!expected) continue;
    ++tally.values;
    if (e.evaluate(valuation(values)) != expected) {
      return fmt::format("`{}` is not {} at {}", e.text(), *expected, text_of(values));
    }
    if (!range.contains(*expected)) {
      return fmt::format("`{}` is outside its range at {}", e.text(), text_of(values));
    }
  }
  const auto back = parse_expr(e.text());
  if (!back || *back != e) return fmt::format("`{}` is not read back", e.text());
  if (e - e != Expr(0)) return fmt::format("`{}` minus itself is not zero", e.text());
  return std::nullopt;
}

Fault fault_of_trace(std::uint64_t seed, Tally& tally) {
  std::mt19937_64 random(seed);
  RandomTrace trace(random);
  const int facts = static_cast<int>(random() % 5);
  for (int i = 0; i < facts; ++i) {
    const Predicate p = random_small_predicate(random);
    const std::uint64_t how = random() % 5;
    if (!(how == 0 ? trace.promise(p) : trace.say(p, how % 2 == 0)))
      return fmt::format("`{}` was answered wrongly", p.text());
  }
  auto fault = fault_of_minimal_guards(trace);
  std::erase_if(trace.points, [&](const Values& v) { return !trace.enters(v); });
  if (!fault && trace.points.empty()) fault = "the truth does not get in";
  if (!fault) fault = fault_of_emission(trace);
  for (int i = 0; i < 12 && !fault; ++i) {
    const Predicate query = random_small_predicate(random);
    tally.expressions += 2;
    if (query.constant()) continue;
    try {
      fault = fault_of_query(trace, query, tally);
    } catch (const OverflowError&) {
    }
  }
  if (fault) *fault += "; given " + trace.text();
  return fault;
}

}  // namespace lockstep::shapes::testing
