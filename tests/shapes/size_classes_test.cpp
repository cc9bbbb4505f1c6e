// Classes of sizes against every point of a box.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>

#include <gtest/gtest.h>

#include <lockstep/shapes/size_classes.h>
#include "validation/solver_search.h"

namespace lockstep::shapes::size_classes_test {
namespace {

constexpr Range kSize{0, Range::kMax};

Expr symbol_at(std::size_t i) { return Expr::symbol({false, static_cast<std::uint32_t>(i)}); }

SizeBox box_of(std::size_t sides, std::int64_t low, std::int64_t high) {
  SizeBox out;
  for (std::size_t i = 0; i < sides; ++i)
    out.sides.push_back({{false, static_cast<std::uint32_t>(i)}, {low, high}});
  return out;
}

/// A program of sizes, in the manner of a traced function.
using Program = std::function<void(ShapeEnv&, const std::vector<Expr>&)>;

struct Traced {
  PointTrace trace;
  std::string outcome;  // what it did, without the numbers of this point
};

Traced trace_at(const Program& program, const SizePoint& point,
                Constraint first = Constraint::None) {
  ShapeEnv env;
  std::vector<Expr> sizes;
  for (std::size_t i = 0; i < point.size(); ++i)
    sizes.push_back(env.backed("x.size(" + std::to_string(i) + ")", point[i], kSize,
                               i == 0 ? first : Constraint::None));
  std::optional<std::string> error;
  std::string outcome = "ok";
  const auto failed = [&](const char* kind, const std::exception& thrown) {
    error = thrown.what();
    outcome = kind;
    if (env.failed()) outcome += " at " + env.failed()->where.text();
  };
  try {
    program(env, sizes);
  } catch (const DataDependentError& thrown) {
    failed("data", thrown);
  } catch (const ConstraintError& thrown) {
    failed("constraint", thrown);
  } catch (const std::runtime_error& thrown) {
    failed(thrown.what(), thrown);
  }
  for (const auto& asked : env.asked())
    outcome += "; " + asked.where.text() + (asked.answer ? "+" : "-");
  return {point_trace(env, error), outcome};
}

SizeClasses infer(const Program& program, const SizeBox& box, SizeClassLimits limits = {}) {
  return infer_size_classes(
      box, [&](const SizePoint& point) { return trace_at(program, point).trace; }, limits);
}

bool has(const SizeClass& one, const SizePoint& point) {
  return std::ranges::all_of(one.guards, [&](const Guard& guard) {
    return guard.predicate.evaluate([&](Symbol s) -> std::optional<std::int64_t> {
      return s.unbacked ? std::nullopt : std::optional(point.at(s.serial));
    }) == true;
  });
}

/// The points in lexicographic order.
std::vector<SizePoint> points_of(const SizeBox& box) {
  std::vector<SizePoint> out;
  SizePoint point;
  for (const auto& side : box.sides) point.push_back(side.range.lower);
  for (;;) {
    out.push_back(point);
    std::size_t i = point.size();
    while (i > 0 && point[i - 1] == box.sides[i - 1].range.upper) --i;
    if (i == 0) return out;
    ++point[i - 1];
    for (; i < point.size(); ++i) point[i] = box.sides[i].range.lower;
  }
}

std::string text_of(const SizeClasses& classes) {
  const auto named = [](Symbol s) { return s.name(); };
  std::string out;
  for (const SizeClass& one : classes.classes) {
    for (const std::int64_t value : one.example) out += std::to_string(value) + " ";
    for (const Guard& guard : one.guards)
      out += "| " + guard.predicate.text(named) + " " + guard.where.text();
    if (one.cause)
      out += " because " + one.cause->predicate.text(named) + " " + one.cause->where.text();
    out += one.points ? " of " + std::to_string(*one.points) : "";
    out += " " + one.error.value_or("ok") + "\n";
  }
  return out + classes.limit;
}

/// A tree of questions: each node asks something of the sizes, and goes on by the answer.
class RandomProgram {
 public:
  RandomProgram(std::mt19937_64& random, std::size_t sizes, int depth)
      : sizes_(sizes), root_(grow(random, depth)) {}

