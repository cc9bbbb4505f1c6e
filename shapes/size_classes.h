// The classes of sizes that a traced program tells apart, as a cover of a box: the least point in
// no class so far is traced, and what that trace relies on is the next class. Called by those who
// ask, never by anything that decides.
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

/// The sizes asked about. Requires bounded ranges.
struct SizeBox {
  struct Side {
    Symbol symbol;
    Range range;
  };
  std::vector<Side> sides;
  /// What holds in every call: other points are not asked about.
  std::vector<Predicate> promised{};
};

/// What a trace at one point came to.
struct PointTrace {
  /// Points that satisfy all of these are traced alike. About the sides of the box only.
  std::vector<Guard> relied;
  std::map<Symbol, Range> ranges;  // as declared, of their symbols
  /// Every question in order: for the line at which another point goes another way.
  std::vector<ShapeEnv::Asked> asked;
  std::optional<std::string> error;  // why the trace failed
  Location where;                    // its line
  bool only_here = false;            // which other points are traced alike is not known
};
/// Of a trace that has ended, with that error or without. Checks of sizes count as relied upon.
[[nodiscard]] PointTrace point_trace(const ShapeEnv& env, std::optional<std::string> error = {});

struct SizeClass {
  /// Of what is relied upon, no more than needed. Of a trace whose class is not known: the point.
  std::vector<Guard> guards;
  SizePoint example;  // the least that is in no earlier class
  /// The first question, in an earlier class, that the example answers otherwise, as it is for the
  /// example; the latest of such over those classes. nullopt for the first class.
  struct Cause {
    Predicate predicate;
    Location where;
    bool no_value = false;  // the predicate has none for the example
  };
  std::optional<Cause> cause;
  /// Points of the box that are in it and in no earlier one; nullopt: not counted.
  std::optional<std::uint64_t> points;
  std::optional<std::string> error;
  Location where;  // of the error
};

/// Finds the least point of the box that is in none of the classes.
struct SolvedPoint {
  std::optional<SizePoint> point;
  bool none = false;  // there is none; neither: not known
};
using PointSolver =
    std::function<SolvedPoint(const SizeBox& box, const std::vector<std::vector<Guard>>& classes)>;

struct SizeClassLimits {
  std::size_t classes = 64;
  std::uint64_t steps = 10'000'000;  // predicates looked at by the search, counts apart
  /// Takes over where the search is out of steps (point_solver() of solver_search.h); the points
  /// are the same.
  PointSolver solver{};
  bool solver_only = false;  // no search; for tests
};

struct SizeClasses {
  std::vector<SizeClass> classes;       // where two overlap, the first has the point
  bool whole = false;                   // every point of the box is in one
  std::string limit;                    // why not: "64 classes"
  std::optional<SizePoint> beyond;      // the least point in none, where it is known
  std::optional<std::uint64_t> points;  // of the box, of those promised
};

/// `trace` is called once per class, in their order.
[[nodiscard]] SizeClasses infer_size_classes(
    const SizeBox& box, const std::function<PointTrace(const SizePoint&)>& trace,
    const SizeClassLimits& limits = {});

/// The least point of the box that satisfies all guards and `promised`, and how many do.
struct Served {
  std::optional<SizePoint> example;
  std::optional<std::uint64_t> points;  // nullopt: not counted
  bool known = true;                    // false: out of steps
};
[[nodiscard]] Served served_in(const SizeBox& box, const std::vector<Guard>& guards);
/// The same of the points that are in none of some classes.
[[nodiscard]] Served unserved_in(const SizeBox& box,
                                 const std::vector<std::vector<Guard>>& classes);

/// "x.size(0) = 0, x.size(1) = 3"
[[nodiscard]] std::string point_text(const SizeBox& box, const SizePoint& point,
                                     const Namer& namer);

}  // namespace lockstep::shapes
