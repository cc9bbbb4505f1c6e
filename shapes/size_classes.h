// The classes of sizes that a traced program tells apart, as a cover of a box. The least point in
// no class so far is traced; the guards and checks of that trace are the next class. For `lockstep
// infer` and tests: no decision calls it.
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

/// One value per side of a box, in its order.
using SizePoint = std::vector<std::int64_t>;

/// A box of sizes. Requires bounded ranges.
struct SizeBox {
  struct Side {
    Symbol symbol;
    Range range;
  };
  std::vector<Side> sides;
  /// Conditions that hold in every call: points that break one are left out.
  std::vector<Predicate> promised{};
};

/// The result of a trace at one point.
struct PointTrace {
  /// All points that satisfy these guards are traced alike. They mention sides of the box only.
  std::vector<Guard> relied;
  std::map<Symbol, Range> ranges;  // as declared, of their symbols
  /// Every question in order; a later search finds in it the line at which another point branches
  /// differently.
  std::vector<ShapeEnv::Asked> asked;
  std::optional<std::string> error;  // why the trace failed
  Location where;                    // its line
  bool only_here = false;            // it is not known which other points are traced alike
};
/// The result of an ended trace; `error`: why it failed. The checks of sizes are in `relied`.
[[nodiscard]] PointTrace point_trace(const ShapeEnv& env, std::optional<std::string> error = {});

struct SizeClass {
  /// A minimal set of the guards relied on. If the class of the trace is not known: its point
  /// alone.
  std::vector<Guard> guards;
  SizePoint example;  // the least that is in no earlier class
  /// Why the example is in no earlier class. Each earlier class has a first question that the
  /// example answers differently; this is the latest of them, with the example's answer. nullopt
  /// for the first class.
  struct Cause {
    Predicate predicate;
    Location where;
    bool no_value = false;  // the predicate has no value for the example
  };
  std::optional<Cause> cause;
  /// Number of points of the box in this class and in no earlier class; nullopt: not counted.
  std::optional<std::uint64_t> points;
  std::optional<std::string> error;
  Location where;  // of the error
};

/// Result of a search for the least point of a box that lies in no class.
struct SolvedPoint {
  std::optional<SizePoint> point;
  bool none = false;  // no such point; neither field set: not known
};
using PointSolver =
    std::function<SolvedPoint(const SizeBox& box, const std::vector<std::vector<Guard>>& classes)>;

struct SizeClassLimits {
  std::size_t classes = 64;
  std::uint64_t steps =
      10'000'000;  // predicates examined by the search; counting has its own limit
  /// Used when the search is out of steps (point_solver() of solver_search.h); it finds the same
  /// points.
  PointSolver solver{};
  bool solver_only = false;  // no search; for tests
};

struct SizeClasses {
  std::vector<SizeClass> classes;       // if two overlap, the point belongs to the first
  bool whole = false;                   // every point of the box is in a class
  std::string limit;                    // why it is not whole: "64 classes"
  std::optional<SizePoint> beyond;      // the least point in no class, if known
  std::optional<std::uint64_t> points;  // of the box, without those that break `promised`
};

/// `trace` is called once per class, in their order.
[[nodiscard]] SizeClasses infer_size_classes(
    const SizeBox& box, const std::function<PointTrace(const SizePoint&)>& trace,
    const SizeClassLimits& limits = {});

/// The least point of the box that satisfies all guards and `promised`, and the number of such
/// points.
struct Served {
  std::optional<SizePoint> example;
  std::optional<std::uint64_t> points;  // nullopt: not counted
  bool known = true;                    // false: out of steps
};
[[nodiscard]] Served served_in(const SizeBox& box, const std::vector<Guard>& guards);
/// As served_in(), for the points that lie in no class.
[[nodiscard]] Served unserved_in(const SizeBox& box,
                                 const std::vector<std::vector<Guard>>& classes);

/// "x.size(0) = 0, x.size(1) = 3"
[[nodiscard]] std::string point_text(const SizeBox& box, const SizePoint& point,
                                     const Namer& namer);

}  // namespace lockstep::shapes
