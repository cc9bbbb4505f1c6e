// A tour of sizes in a trace: symbols, guards, asserts, a dim that guards leave only one value,
// with the suggested fix, and classes of sizes. It uses the shape environment alone, without ranks
// and tensors.   usage: shapes_tour
#include <cstdio>

#include <lockstep/shapes/guard_set.h>
#include <lockstep/shapes/shape_env.h>
#include <lockstep/shapes/size_classes.h>

using namespace lockstep::shapes;

namespace {

constexpr Range kSize{2, Range::kMax}, kCount{0, Range::kMax};

void say(const char* what, const std::string& text) {
  std::printf("%-34s %s\n", what, text.c_str());
}

// The size questions of a small model: rows of tokens, padded to a multiple of 8, are sent to two
// experts with counts that are known only when the graph runs.
void model(ShapeEnv& env, const Expr& rows, const Expr& width) {
  // Computing with a size needs no guard, whatever the size is.
  const Expr padded = 8 * ceil_div(rows, 8);
  say("padded rows", env.simplify(padded).text(env.source_namer()));
  say("padded >= rows is", env.statically_true(greater_equal(padded, rows)) ? "proven" : "open");

  // A branch: the agreed example size decides, and a guard keeps out sizes with another answer.
  const bool small = env.evaluate(less(rows * width, 4096), {"model.cpp", 12});
  say("rows*width < 4096", small ? "taken, with a guard" : "not taken, with a guard");
  // A condition that the guard implies adds no guard.
  say("rows*width < 5000", env.statically_true(less(rows * width, 5000)) ? "proven by it" : "open");

  // Counts of the router are unbacked. A check states a condition that the graph tests when it
  // runs.
  const Expr first = env.unbacked("counts.tolist()[0]", kCount, {"model.cpp", 20});
  const Expr second = env.unbacked("counts.tolist()[1]", kCount, {"model.cpp", 20});
  env.check(equal(first + second, rows), {"model.cpp", 21}, "every row goes to one expert");
  say("counts[0] <= rows", env.statically_true(less_equal(first, rows)) ? "follows" : "open");

  // A branch on a count cannot be decided during the trace; the message says what to do instead.
  try {
    static_cast<void>(env.evaluate(equal(first, 0), {"model.cpp", 25}));
  } catch (const DataDependentError& error) {
    std::printf("\na branch on a count: %s\n", error.what());
  }
}

// A second model, whose branches depend on inputs only: small batches stay as they are, and the
// width of large batches must be a multiple of eight.
void second_model(ShapeEnv& env, const Expr& rows, const Expr& width) {
  if (env.evaluate(less(rows * width, 1024), {"model.cpp", 42})) return;
  env.check(equal(mod(width, 8), 0), {"model.cpp", 43}, "large batches have rows of eights");
}

// Finds the classes of sizes from 0 to 64, each of which one entry serves: traces the least point
// that is in no class so far, and takes the guards of that trace as the next class.
void classes() {
  const SizeBox box{{{{false, 0}, {0, 64}}, {{false, 1}, {0, 64}}}};
  const Namer names = [](Symbol s) { return s.serial == 0 ? "tokens.size(0)" : "tokens.size(1)"; };
  const auto trace = [](const SizePoint& point) {
    ShapeEnv env;
    const Expr rows = env.backed("tokens.size(0)", point[0], {0, Range::kMax});
    const Expr width = env.backed("tokens.size(1)", point[1], {0, Range::kMax});
    try {
      second_model(env, rows, width);
    } catch (const ConstraintError& error) {
      return point_trace(env, error.what());
    }
    return point_trace(env);
  };
  const SizeClasses found = infer_size_classes(box, trace);
  std::printf("\n%zu classes of sizes from 0 to 64%s\n", found.classes.size(),
              found.whole ? "" : ", and more");
  for (const SizeClass& one : found.classes) {
    std::printf("%s: %llu of %llu points, the first %s\n", one.error ? "error" : "ok",
                static_cast<unsigned long long>(one.points.value_or(0)),
                static_cast<unsigned long long>(found.points.value_or(0)),
                point_text(box, one.example, names).c_str());
    for (const Guard& guard : one.guards)
      say(("  from " + guard.where.text()).c_str(), guard.predicate.text(names));
    if (one.cause)
      say(("  caused by " + one.cause->where.text()).c_str(), one.cause->predicate.text(names));
  }
}

}  // namespace

int main() {
  ShapeEnv env;
  // Sizes that the ranks agreed to keep symbolic, with one rank's sizes as the example for all.
  const Expr rows = env.backed("tokens.size(0)", 13, kSize, Constraint::Varies);
  const Expr width = env.backed("tokens.size(1)", 64, kSize);
  model(env, rows, width);

  // A dim that the user marked dynamic must keep more than one value. Two guards together break
  // this.
  try {
    static_cast<void>(env.evaluate(greater_equal(rows, 13), {"model.cpp", 30}));
    static_cast<void>(env.evaluate(less(rows, 14), {"model.cpp", 31}));
  } catch (const ConstraintError& error) {
    std::printf("\na pinned dim: %s\n", error.what());
  }

  // The conditions of the entry: guards on inputs, asserts in the graph.
  std::printf("\n");
  GuardSet entry{{}, env.guards()};
  for (const auto& record : env.symbols()) entry.ranges[record.symbol] = record.declared;
  for (const Guard& guard : minimal_guards(entry))
    say(("guard from " + guard.where.text()).c_str(), guard.predicate.text(env.source_namer()));
  for (const DeferredAssert& a : env.deferred_asserts())
    say(("assert from " + a.where.text()).c_str(), a.predicate.text(env.source_namer()));
  classes();
  return 0;
}
