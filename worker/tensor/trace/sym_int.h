// Symbolic integers: sizes, int inputs, values read from tensors. Traced functions compute sizes
// from them and branch on them.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>

#include <lockstep/shapes/expr/guard.h>

namespace lockstep::worker {

class Trace;

/// The user's line, taken by every function of the tensor language through its last, defaulted
/// parameter.
using Line = std::source_location;

/// An integer: a plain number outside a trace, an expression over the trace's symbols inside.
/// Immutable value, single-threaded.
class SymInt {
 public:
  SymInt() = default;
  template <std::integral T>
  SymInt(T value) : expr_(static_cast<std::int64_t>(value)) {}  // NOLINT: a number is a SymInt
  SymInt(shapes::Expr expr, std::shared_ptr<Trace> trace)
      : expr_(std::move(expr)), trace_(std::move(trace)) {}

  [[nodiscard]] const shapes::Expr& expr() const { return expr_; }
  /// The trace of the symbols; null for a plain number.
  [[nodiscard]] const std::shared_ptr<Trace>& trace() const { return trace_; }
  /// The value as a number. Specialises the symbols to their agreed hints by a guard. Throws
  /// DataDependentError for a value that is known only when the graph runs. Throws TraceUsageError
  /// after the trace has ended, like every function here that needs a value.
  [[nodiscard]] std::int64_t to_int(Line where = Line::current()) const;
  /// "2*s0 + 1"
  [[nodiscard]] std::string text() const { return expr_.text(); }

 private:
  shapes::Expr expr_;
  std::shared_ptr<Trace> trace_;
};

/// An operand with the line of its use, so that `if (x.size(0) > 5)` records its line.
struct IntOperand {
  template <std::integral T>
  IntOperand(T number, Line line = Line::current())  // NOLINT: converts on purpose
      : value(number), where(line) {}
  IntOperand(SymInt number, Line line = Line::current())  // NOLINT: converts on purpose
      : value(std::move(number)), where(line) {}
  SymInt value;
  Line where;
};

/// A condition on integers. A branch (`if`) on it takes the proven answer, or the answer for the
/// agreed hints with a guard. A branch on values that exist only when the graph runs throws
/// DataDependentError.
class SymBool {
 public:
  SymBool(bool value);  // NOLINT: a bool is a SymBool
  SymBool(shapes::Predicate predicate, std::shared_ptr<Trace> trace, Line where)
      : predicate_(std::move(predicate)), trace_(std::move(trace)), where_(where) {}

  explicit operator bool() const;
  [[nodiscard]] SymBool operator!() const { return {predicate_.negated(), trace_, where_}; }

  [[nodiscard]] const shapes::Predicate& predicate() const { return predicate_; }
  [[nodiscard]] const std::shared_ptr<Trace>& trace() const { return trace_; }
  [[nodiscard]] const Line& where() const { return where_; }

 private:
  shapes::Predicate predicate_;
  std::shared_ptr<Trace> trace_;
  Line where_;
};

/// All of these operators throw OverflowError if a coefficient does not fit in int64, and
/// TraceUsageError if the operands belong to different traces.
[[nodiscard]] SymInt operator+(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymInt operator-(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymInt operator*(const IntOperand& a, const IntOperand& b);
/// Rounds towards minus infinity. A divisor that may be 0 is checked when the graph runs.
[[nodiscard]] SymInt operator/(const IntOperand& a, const IntOperand& b);
/// a - a/b*b: has the sign of b.
[[nodiscard]] SymInt operator%(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymInt operator-(const SymInt& a);
/// Rounds towards plus infinity.
[[nodiscard]] SymInt ceil_div(const IntOperand& a, const IntOperand& b);
/// The integer part of the square root, as a number that two guards pin. Throws as to_int does.
[[nodiscard]] std::int64_t isqrt(const SymInt& value, Line where = Line::current());
[[nodiscard]] SymInt min(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymInt max(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator==(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator!=(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator<(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator<=(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator>(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator>=(const IntOperand& a, const IntOperand& b);

/// Requires that the condition is true; it counts as known from here on. Unless proven, it is
/// tested when the graph runs; if it is false then, all ranks get a joint error. Throws
/// ConstraintError if it cannot be true.
void check(const SymBool& condition, std::string message = {}, Line where = Line::current());
/// True if proven; false if disproven or undecided. Records nothing.
[[nodiscard]] bool statically_true(const SymBool& condition);
/// The value under the agreed hints, without a guard: for choices that are right for any value but
/// faster for some. `fallback` for values that exist only when the graph runs.
[[nodiscard]] std::int64_t peek(const SymInt& value, std::int64_t fallback,
                                Line where = Line::current());
/// A branch as by `if`, but an answer that depends on values that exist only when the graph runs is
/// false (true). Then nothing is recorded, and both branches must be correct.
[[nodiscard]] bool guard_or_false(const SymBool& condition);
[[nodiscard]] bool guard_or_true(const SymBool& condition);
/// True if `condition` holds for the sizes of any (of every) rank of the group. The answer is the
/// same on every rank, so all take the same branch; it is recorded as a guard on the group's value.
/// Collective: every rank asks the same questions in the same order. If the values are uniform
/// (collective_ops.h), it sends nothing and is an ordinary branch. Throws DataDependentError for
/// values that exist only when the graph runs.
[[nodiscard]] bool group_any(const SymBool& condition, Line where = Line::current());
[[nodiscard]] bool group_all(const SymBool& condition, Line where = Line::current());

}  // namespace lockstep::worker
