// Intervals of integers, and the interval of an expression.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <lockstep/shapes/expr/expr.h>

namespace lockstep::shapes {

/// The values lower <= v <= upper. Conservative: the result of arithmetic contains every possible
/// value. A bound that does not fit in int64 becomes "no bound" on its side, so arithmetic never
/// fails. lower > upper means that there is no value: the known facts contradict each other.
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
/// Ignores the divisor zero.
[[nodiscard]] Range floor_div(const Range& a, const Range& b);
[[nodiscard]] Range mod(const Range& a, const Range& b);

/// Gives the range of a symbol.
using SymbolRanges = std::function<Range(Symbol)>;
/// An interval that contains every value of the expression. Terms are treated as independent of
/// each other.
[[nodiscard]] Range range_of(const Expr& e, const SymbolRanges& symbols);
[[nodiscard]] Range range_of(const Expr::Atom& atom, const SymbolRanges& symbols);
/// As above, but without a known range of any symbol: Mod(s0, 4) lies in [0, 3].
[[nodiscard]] Range range_of(const Expr& e);

}  // namespace lockstep::shapes
