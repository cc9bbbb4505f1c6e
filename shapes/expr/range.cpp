#include <algorithm>

#include <fmt/format.h>

#include <lockstep/shapes/expr/range.h>
#include <lockstep/shapes/expr/wide.h>

namespace lockstep::shapes {
namespace {

// A bound: a number, or infinite with a sign.
struct Bound {
  int infinite = 0;  // -1, 0, 1
  Wide value = 0;
};

Bound lower_bound(const Range& r) {
  return r.lower == Range::kMin ? Bound{-1, 0} : Bound{0, r.lower};
}
Bound upper_bound(const Range& r) {
  return r.upper == Range::kMax ? Bound{1, 0} : Bound{0, r.upper};
}

int sign(const Bound& b) {
  return b.infinite != 0 ? b.infinite : b.value > 0 ? 1 : b.value < 0 ? -1 : 0;
}

bool below(const Bound& a, const Bound& b) {
  return a.infinite != b.infinite ? a.infinite < b.infinite : a.infinite == 0 && a.value < b.value;
}

// Rounds outwards, so that a lower bound past int64 stays a true bound.
std::int64_t as_lower(const Bound& b) {
  if (b.infinite < 0 || b.value < Range::kMin) return Range::kMin;
  if (b.infinite > 0 || b.value >= Range::kMax) return Range::kMax - 1;
  return static_cast<std::int64_t>(b.value);
}
std::int64_t as_upper(const Bound& b) {
  if (b.infinite > 0 || b.value > Range::kMax) return Range::kMax;
  if (b.infinite < 0 || b.value <= Range::kMin) return Range::kMin + 1;
  return static_cast<std::int64_t>(b.value);
}

Range hull(std::initializer_list<Bound> bounds) {
  return {as_lower(std::min(bounds, below)), as_upper(std::max(bounds, below))};
}

Bound multiply(const Bound& a, const Bound& b) {
  if (a.infinite == 0 && b.infinite == 0) return {0, a.value * b.value};
  return {sign(a) * sign(b), 0};  // zero times infinity is zero: infinity stands for a number
}

// Requires b != 0. A quotient by infinity is the floor of the limit.
Bound divide(const Bound& a, const Bound& b) {
  if (b.infinite != 0) {
    if (a.infinite != 0) return {sign(a) * sign(b), 0};
    return {0, sign(a) * sign(b) < 0 ? -1 : 0};
  }
  if (a.infinite != 0) return {sign(a) * sign(b), 0};
  Wide out = 0;
  static_cast<void>(floor_divide_wide(a.value, b.value, out));
  return {0, out};
}

Range unite(const Range& a, const Range& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.lower, b.lower), std::max(a.upper, b.upper)};
}

// Requires that b does not contain zero.
Range divide_signed(const Range& a, const Range& b) {
  const Bound al = lower_bound(a), au = upper_bound(a), bl = lower_bound(b), bu = upper_bound(b);
  // The quotient is monotone in each operand, so its extremes are at the corners. A corner of two
  // infinities stands for all quotients of its sign.
  Range out = hull({divide(al, bl), divide(al, bu), divide(au, bl), divide(au, bu)});
  for (const Bound& x : {al, au}) {
    for (const Bound& y : {bl, bu}) {
      if (x.infinite * y.infinite > 0) out = unite(out, Range::of(0));
      if (x.infinite * y.infinite < 0) out = unite(out, Range::of(-1));
    }
  }
  return out;
}

// Requires b.lower >= 1.
Range modulo_positive(const Range& a, const Range& b) {
  if (a.lower >= 0 && a.upper < b.lower) return a;
  std::int64_t upper = b.upper == Range::kMax ? Range::kMax : b.upper - 1;
  if (a.lower >= 0) upper = std::min(upper, a.upper);
  return {0, upper};
}

