// The classes of sizes that a traced program distinguishes, as a cover of a box. The least point in
// no class so far is traced; the guards and checks of that trace are the next class. Used by
// `lockstep infer` and tests; no decision depends on it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>
#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {

/// One value per side of a box, in the order of the sides.
using SizePoint = std::vector<std::int64_t>;

/// A box of sizes. Requires bounded ranges.
struct SizeBox {
  struct Side {
    Symbol symbol;
    Range range;
  };
  std::vector<Side> sides;
  /// Conditions that hold in every call: points that break a condition are left out.
  std::vector<Predicate> promised{};
};

/// The result of a trace at one point.
struct PointTrace {
  /// Points that satisfy these guards give the same trace. The guards mention only sides of the
  /// box.
  std::vector<Guard> relied;
  std::map<Symbol, Range> ranges;  // declared ranges of the symbols
  /// Every question in order. Shows the line at which the point of a later class branches
  /// differently.
  std::vector<ShapeEnv::Asked> asked;
  std::optional<std::string> error;  // why the trace failed
  Location where;                    // line of the error
  bool only_here = false;            // it is not known which other points give the same trace
};
/// The result of a trace that has ended; `error` says why it failed. Checks of sizes are in
/// `relied`, too.
[[nodiscard]] PointTrace point_trace(const ShapeEnv& env, std::optional<std::string> error = {});

struct SizeClass {
  /// A minimal set of the guards in PointTrace::relied. If the class of the trace is not known,
  /// they admit only its point.
  std::vector<Guard> guards;
  SizePoint example;  // the least point in no earlier class
  /// Why the example is in no earlier class. Each earlier class has a first question that the
  /// example answers differently; the cause is the latest of these questions, with the example's
  /// answer. nullopt for the first class.
  struct Cause {
    Predicate predicate;
    Location where;
    bool no_value = false;  // the predicate has no value for the example
  };
  std::optional<Cause> cause;
  /// Number of points of the box in this class and in no earlier class; nullopt: not counted.
  std::optional<std::uint64_t> points;
  std::optional<std::string> error;
  Location where;  // line of the error
};

/// Result of a search for the least point of a box that lies in no class.
struct SolvedPoint {
  std::optional<SizePoint> point;
  bool none = false;  // there is no such point. If neither field is set, nothing is known
};
using PointSolver =
    std::function<SolvedPoint(const SizeBox& box, const std::vector<std::vector<Guard>>& classes)>;

struct SizeClassLimits {
  std::size_t classes = 64;
  std::uint64_t steps =
      10'000'000;  // predicates that the search may examine; counting may examine as many
  /// Used when the search has no steps left. Must find the same points. Tests pass point_solver().
  PointSolver solver{};
  bool solver_only = false;  // no search; for tests
};

struct SizeClasses {
  std::vector<SizeClass> classes;       // if two overlap, a point in both belongs to the first
  bool whole = false;                   // every point of the box is in a class
  std::string limit;                    // why not `whole`: "there are more than 64 classes"
  std::optional<SizePoint> beyond;      // the least point in no class, if known
  std::optional<std::uint64_t> points;  // number of points of the box that satisfy `promised`
};

/// Calls `trace` once per class, in the order of the classes.
[[nodiscard]] SizeClasses infer_size_classes(
    const SizeBox& box, const std::function<PointTrace(const SizePoint&)>& trace,
    const SizeClassLimits& limits = {});

/// The least point of the box that satisfies all guards and `promised`, and the number of such
/// points.
struct Served {
  std::optional<SizePoint> example;
  std::optional<std::uint64_t> points;  // nullopt: the points were not counted
  bool known = true;                    // false: the steps ran out
};
[[nodiscard]] Served served_in(const SizeBox& box, const std::vector<Guard>& guards);
/// As served_in(), for the points that lie in no class.
[[nodiscard]] Served unserved_in(const SizeBox& box,
                                 const std::vector<std::vector<Guard>>& classes);

/// "x.size(0) = 0, x.size(1) = 3"
[[nodiscard]] std::string point_text(const SizeBox& box, const SizePoint& point,
                                     const Namer& namer);

}  // namespace lockstep::shapes