  void operator()(ShapeEnv& env, const std::vector<Expr>& sizes) const {
    const Expr count = env.unbacked("count", kSize, {"p.cpp", 1});
    for (const Node* at = root_.get(); at != nullptr;) {
      const Location where{"p.cpp", at->line};
      const Predicate p = instance(at->predicate, sizes);
      switch (at->kind) {
        case Kind::Branch:
          at = (env.evaluate(p, where) ? at->yes : at->no).get();
          break;
        case Kind::Check:
          env.check(p, where);
          at = at->yes.get();
          break;
        case Kind::Number:
          at = (env.to_int(p.expr, where) % 2 == 0 ? at->yes : at->no).get();
          break;
        case Kind::Throw:
          throw std::runtime_error("thrown at " + std::to_string(at->line));
        case Kind::Count:  // open unless the coefficient is zero
          at = (env.evaluate(equal(p.expr * count, 0), where) ? at->yes : at->no).get();
          break;
      }
    }
  }

 private:
  enum class Kind { Branch, Check, Number, Throw, Count };
  struct Node {
    Kind kind = Kind::Branch;
    Predicate predicate;
    std::uint32_t line = 0;
    std::unique_ptr<Node> yes, no;
  };

  static Predicate instance(const Predicate& p, const std::vector<Expr>& sizes) {
    std::map<Symbol, Expr> to;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      to[{false, static_cast<std::uint32_t>(i)}] = sizes[i];
    return p.substitute(to);
  }

  Predicate predicate(std::mt19937_64& random) {
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
    };
    const auto size = [&] {
      return symbol_at(static_cast<std::size_t>(below(static_cast<std::int64_t>(sizes_))));
    };
    const Expr a = size(), b = size();
    Expr e;
    switch (below(8)) {
      case 0:
        e = a - below(5);
        break;
      case 1:
        e = a - b + below(3) - 1;
        break;
      case 2:
        e = mod(a + below(3), 2 + below(3)) - below(2);
        break;
      case 3:
        e = a * b - below(9);
        break;
      case 4:
        e = floor_div(a + 1, b) - below(3);
        break;
      case 5:
        e = mod(a, b) - below(2);
        break;
      case 6:
        e = max(a, b) - min(a, 2) - below(3);
        break;
      default:
        e = 2 * a + b - size() - below(4);
    }
    const auto relation = static_cast<Predicate::Relation>(below(3));
    return predicate_of(relation, below(2) == 0 ? e : -e);
  }

  std::unique_ptr<Node> grow(std::mt19937_64& random, int depth) {
    if (depth == 0 || random() % 8 == 0) return nullptr;
    auto out = std::make_unique<Node>();
    out->line = ++lines_ + 1;
    const auto choice = random() % 16;
    out->kind = choice < 10   ? Kind::Branch
                : choice < 13 ? Kind::Check
                : choice < 14 ? Kind::Number
                : choice < 15 ? Kind::Count
                              : Kind::Throw;
    out->predicate = predicate(random);
    out->yes = grow(random, depth - 1);
    out->no = grow(random, depth - 1);
    return out;
  }

