// The prover against exhaustive search: what a shape environment proves or simplifies must hold at
// every point that satisfies the ranges, the guards and the asserts.
#include <algorithm>

#include "random_expr.h"
#include <gtest/gtest.h>

#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {
namespace {

using testing::kSymbols;
using testing::random_predicate;
using testing::random_written;
using testing::valuation;
using testing::Values;

struct Trace {
  ShapeEnv env;
  std::vector<Predicate> said;  // as asked, made true
  std::vector<Values> points;   // of the ranges
  Values truth{};

  [[nodiscard]] std::string text() const {
    std::string out;
    for (const auto& p : said) out += p.text() + "; ";
    for (const auto& r : env.symbols()) {
      out += r.symbol.name() + " in " + std::to_string(r.range.lower) + ".." +
             std::to_string(r.range.upper) + "; ";
    }
    return out;
  }

  explicit Trace(std::mt19937_64& random) {
    std::array<Range, kSymbols> window;
    for (std::size_t i = 0; i < kSymbols; ++i) {
      window[i].lower = static_cast<std::int64_t>(random() % 5) - 2;
      window[i].upper = window[i].lower + static_cast<std::int64_t>(random() % 5);
      const auto width = static_cast<std::uint64_t>(window[i].upper - window[i].lower + 1);
      truth[i] = window[i].lower + static_cast<std::int64_t>(random() % width);
      Range known = window[i];
      if (random() % 2 == 0) known.upper = Range::kMax;
      if (random() % 4 == 0) known.lower = Range::kMin;
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

  // A branch or a check that is true at `truth`, and so can be part of a right program.
  void say(const Predicate& p, bool as_branch) {
    const auto value = p.evaluate(valuation(truth));
    if (!value) return;
    const Predicate holds = *value ? p : p.negated();
    try {
      if (as_branch) {
        ASSERT_EQ(env.evaluate(p, {"t.cpp", 2}), *value) << p.text();
      } else {
        env.check(holds, {"t.cpp", 3});
      }
    } catch (const DataDependentError&) {
      return;
    }
    said.push_back(holds);
  }

  // Whether a run at that point gets past the look-up and the asserts.
  [[nodiscard]] bool enters(const Values& v) const {
    const auto holds = [&](const auto& said_by) {
      return said_by.predicate.evaluate(valuation(v)) == true;
    };
    return std::all_of(env.guards().begin(), env.guards().end(), holds) &&
           std::all_of(env.deferred_asserts().begin(), env.deferred_asserts().end(), holds);
  }
};

TEST(Prover, RandomFactsAndQueries_AreNeverWrong) {
  const std::uint64_t seed = 31337;
  std::mt19937_64 random(seed);
  int proven = 0, open = 0, decidable = 0;
  const auto predicate = [&] {
    for (;;) {
      try {
        int kind = 0;
        const int depth = random() % 4 == 0 ? 2 : 1;
        const Expr a = random_written(random, depth).expr(),
                   b = random_written(random, depth).expr();
        return random_predicate(random, a, b, kind);
      } catch (const OverflowError&) {
      }
    }
  };
  for (int round = 0; round < 2500; ++round) {
    Trace trace(random);
    const int facts = static_cast<int>(random() % 4);
    for (int i = 0; i < facts; ++i) trace.say(predicate(), random() % 2 == 0);
    std::erase_if(trace.points, [&](const Values& v) { return !trace.enters(v); });
    ASSERT_FALSE(trace.points.empty());
    for (int i = 0; i < 12; ++i) {
      const Predicate query = predicate();
      if (query.constant()) continue;
      const auto answer = trace.env.prove(query);
      const Expr e = query.expr, simple = trace.env.simplify(e);
      const Range range = trace.env.range(e);
      bool seen_true = false, seen_false = false;
      for (const Values& v : trace.points) {
        const auto value = query.evaluate(valuation(v));
        if (!value) continue;
        (*value ? seen_true : seen_false) = true;
        ASSERT_TRUE(!answer || *answer == *value)
            << "seed " << seed << ", round " << round << ": " << query.text() << " proven "
            << *answer << " at " << v[0] << " " << v[1] << " " << v[2] << " " << v[3] << " given "
            << trace.text();
        ASSERT_EQ(simple.evaluate(valuation(v)), e.evaluate(valuation(v)))
            << "seed " << seed << ", round " << round << ": " << e.text() << " became "
            << simple.text() << " given " << trace.text();
        ASSERT_TRUE(range.contains(*e.evaluate(valuation(v))))
            << "seed " << seed << ": " << e.text();
      }
      ++(answer ? proven : open);
      if (!answer && seen_true != seen_false) ++decidable;
    }
    for (const auto& guard : trace.env.guards()) {
      ASSERT_FALSE(guard.predicate.expr.has_unbacked());
      ASSERT_EQ(guard.predicate.evaluate(valuation(trace.truth)), true) << guard.predicate.text();
    }
  }
  // Of the open ones, those that one answer would fit at every point of the small window.
  std::printf("seed %llu: %d proven, %d unknown, of which %d look decided in the window\n",
              static_cast<unsigned long long>(seed), proven, open, decidable);
  EXPECT_GT(proven, 5000);
}

// Guards and asserts together say what was asked: at every point of the ranges where they hold,
// each branch goes the way that it went in the trace.
TEST(Prover, GuardsAndAsserts_ImplyEveryBranchTaken) {
  const std::uint64_t seed = 808;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    Trace trace(random);
    for (int i = 0; i < 4; ++i) {
      try {
        int kind = 0;
        const Expr a = random_written(random, 1).expr(), b = random_written(random, 1).expr();
        trace.say(random_predicate(random, a, b, kind), i % 2 == 0);
      } catch (const OverflowError&) {
      }
    }
    for (const Values& v : trace.points) {
      if (!trace.enters(v)) continue;
      for (const auto& p : trace.said) {
        ASSERT_TRUE(p.evaluate(valuation(v)).value_or(true))
            << "seed " << seed << ", round " << round << ": " << p.text();
      }
    }
  }
}

TEST(Prover, SameQuestions_SameAnswers) {
  std::array<std::string, 2> logs;
  for (auto& log : logs) {
    std::mt19937_64 random(5);
    for (int round = 0; round < 200; ++round) {
      Trace trace(random);
      for (int i = 0; i < 3; ++i) {
        int kind = 0;
        const Expr a = random_written(random, 2).expr(), b = random_written(random, 1).expr();
        trace.say(random_predicate(random, a, b, kind), i % 2 == 0);
      }
      for (const auto& guard : trace.env.guards()) log += guard.predicate.text() + ";";
      for (const auto& a : trace.env.deferred_asserts()) log += a.predicate.text() + ";";
      for (const auto& [s, e] : trace.env.replacements()) log += s.name() + "=" + e.text() + ";";
    }
  }
  EXPECT_EQ(logs[0], logs[1]);
  EXPECT_GT(logs[0].size(), 1000u);
}

}  // namespace
}  // namespace lockstep::shapes
