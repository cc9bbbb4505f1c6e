// Random traces that are right at one point, and what must be so of them: exhaustive search over a
// small window against the environment. Used by the tests and, for millions of seeds, by
// shapes_fuzz.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "random_expr.h"

#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes::testing {

/// Two backed and two unbacked symbols in small windows, some of whose ends are not declared.
struct RandomTrace {
  ShapeEnv env;
  std::vector<Predicate> said;  // as asked, made true
  std::vector<Values> points;   // of the windows
  Values truth{};
  bool whole = false;  // the windows are the declared ranges

  explicit RandomTrace(std::mt19937_64& random);
  /// A branch or a check that is true at `truth`, and so can be part of a right program. False
  /// where it was answered wrongly.
  [[nodiscard]] bool say(const Predicate& p, bool as_branch);
  /// The same as a declared relation. False where it was refused.
  [[nodiscard]] bool promise(const Predicate& p);
  /// Whether a run at that point keeps the promises and gets past the look-up and the asserts.
  [[nodiscard]] bool enters(const Values& values) const;
  [[nodiscard]] std::string text() const;
};

/// Sides of one or two levels; never one that overflows.
Predicate random_small_predicate(std::mt19937_64& random);

struct Tally {
  std::uint64_t expressions = 0, values = 0, proven = 0, open = 0;
  // Of the open ones where every point was looked at: one answer fits all; it depends.
  std::uint64_t missed = 0, undecided = 0;
};

/// Each builds what the seed says and gives a sentence about the first thing that is wrong.
/// An expression: value, interval, text, difference with itself.
std::optional<std::string> fault_of_expression(std::uint64_t seed, Tally& tally);
/// A trace: no answer, simplified expression or range is wrong; simplification is idempotent;
/// guards and asserts imply what was said; guards are of backed symbols and hold at the truth, and
/// those that an entry keeps admit what all of them do; an assert can be tested once the symbol
/// that it is due after is bound.
std::optional<std::string> fault_of_trace(std::uint64_t seed, Tally& tally);

}  // namespace lockstep::shapes::testing
