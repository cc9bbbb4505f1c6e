#include <lockstep/worker/tensor/trace/sym_int.h>
#include <lockstep/worker/tensor/trace/tensor.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

std::shared_ptr<Trace> common_trace(const IntOperand& a, const IntOperand& b) {
  const auto& mine = a.value.trace();
  const auto& other = b.value.trace();
  if (mine && other && mine != other)
    throw TraceUsageError(location(b.where).text() +
                          ": integers of two traces meet; do not keep one beyond its frame");
  return mine ? mine : other;
}

SymInt made(Expr expr, const IntOperand& a, const IntOperand& b) {
  std::shared_ptr<Trace> trace = common_trace(a, b);
  if (!trace) return {std::move(expr), nullptr};
  return trace->integer(std::move(expr));
}

SymBool asked(shapes::Predicate predicate, const IntOperand& a, const IntOperand& b) {
  return {std::move(predicate), common_trace(a, b), b.where};
}

const Expr& of(const IntOperand& a) { return a.value.expr(); }

/// The environment that knows the values; throws if the trace has ended.
shapes::ShapeEnv& open_env(const std::shared_ptr<Trace>& trace, const Line& where) {
  trace->need_open("an integer", where);
  return trace->env();
}

void check_divisor(const IntOperand& a, const IntOperand& b) {
  if (of(b) == Expr(0))
    throw TraceUsageError(location(b.where).text() + ": division of " + of(a).text() + " by 0");
  if (const auto trace = common_trace(a, b); trace && !of(b).constant())
    open_env(trace, b.where)
        .check(shapes::not_equal(of(b), 0), trace->here(b.where), "divisor is not 0");
}

}  // namespace

std::int64_t SymInt::to_int(Line where) const {
  if (trace_) return open_env(trace_, where).to_int(expr_, trace_->here(where));
  return expr_.constant().value_or(0);
}

SymBool::SymBool(bool value) : predicate_(shapes::equal(value ? 0 : 1, 0)), where_() {}

SymBool::operator bool() const {
  if (trace_) return open_env(trace_, where_).evaluate(predicate_, trace_->here(where_));
  return predicate_.constant().value_or(false);
}

SymInt operator+(const IntOperand& a, const IntOperand& b) { return made(of(a) + of(b), a, b); }
SymInt operator-(const IntOperand& a, const IntOperand& b) { return made(of(a) - of(b), a, b); }
SymInt operator*(const IntOperand& a, const IntOperand& b) { return made(of(a) * of(b), a, b); }
SymInt operator/(const IntOperand& a, const IntOperand& b) {
  check_divisor(a, b);
  return made(floor_div(of(a), of(b)), a, b);
}
SymInt operator%(const IntOperand& a, const IntOperand& b) {
  check_divisor(a, b);
  return made(mod(of(a), of(b)), a, b);
}
SymInt ceil_div(const IntOperand& a, const IntOperand& b) {
  check_divisor(a, b);
  return made(ceil_div(of(a), of(b)), a, b);
}
std::int64_t isqrt(const SymInt& value, Line where) {
  if (const auto& trace = value.trace())
    return open_env(trace, where).isqrt(value.expr(), trace->here(where));
  return shapes::ShapeEnv().isqrt(value.expr(), location(where));
}
SymInt operator-(const SymInt& a) { return {-a.expr(), a.trace()}; }
SymInt min(const IntOperand& a, const IntOperand& b) { return made(min(of(a), of(b)), a, b); }
SymInt max(const IntOperand& a, const IntOperand& b) { return made(max(of(a), of(b)), a, b); }

SymBool operator==(const IntOperand& a, const IntOperand& b) {
  return asked(shapes::equal(of(a), of(b)), a, b);
}
SymBool operator!=(const IntOperand& a, const IntOperand& b) {
  return asked(shapes::not_equal(of(a), of(b)), a, b);
}
SymBool operator<(const IntOperand& a, const IntOperand& b) {
  return asked(shapes::less(of(a), of(b)), a, b);
}
SymBool operator<=(const IntOperand& a, const IntOperand& b) {
  return asked(shapes::less_equal(of(a), of(b)), a, b);
}
SymBool operator>(const IntOperand& a, const IntOperand& b) {
  return asked(shapes::greater(of(a), of(b)), a, b);
}
SymBool operator>=(const IntOperand& a, const IntOperand& b) {
  return asked(shapes::greater_equal(of(a), of(b)), a, b);
}

void check(const SymBool& condition, std::string message, Line where) {
  if (const auto& trace = condition.trace()) {
    open_env(trace, where).check(condition.predicate(), trace->here(where), std::move(message));
  } else if (!condition) {
    throw shapes::ConstraintError(location(where).text() + ": check failed" +
                                  (message.empty() ? "" : ": " + message));
  }
}

bool statically_true(const SymBool& condition) {
  if (const auto& trace = condition.trace())
    return open_env(trace, condition.where()).statically_true(condition.predicate());
  return condition.predicate().constant().value_or(false);
}

std::int64_t peek(const SymInt& value, std::int64_t fallback, Line where) {
  if (const auto& trace = value.trace()) return open_env(trace, where).peek(value.expr(), fallback);
  return value.expr().constant().value_or(fallback);
}

namespace {

bool guard_or(const SymBool& condition, bool fallback) {
  const auto& trace = condition.trace();
  if (!trace) return condition.predicate().constant().value_or(fallback);
  return open_env(trace, condition.where())
      .evaluate_or(condition.predicate(), fallback, trace->here(condition.where()));
}

}  // namespace

bool guard_or_false(const SymBool& condition) { return guard_or(condition, false); }
bool guard_or_true(const SymBool& condition) { return guard_or(condition, true); }

bool group_any(const SymBool& condition, Line where) {
  if (const auto& trace = condition.trace()) return trace->ask_group(condition, false, where);
  return condition.predicate().constant().value_or(false);
}
bool group_all(const SymBool& condition, Line where) {
  if (const auto& trace = condition.trace()) return trace->ask_group(condition, true, where);
  return condition.predicate().constant().value_or(false);
}

}  // namespace lockstep::worker