  std::size_t sizes_;
  std::uint32_t lines_ = 0;
  std::unique_ptr<Node> root_;
};

/// Every claim about the classes, looked at point by point.
void expect_right(const SizeClasses& classes, const SizeBox& box,
                  const std::function<std::string(const SizePoint&)>& outcome) {
  ASSERT_TRUE(classes.whole) << classes.limit;
  std::vector<std::uint64_t> counts(classes.classes.size(), 0);
  std::vector<std::string> outcomes;
  for (const SizeClass& one : classes.classes) outcomes.push_back(outcome(one.example));
  for (const SizePoint& point : points_of(box)) {
    const auto first = std::ranges::find_if(classes.classes,
                                            [&](const SizeClass& one) { return has(one, point); });
    ASSERT_NE(first, classes.classes.end()) << ::testing::PrintToString(point);
    const auto i = static_cast<std::size_t>(first - classes.classes.begin());
    if (counts[i]++ == 0) {
      EXPECT_EQ(first->example, point);
    }
    EXPECT_EQ(outcomes[i], outcome(point)) << ::testing::PrintToString(point);
    EXPECT_EQ(1, std::ranges::count_if(classes.classes,
                                       [&](const SizeClass& one) { return has(one, point); }))
        << ::testing::PrintToString(point);
  }
  for (std::size_t i = 0; i < counts.size(); ++i) EXPECT_EQ(classes.classes[i].points, counts[i]);
  for (std::size_t i = 1; i < classes.classes.size(); ++i)
    EXPECT_LT(classes.classes[i - 1].example, classes.classes[i].example);
}

/// The cause parts the example from an earlier class, at the line that the program asks it.
void expect_causes(const SizeClasses& classes) {
  for (std::size_t i = 0; i < classes.classes.size(); ++i) {
    const SizeClass& one = classes.classes[i];
    ASSERT_EQ(one.cause.has_value(), i > 0);
    if (!one.cause) continue;
    const auto value = one.cause->predicate.evaluate(
        [&](Symbol s) { return std::optional(one.example.at(s.serial)); });
    EXPECT_EQ(value.has_value(), !one.cause->no_value);
    EXPECT_NE(value, false);
    EXPECT_GT(one.cause->where.line, 1U);
  }
}

TEST(SizeClasses, RandomPrograms_EveryPointIsInTheClassThatItsTraceIs) {
  constexpr std::uint64_t kSeed = 20261123;
  RecordProperty("seed", std::to_string(kSeed));
  std::size_t classes_seen = 0, errors = 0, same = 0;
  for (std::uint64_t run = 0; run < 400 && !HasFailure(); ++run) {
    SCOPED_TRACE("seed " + std::to_string(kSeed + run));
    std::mt19937_64 random(kSeed + run);
    const std::size_t sizes = 2 + run % 2;
    const RandomProgram program(random, sizes, 4);
    const Constraint first = run % 5 == 0 ? Constraint::Varies : Constraint::None;
    const SizeBox box = box_of(sizes, 0, sizes == 2 ? 7 : 4);
    const auto traced = [&](const SizePoint& point) {
      return trace_at(std::cref(program), point, first);
    };
    const auto trace = [&](const SizePoint& point) { return traced(point).trace; };
    const SizeClasses classes = infer_size_classes(box, trace);
    expect_right(classes, box, [&](const SizePoint& point) { return traced(point).outcome; });
    expect_causes(classes);
    classes_seen += classes.classes.size();
    for (const SizeClass& one : classes.classes) errors += one.error.has_value();
    if (run % 10 != 0 || !point_solver()) continue;
    SizeClassLimits by_solver{.solver = point_solver(), .solver_only = true};
    EXPECT_EQ(text_of(infer_size_classes(box, trace, by_solver)), text_of(classes));
    ++same;
  }
  RecordProperty("classes", static_cast<int>(classes_seen));
  EXPECT_GT(classes_seen, 1500U);
  EXPECT_GT(errors, 200U);
  EXPECT_EQ(same > 0, bool(point_solver()));
}

void model(ShapeEnv& env, const std::vector<Expr>& x) {
  if (env.evaluate(less(x[0] * x[1], 4096), {"m.cpp", 12}))
    env.check(equal(mod(x[0], 2), 0), {"m.cpp", 13}, "pairs");
}

TEST(SizeClasses, BranchAndCheck_AreTold) {
  const SizeClasses classes = infer(model, box_of(2, 0, 64));
  ASSERT_TRUE(classes.whole);
  ASSERT_EQ(classes.classes.size(), 3U) << text_of(classes);
  EXPECT_EQ(classes.classes[0].example, (SizePoint{0, 0}));
  EXPECT_EQ(classes.classes[0].guards.back().note, "a check");
  EXPECT_EQ(classes.classes[1].example, (SizePoint{1, 0}));
  EXPECT_EQ(classes.classes[1].where.text(), "m.cpp:13");
  EXPECT_EQ(classes.classes[1].cause->where.text(), "m.cpp:13");
  EXPECT_EQ(classes.classes[2].example, (SizePoint{64, 64}));
  EXPECT_EQ(classes.classes[2].cause->where.text(), "m.cpp:12");
  EXPECT_EQ(classes.points, 65U * 65U);
  EXPECT_EQ(classes.classes[2].points, 1U);
}

TEST(SizeClasses, PointsWithoutAValue_AreAClassOfTheirOwn) {
  const auto divide = [](ShapeEnv& env, const std::vector<Expr>& x) {
    (void)env.evaluate(equal(mod(x[0], x[1]), 0), {"m.cpp", 3});
  };
  const SizeClasses classes = infer(divide, box_of(2, 0, 9));
  ASSERT_TRUE(classes.whole);
  ASSERT_EQ(classes.classes.size(), 3U) << text_of(classes);
  EXPECT_TRUE(classes.classes[0].error);
  EXPECT_EQ(classes.classes[0].points, 10U);
  EXPECT_FALSE(classes.classes[1].error);
}

TEST(SizeClasses, PromisedRelations_LeaveOtherPointsOut) {
  SizeBox box = box_of(2, 0, 64);
  box.promised.push_back(equal(symbol_at(1), 2 * symbol_at(0)));
  const auto halves = [](ShapeEnv& env, const std::vector<Expr>& x) {
    env.declare(equal(x[1], 2 * x[0]), {"m.cpp", 1});
    (void)env.evaluate(less(x[0], 10), {"m.cpp", 2});
  };
  const SizeClasses classes = infer(halves, box);
  ASSERT_TRUE(classes.whole);
  ASSERT_EQ(classes.classes.size(), 2U) << text_of(classes);
  EXPECT_EQ(classes.points, 33U);
  EXPECT_EQ(classes.classes[1].example, (SizePoint{10, 20}));
}

/// Six sizes that are tied to each other at both ends, and sums over all of them.
void six(ShapeEnv& env, const std::vector<Expr>& x) {
  (void)env.evaluate(less(x[0], x[5]), {"m.cpp", 1});
  (void)env.evaluate(equal(x[1] + x[2], x[3] + x[4]), {"m.cpp", 2});
  if (env.evaluate(equal(mod(x[4] * 3, 8), 0), {"m.cpp", 3}))
    env.check(less_equal(x[4] + x[5], 100), {"m.cpp", 4});
}

TEST(SizeClasses, SixSizesUpTo64_TakeSeconds) {
  const auto before = std::chrono::steady_clock::now();
  const SizeClasses classes = infer(six, box_of(6, 0, 64));
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(8));
  ASSERT_TRUE(classes.whole) << text_of(classes);
  EXPECT_EQ(classes.classes.size(), 12U) << text_of(classes);
  std::uint64_t points = 0;
  for (const SizeClass& one : classes.classes) points += one.points.value_or(0);
  EXPECT_EQ(points, 65ULL * 65 * 65 * 65 * 65 * 65);
}

