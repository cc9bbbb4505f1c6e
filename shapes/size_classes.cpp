#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/shapes/box_cover.h>
#include <lockstep/shapes/expr/evaluation.h>
#include <lockstep/shapes/guard_set.h>
#include <lockstep/shapes/size_classes.h>

namespace lockstep::shapes {
namespace {

constexpr std::string_view kOutOfSteps =
    "the search for the next point takes more steps than it may";

Valuation values_of(const SizeBox& box, const SizePoint& point) {
  return [&box, &point](Symbol symbol) -> std::optional<std::int64_t> {
    for (std::size_t i = 0; i < box.sides.size(); ++i)
      if (box.sides[i].symbol == symbol) return point[i];
    return std::nullopt;
  };
}

bool holds(const std::vector<Guard>& guards, const Valuation& values) {
  return std::ranges::all_of(
      guards, [&](const Guard& guard) { return guard.predicate.evaluate(values) == true; });
}

std::optional<std::uint64_t> as_count(std::optional<Wide> points) {
  if (!points || *points > Wide{UINT64_MAX}) return std::nullopt;
  return static_cast<std::uint64_t>(*points);
}

/// Finds the question at which a point first differs from the earlier traces.
class Causes {
 public:
  Causes(const SizeBox& box, const std::vector<PointTrace>& traces,
         const std::vector<SizeClass>& classes)
      : box_(box), traces_(traces), classes_(classes) {}

  std::optional<SizeClass::Cause> of(const SizePoint& point) const {
    const Valuation values = values_of(box_, point);
    std::optional<SizeClass::Cause> out;
    std::size_t latest = 0;
    for (const PointTrace& trace : traces_) {
      for (std::size_t i = 0; i < trace.asked.size(); ++i) {
        const ShapeEnv::Asked& asked = trace.asked[i];
        if (!is_known(asked.predicate, values)) continue;
        const auto answer = asked.predicate.evaluate(values);
        if (answer == asked.answer) continue;
        if (!out || i > latest) out = cause_of(asked, answer);
        latest = std::max(latest, i);
        break;
      }
    }
    return out || classes_.empty() ? out : of_guard(classes_.back().guards, values);
  }

 private:
  static bool is_known(const Predicate& predicate, const Valuation& values) {
    const std::vector<Symbol> symbols = predicate.expr.symbols();
    return std::ranges::all_of(symbols, [&](Symbol symbol) { return values(symbol).has_value(); });
  }
  static SizeClass::Cause cause_of(const ShapeEnv::Asked& asked, std::optional<bool> answer) {
    const bool is = answer.value_or(asked.answer);
    return {is ? asked.predicate : asked.predicate.negated(), asked.where, !answer};
  }
  static std::optional<SizeClass::Cause> of_guard(const std::vector<Guard>& guards,
                                                  const Valuation& values) {
    for (const Guard& guard : guards) {
      const auto answer = guard.predicate.evaluate(values);
      if (answer != true) return cause_of({guard.predicate, true, guard.where}, answer);
    }
    return std::nullopt;
  }

  const SizeBox& box_;
  const std::vector<PointTrace>& traces_;
  const std::vector<SizeClass>& classes_;
};

/// Finds points outside all classes, by the search of BoxCover and by the caller's solver.
class Points {
 public:
  Points(const SizeBox& box, const SizeClassLimits& limits)
      : box_(box), limits_(limits), cover_(box, limits.steps) {}

  void add(const std::vector<Guard>& relied, const std::vector<Guard>& guards) {
    cover_.add(relied);
    classes_.push_back(guards);
  }
  SolvedPoint least() {
    if (!limits_.solver_only)
      if (SolvedPoint found = cover_.least(); found.point || found.none) return found;
    return limits_.solver ? limits_.solver(box_, classes_) : SolvedPoint{};
  }

