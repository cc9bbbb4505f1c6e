// Integers that a trace knows only by name: sizes, int inputs, values read from tensors. What users
// compute sizes with and branch on inside a traced function.
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
/// Immutable value, one thread.
class SymInt {
 public:
  SymInt() = default;
  template <std::integral T>
  SymInt(T value) : expr_(static_cast<std::int64_t>(value)) {}  // NOLINT: a number is one
  SymInt(shapes::Expr expr, std::shared_ptr<Trace> trace)
      : expr_(std::move(expr)), trace_(std::move(trace)) {}

  [[nodiscard]] const shapes::Expr& expr() const { return expr_; }
  /// The trace it belongs to; null for a plain number.
  [[nodiscard]] const std::shared_ptr<Trace>& trace() const { return trace_; }
  /// A number, where code needs one. Pins a symbol to the agreed hint by a guard; throws
  /// DataDependentError for a value that is only known when the graph runs, TraceUsageError once
  /// the trace has ended, as all that asks for a value here.
  [[nodiscard]] std::int64_t to_int(Line where = Line::current()) const;
  /// "2*s0 + 1"
  [[nodiscard]] std::string text() const { return expr_.text(); }

 private:
  shapes::Expr expr_;
  std::shared_ptr<Trace> trace_;
};

/// An operand together with the line it is used on: what lets `if (x.size(0) > 5)` record its line.
struct IntOperand {
  template <std::integral T>
  IntOperand(T number, Line line = Line::current())  // NOLINT: converts on purpose
      : value(number), where(line) {}
  IntOperand(SymInt number, Line line = Line::current())  // NOLINT: converts on purpose
      : value(std::move(number)), where(line) {}
  SymInt value;
  Line where;
};

/// A question about integers. Asking (`if`) decides the branch: proven, or by the agreed hint with
/// a guard; a question about values that exist only at run time throws DataDependentError.
class SymBool {
 public:
  SymBool(bool value);  // NOLINT: a plain truth is one
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

/// All of these throw OverflowError where a coefficient leaves int64, and TraceUsageError where the
/// operands belong to different traces.
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
/// The integer part of the square root as a number. Guards its two bounds; throws as to_int does.
[[nodiscard]] std::int64_t isqrt(const SymInt& value, Line where = Line::current());
[[nodiscard]] SymInt min(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymInt max(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator==(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator!=(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator<(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator<=(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator>(const IntOperand& a, const IntOperand& b);
[[nodiscard]] SymBool operator>=(const IntOperand& a, const IntOperand& b);

/// Must be true or the program is wrong: known from here on, tested when the graph runs unless
/// proven, and then an error on all ranks jointly. Throws ConstraintError if it cannot be true.
void check(const SymBool& condition, std::string message = {}, Line where = Line::current());
/// Proven true; false where open. Records nothing.
[[nodiscard]] bool statically_true(const SymBool& condition);
/// The value under the agreed hints, for choices that may not depend on it but run better knowing
/// it: no guard. `fallback` for values that exist only when the graph runs.
[[nodiscard]] std::int64_t peek(const SymInt& value, std::int64_t fallback,
                                Line where = Line::current());
/// A branch that takes false (true) where a value that exists only when the graph runs leaves it
/// open: nothing is recorded then, and both ways must be right. Otherwise as `if`.
[[nodiscard]] bool guard_or_false(const SymBool& condition);
[[nodiscard]] bool guard_or_true(const SymBool& condition);
/// True if `condition` holds for the sizes of any (of every) rank of the group. The same answer on
/// every rank, so all take the same branch; recorded as a guard on the group's value. Collective:
/// every rank asks the same questions in the same order. Asks nobody, and is a branch like any
/// other, where the values are uniform (collective_ops.h). Throws DataDependentError for values
/// that exist only at run time.
[[nodiscard]] bool group_any(const SymBool& condition, Line where = Line::current());
[[nodiscard]] bool group_all(const SymBool& condition, Line where = Line::current());

}  // namespace lockstep::worker