Range negative_part(const Range& r) { return {r.lower, std::min<std::int64_t>(r.upper, -1)}; }
Range positive_part(const Range& r) { return {std::max<std::int64_t>(r.lower, 1), r.upper}; }

Range power(const Range& r, std::uint32_t exponent) {
  Range out = Range::of(1);
  for (std::uint32_t i = 0; i < exponent; ++i) out = out * r;
  if (exponent % 2 == 0 && out.lower < 0) out.lower = 0;
  return out;
}

constexpr Range kNone{1, 0};

}  // namespace

std::string range_text(const Range& range) {
  if (range.lower != Range::kMin && range.upper != Range::kMax) {
    return fmt::format("between {} and {}", range.lower, range.upper);
  }
  if (range.lower != Range::kMin) return fmt::format("at least {}", range.lower);
  if (range.upper != Range::kMax) return fmt::format("at most {}", range.upper);
  return "any integer";
}

Range intersect(const Range& a, const Range& b) {
  return {std::max(a.lower, b.lower), std::min(a.upper, b.upper)};
}

Range operator+(const Range& a, const Range& b) {
  if (a.empty() || b.empty()) return kNone;
  const auto add = [](const Bound& x, const Bound& y) {
    return x.infinite != 0 ? x : y.infinite != 0 ? y : Bound{0, x.value + y.value};
  };
  return {as_lower(add(lower_bound(a), lower_bound(b))),
          as_upper(add(upper_bound(a), upper_bound(b)))};
}

Range operator-(const Range& a) { return Range::of(-1) * a; }

Range operator*(const Range& a, const Range& b) {
  if (a.empty() || b.empty()) return kNone;
  const Bound al = lower_bound(a), au = upper_bound(a), bl = lower_bound(b), bu = upper_bound(b);
  return hull({multiply(al, bl), multiply(al, bu), multiply(au, bl), multiply(au, bu)});
}

Range floor_div(const Range& a, const Range& b) {
  if (a.empty() || b.empty()) return kNone;
  const Range negative = negative_part(b), positive = positive_part(b);
  return unite(negative.empty() ? kNone : divide_signed(a, negative),
               positive.empty() ? kNone : divide_signed(a, positive));
}

Range mod(const Range& a, const Range& b) {
  if (a.empty() || b.empty()) return kNone;
  const Range negative = negative_part(b), positive = positive_part(b);
  // a mod -b == -(-a mod b)
  return unite(negative.empty() ? kNone : -modulo_positive(-a, -negative),
               positive.empty() ? kNone : modulo_positive(a, positive));
}

Range range_of(const Expr::Atom& atom, const SymbolRanges& symbols) {
  if (atom.op == Expr::Op::Symbol) return symbols(atom.symbol);
  Range out = range_of(atom.operands[0], symbols);
  for (std::size_t i = 1; i < atom.operands.size(); ++i) {
    const Range next = range_of(atom.operands[i], symbols);
    switch (atom.op) {
      case Expr::Op::FloorDiv:
        out = floor_div(out, next);
        break;
      case Expr::Op::Mod:
        out = mod(out, next);
        break;
      case Expr::Op::Min:
        out = {std::min(out.lower, next.lower), std::min(out.upper, next.upper)};
        break;
      case Expr::Op::Max:
        out = {std::max(out.lower, next.lower), std::max(out.upper, next.upper)};
        break;
      case Expr::Op::Symbol:
        break;
    }
  }
  return out;
}

Range range_of(const Expr& e, const SymbolRanges& symbols) {
  Range out = Range::of(0);
  for (const auto& term : e.terms()) {
    Range product = Range::of(term.coefficient);
    for (const auto& factor : term.factors) {
      product = product * power(range_of(*factor.atom, symbols), factor.power);
    }
    out = out + product;
  }
  return out;
}

Range range_of(const Expr& e) {
  return range_of(e, [](Symbol) { return Range{}; });
}

}  // namespace lockstep::shapes