TEST(SizeClasses, Limits_AreSaid) {
  const auto each = [](ShapeEnv& env, const std::vector<Expr>& x) {
    (void)env.to_int(x[0], {"m.cpp", 1});
  };
  const SizeClasses few = infer(each, box_of(1, 0, 64), {.classes = 5});
  EXPECT_FALSE(few.whole);
  EXPECT_EQ(few.limit, "there are more than 5 classes");
  EXPECT_EQ(few.beyond, (SizePoint{5}));
  const SizeClasses spent = infer(six, box_of(6, 0, 64), {.steps = 50});
  EXPECT_FALSE(spent.whole);
  EXPECT_NE(spent.limit.find("more steps"), std::string::npos);
}

TEST(SizeClasses, SolverTakesOver_WithTheSamePoints) {
  const auto corner = [](ShapeEnv& env, const std::vector<Expr>& x) {
    (void)env.evaluate(less(x[0] + x[1], 100), {"m.cpp", 1});
  };
  const SizeClasses all = infer(corner, box_of(2, 0, 64));
  const SizeClasses taken = infer(corner, box_of(2, 0, 64), {.steps = 1, .solver = point_solver()});
  ASSERT_EQ(taken.whole, static_cast<bool>(point_solver()));
  if (!taken.whole) return;  // built without Z3
  ASSERT_EQ(taken.classes.size(), all.classes.size());
  for (std::size_t i = 0; i < all.classes.size(); ++i)
    EXPECT_EQ(taken.classes[i].example, all.classes[i].example);
}

TEST(SizeClasses, ServedIn_CountsAndFindsTheLeast) {
  const Served some = served_in(box_of(2, 0, 64), {{less(symbol_at(1), symbol_at(0)), {}}});
  EXPECT_EQ(some.example, (SizePoint{1, 0}));
  EXPECT_EQ(some.points, 65U * 64U / 2);
  const Served none = served_in(box_of(1, 0, 64), {{greater(symbol_at(0), 64), {}}});
  EXPECT_FALSE(none.example);
  EXPECT_TRUE(none.known);
  EXPECT_EQ(none.points, 0U);
}

}  // namespace
}  // namespace lockstep::shapes::size_classes_test
