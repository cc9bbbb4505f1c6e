// Intervals of integers, and the interval of an expression.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <lockstep/shapes/expr/expr.h>

namespace lockstep::shapes {

/// What is known of a value: lower <= v <= upper, conservative (never too small a set). Bounds that
/// do not fit in int64 become "no bound" on their side, so arithmetic never fails. lower > upper:
/// no value at all (what is known contradicts itself).
struct Range {
  static constexpr std::int64_t kMin = INT64_MIN, kMax = INT64_MAX;  // mean "no bound"
  std::int64_t lower = kMin, upper = kMax;
  [[nodiscard]] static Range of(std::int64_t value) { return {value, value}; }
  [[nodiscard]] bool empty() const { return lower > upper; }
  [[nodiscard]] bool contains(std::int64_t v) const { return lower <= v && v <= upper; }
  [[nodiscard]] bool contains(const Range& r) const { return lower <= r.lower && r.upper <= upper; }
  bool operator==(const Range&) const = default;
};
/// "between 2 and 64", "at least 2", "any integer"
[[nodiscard]] std::string range_text(const Range& range);
[[nodiscard]] Range intersect(const Range& a, const Range& b);
[[nodiscard]] Range operator+(const Range& a, const Range& b);
[[nodiscard]] Range operator-(const Range& a);
[[nodiscard]] Range operator*(const Range& a, const Range& b);
/// Over the divisors other than zero.
[[nodiscard]] Range floor_div(const Range& a, const Range& b);
[[nodiscard]] Range mod(const Range& a, const Range& b);

/// Gives what is known of a symbol.
using SymbolRanges = std::function<Range(Symbol)>;
/// The interval of the values that the expression has. Each term counts as independent of the
/// others.
[[nodiscard]] Range range_of(const Expr& e, const SymbolRanges& symbols);
[[nodiscard]] Range range_of(const Expr::Atom& atom, const SymbolRanges& symbols);
/// What the expression's form alone says: Mod(s0, 4) lies in [0, 3].
[[nodiscard]] Range range_of(const Expr& e);

}  // namespace lockstep::shapes
