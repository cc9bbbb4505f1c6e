#include "written_rules.h"

namespace lockstep::shapes::testing {
namespace {

using Kind = Written::Kind;

Tree node(Kind kind, const Tree& a, const Tree& b) {
  Written out;
  out.kind = kind;
  out.a = std::make_shared<const Written>(a.written);
  out.b = std::make_shared<const Written>(b.written);
  return Tree(std::move(out));
}

}  // namespace

Tree::Tree(std::int64_t number) { written.number = number; }

Tree Tree::symbol(std::size_t i) {
  Written out;
  out.kind = Kind::Symbol;
  out.symbol = i;
  return Tree(std::move(out));
}

Tree operator+(const Tree& a, const Tree& b) { return node(Kind::Add, a, b); }
Tree operator-(const Tree& a, const Tree& b) { return node(Kind::Sub, a, b); }
Tree operator*(const Tree& a, const Tree& b) { return node(Kind::Mul, a, b); }
Tree quotient(const Tree& a, const Tree& b) { return node(Kind::FloorDiv, a, b); }
Tree remainder(const Tree& a, const Tree& b) { return node(Kind::Mod, a, b); }
Tree least(const Tree& a, const Tree& b) { return node(Kind::Min, a, b); }
Tree greatest(const Tree& a, const Tree& b) { return node(Kind::Max, a, b); }

Said operator==(const Tree& a, const Tree& b) { return {a, Said::Relation::Equal, b}; }
Said operator!=(const Tree& a, const Tree& b) { return {a, Said::Relation::NotEqual, b}; }
Said operator<(const Tree& a, const Tree& b) { return {a, Said::Relation::Less, b}; }
Said operator<=(const Tree& a, const Tree& b) { return {a, Said::Relation::LessEqual, b}; }
Said operator>(const Tree& a, const Tree& b) { return b < a; }
Said operator>=(const Tree& a, const Tree& b) { return b <= a; }

std::optional<bool> Said::holds(const Values& values) const {
  const auto x = a.written.value(values), y = b.written.value(values);
  if (!x || !y) return std::nullopt;
  switch (relation) {
    case Relation::Equal:
      return *x == *y;
    case Relation::NotEqual:
      return *x != *y;
    case Relation::Less:
      return *x < *y;
    case Relation::LessEqual:
      break;
  }
  return *x <= *y;
}

Predicate Said::predicate() const {
  const Expr x = a.written.expr(), y = b.written.expr();
  switch (relation) {
    case Relation::Equal:
      return equal(x, y);
    case Relation::NotEqual:
      return not_equal(x, y);
    case Relation::Less:
      return less(x, y);
    case Relation::LessEqual:
      break;
  }
  return less_equal(x, y);
}

void Said::require(SmtQuery& query, bool value) const {
  constexpr std::array kTrue = {"=", "distinct", "<", "<="}, kFalse = {"distinct", "=", ">=", ">"};
  const auto i = static_cast<std::size_t>(relation);
  query.require(smt(query, a.written), value ? kTrue[i] : kFalse[i], smt(query, b.written));
}

SmtValue smt(SmtQuery& query, const Written& written) {
  if (written.kind == Kind::Number) return SmtQuery::number(written.number);
  if (written.kind == Kind::Symbol) return SmtQuery::symbol(symbol_at(written.symbol));
  const SmtValue a = smt(query, *written.a), b = smt(query, *written.b);
  switch (written.kind) {
    case Kind::Add:
      return SmtQuery::add(a, b);
    case Kind::Sub:
      return SmtQuery::add(a, SmtQuery::multiply(SmtQuery::number(-1), b));
    case Kind::Mul:
      return SmtQuery::multiply(a, b);
    case Kind::FloorDiv:
      return query.floor_div(a, b);
    case Kind::Mod:
      return query.mod(a, b);
    case Kind::Min:
      return query.min(a, b);
    default:
      return query.max(a, b);
  }
}

void declare_all(SmtQuery& query) {
  for (std::size_t i = 0; i < kSymbols; ++i) query.declare(symbol_at(i), Range{});
}

}  // namespace lockstep::shapes::testing
