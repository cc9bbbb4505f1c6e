#include "random_expr.h"

#include <algorithm>

namespace lockstep::shapes::testing {
namespace {

std::int64_t floored(std::int64_t a, std::int64_t b) {
  std::int64_t q = a / b;
  while (q * b > a && b > 0) --q;
  while (q * b < a && b < 0) --q;
  return q;
}

}  // namespace

std::optional<std::int64_t> Written::value(const Values& values) const {
  if (kind == Kind::Number) return number;
  if (kind == Kind::Symbol) return values[symbol];
  const auto x = a->value(values), y = b->value(values);
  if (!x || !y) return std::nullopt;
  switch (kind) {
    case Kind::Add:
      return *x + *y;
    case Kind::Sub:
      return *x - *y;
    case Kind::Mul:
      return *x * *y;
    case Kind::Min:
      return std::min(*x, *y);
    case Kind::Max:
      return std::max(*x, *y);
    default:
      break;
  }
  if (*y == 0) return std::nullopt;
  return kind == Kind::FloorDiv ? floored(*x, *y) : *x - floored(*x, *y) * *y;
}

Expr Written::expr() const {
  if (kind == Kind::Number) return number;
  if (kind == Kind::Symbol) return Expr::symbol(symbol_at(symbol));
  const Expr x = a->expr(), y = b->expr();
  switch (kind) {
    case Kind::Add:
      return x + y;
    case Kind::Sub:
      return x - y;
    case Kind::Mul:
      return x * y;
    case Kind::FloorDiv:
      return floor_div(x, y);
    case Kind::Mod:
      return mod(x, y);
    case Kind::Min:
      return min(x, y);
    default:
      return max(x, y);
  }
}

Written random_written(std::mt19937_64& random, int depth, std::size_t symbols) {
  const auto pick = [&](std::uint64_t n) { return random() % n; };
  Written out;
  if (depth == 0 || pick(8) == 0) {
    out.kind = pick(3) == 0 ? Written::Kind::Number : Written::Kind::Symbol;
    out.number = static_cast<std::int64_t>(pick(11)) - 4;
    out.symbol = pick(symbols);
    return out;
  }
  constexpr std::array kKinds = {
      Written::Kind::Add, Written::Kind::Add,      Written::Kind::Sub,
      Written::Kind::Mul, Written::Kind::FloorDiv, Written::Kind::FloorDiv,
      Written::Kind::Mod, Written::Kind::Min,      Written::Kind::Max};
  out.kind = kKinds[pick(kKinds.size())];
  out.a = std::make_shared<const Written>(random_written(random, depth - 1, symbols));
  out.b = std::make_shared<const Written>(random_written(random, depth - 1, symbols));
  return out;
}

Predicate random_predicate(std::mt19937_64& random, const Expr& a, const Expr& b, int& kind) {
  kind = static_cast<int>(random() % 6);
  switch (kind) {
    case 0:
      return equal(a, b);
    case 1:
      return not_equal(a, b);
    case 2:
      return less(a, b);
    case 3:
      return less_equal(a, b);
    case 4:
      return greater(a, b);
    default:
      return greater_equal(a, b);
  }
}

bool relation_holds(int kind, std::int64_t a, std::int64_t b) {
  switch (kind) {
    case 0:
      return a == b;
    case 1:
      return a != b;
    case 2:
      return a < b;
    case 3:
      return a <= b;
    case 4:
      return a > b;
    default:
      return a >= b;
  }
}

}  // namespace lockstep::shapes::testing