 private:
  const SizeBox& box_;
  const SizeClassLimits& limits_;
  BoxCover cover_;
  std::vector<std::vector<Guard>> classes_;
};

/// The guards of the trace's class; if the class is not known, guards that only this point
/// satisfies.
std::vector<Guard> relied_at(const SizeBox& box, const SizePoint& point, const PointTrace& traced) {
  if (!traced.only_here && holds(traced.relied, values_of(box, point))) return traced.relied;
  std::vector<Guard> out;
  for (std::size_t i = 0; i < point.size(); ++i)
    out.push_back(
        {equal(Expr::symbol(box.sides[i].symbol), point[i]), traced.where, "known here only"});
  return out;
}

void count(const SizeBox& box, const std::vector<std::vector<Guard>>& relied, std::uint64_t steps,
           SizeClasses& out) {
  BoxCover cover(box, steps);
  out.points = as_count(cover.count(0));
  for (const std::vector<Guard>& guards : relied) cover.add(guards);
  for (std::size_t i = 0; i < relied.size(); ++i) out.classes[i].points = as_count(cover.count(i));
}

}  // namespace

namespace {

/// A guard that holds for the sizes at which a check behaves as it does at the hints. If the check
/// has no value at the hints, the trace goes on, and the check fails when the graph runs.
Guard relied_check(const ShapeEnv& env, const DeferredAssert& check) {
  const Valuation hints = [&](Symbol symbol) { return env.record(symbol).hint; };
  const auto divisor = zero_divisor(check.predicate.expr, hints);
  if (divisor) return {equal(*divisor, 0), check.where, "a check without a value"};
  return {check.predicate, check.where, "a check"};
}

}  // namespace

PointTrace point_trace(const ShapeEnv& env, std::optional<std::string> error) {
  PointTrace out{.relied = env.guards(),
                 .ranges = {},
                 .asked = env.asked(),
                 .error = std::move(error),
                 .where = {}};
  for (const auto& record : env.symbols()) out.ranges[record.symbol] = record.declared;
  for (const DeferredAssert& check : env.deferred_asserts())
    if (!check.predicate.expr.has_unbacked()) out.relied.push_back(relied_check(env, check));
  if (out.error && env.failed()) {
    const ShapeEnv::Failed& failed = *env.failed();
    out.where = failed.where;
    out.only_here = failed.only_here;
    if (failed.when) {
      out.relied.push_back({*failed.when, failed.where, "where it fails"});
      out.asked.push_back({*failed.when, true, failed.where});
    }
  }
  return out;
}

SizeClasses infer_size_classes(const SizeBox& box,
                               const std::function<PointTrace(const SizePoint&)>& trace,
                               const SizeClassLimits& limits) {
  SizeClasses out;
  std::vector<PointTrace> traces;
  std::vector<std::vector<Guard>> relied;
  Points points(box, limits);
  for (;;) {
    const SolvedPoint next = points.least();
    out.whole = next.none;
    if (!next.point) {
      if (!next.none) out.limit = kOutOfSteps;
      break;
    }
    if (out.classes.size() == limits.classes) {
      out.limit = fmt::format("there are more than {} classes", limits.classes);
      out.beyond = next.point;
      break;
    }
    auto cause = Causes(box, traces, out.classes).of(*next.point);
    traces.push_back(trace(*next.point));
    const PointTrace& traced = traces.back();
    relied.push_back(relied_at(box, *next.point, traced));
    out.classes.push_back({.guards = minimal_guards({traced.ranges, relied.back()}),
                           .example = *next.point,
                           .cause = std::move(cause),
                           .points = {},
                           .error = traced.error,
                           .where = traced.where});
    points.add(relied.back(), out.classes.back().guards);
  }
  count(box, relied, limits.steps, out);
  return out;
}

Served served_in(const SizeBox& box, const std::vector<Guard>& guards) {
  SizeBox part = box;
  for (const Guard& guard : guards) part.promised.push_back(guard.predicate);
  return unserved_in(part, {});
}

Served unserved_in(const SizeBox& box, const std::vector<std::vector<Guard>>& classes) {
  const std::uint64_t steps = SizeClassLimits{}.steps;
  BoxCover search(box, steps), counts(box, steps);
  for (const std::vector<Guard>& guards : classes) {
    search.add(guards);
    counts.add(guards);
  }
  const SolvedPoint least = search.least();
  return {least.point, as_count(counts.count(classes.size())), least.point || least.none};
}

std::string point_text(const SizeBox& box, const SizePoint& point, const Namer& namer) {
  std::string out;
  for (std::size_t i = 0; i < point.size(); ++i)
    out += fmt::format("{}{} = {}", i == 0 ? "" : ", ", namer(box.sides[i].symbol), point[i]);
  return out;
}

}  // namespace lockstep::shapes
