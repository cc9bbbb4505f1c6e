#include <numeric>
#include <utility>

#include <lockstep/shapes/expr/modular_set.h>
#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/expr/wide.h>

namespace lockstep::shapes {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 31;  // products of two fit in int64
constexpr std::int64_t kFarthest = INT64_MAX / 4;      // bounds past this limit are not moved

std::int64_t floor_mod(std::int64_t a, std::int64_t n) {
  const std::int64_t r = a % n;
  return r < 0 ? r + n : r;
}

// The set with these numbers; the set of all integers if a number is past the limit.
ModularSet bounded(Wide modulus, Wide residue) {
  if (modulus == 0) {
    if (residue > -kMost && residue < kMost) return {0, static_cast<std::int64_t>(residue)};
    return {};
  }
  if (modulus >= kMost) return {};
  const Wide r = residue % modulus;
  return {static_cast<std::int64_t>(modulus), static_cast<std::int64_t>(r < 0 ? r + modulus : r)};
}

// x with a*x == gcd(a, b) modulo b. Requires a, b >= 1.
std::int64_t inverse_by_gcd(std::int64_t a, std::int64_t b) {
  std::int64_t x = 1, y = 0, n = b;
  while (b != 0) {
    const std::int64_t q = a / b;
    a = std::exchange(b, a - q * b);
    x = std::exchange(y, x - q * y);
  }
  return floor_mod(x, n);
}

ModularSet set_of_atom(const Expr::Atom& atom, const KnownResidues& known) {
  const auto operand = [&](std::size_t i) { return modular_set_of(atom.operands[i], known); };
  switch (atom.op) {
    case Expr::Op::Symbol:
    case Expr::Op::FloorDiv:
      return {};
    case Expr::Op::Mod: {
      const auto n = atom.operands[1].constant();
      if (!n || *n < 1) return {};
      // a mod n differs from a by a multiple of n.
      return operand(0) + ModularSet::of(0, *n);
    }
    case Expr::Op::Min:
    case Expr::Op::Max:
      break;
  }
  ModularSet out = operand(0);
  for (std::size_t i = 1; i < atom.operands.size(); ++i) out = unite(out, operand(i));
  return out;
}

// The intersection, or `a` if it is empty: then no value satisfies both, so any answer is sound.
ModularSet narrowed(const ModularSet& a, const ModularSet& b) {
  return intersect(a, b).value_or(a);
}

}  // namespace

ModularSet ModularSet::of(std::int64_t value) { return bounded(0, value); }

ModularSet ModularSet::of(std::int64_t residue, std::int64_t modulus) {
  return bounded(modulus, residue);
}

bool ModularSet::contains(std::int64_t value) const {
  return modulus == 0 ? value == residue : floor_mod(value, modulus) == residue;
}

std::optional<std::int64_t> ModularSet::remainder(std::int64_t n) const {
  if (modulus % n != 0) return std::nullopt;
  return floor_mod(residue, n);
}

ModularSet operator+(const ModularSet& a, const ModularSet& b) {
  return bounded(std::gcd(a.modulus, b.modulus), Wide{a.residue} + b.residue);
}

// (r + i*m) * (s + j*n) == r*s + i*m*s + j*n*r + i*j*m*n
ModularSet operator*(const ModularSet& a, const ModularSet& b) {
  const std::int64_t by_a = a.modulus * (b.residue < 0 ? -b.residue : b.residue);
  const std::int64_t by_b = b.modulus * (a.residue < 0 ? -a.residue : a.residue);
  const std::int64_t modulus = std::gcd(std::gcd(by_a, by_b), a.modulus * b.modulus);
  if (modulus >= kMost) return {};
  return bounded(modulus, Wide{a.residue} * b.residue);
}

ModularSet unite(const ModularSet& a, const ModularSet& b) {
  const std::int64_t apart = a.residue > b.residue ? a.residue - b.residue : b.residue - a.residue;
  return bounded(std::gcd(std::gcd(a.modulus, b.modulus), apart), a.residue);
}

std::optional<ModularSet> intersect(const ModularSet& a, const ModularSet& b) {
  if (a.modulus == 0) return b.contains(a.residue) ? std::optional(a) : std::nullopt;
  if (b.modulus == 0) return intersect(b, a);
  const std::int64_t g = std::gcd(a.modulus, b.modulus);
  if (floor_mod(a.residue - b.residue, g) != 0) return std::nullopt;
  const Wide modulus = Wide{a.modulus} / g * b.modulus;
  if (modulus >= kMost) return a.modulus >= b.modulus ? a : b;
  // a.residue + a.modulus*k == b.residue modulo b.modulus
  const std::int64_t n = b.modulus / g;
  const std::int64_t k =
      floor_mod((b.residue - a.residue) / g, n) * inverse_by_gcd(a.modulus / g, n) % n;
  return bounded(modulus, Wide{a.residue} + Wide{a.modulus} * k);
}

Range tightened(const Range& range, const ModularSet& set) {
  if (set.modulus == 0) return intersect(range, Range::of(set.residue));
  Range out = range;
  // Moving a bound near the end of int64 could overflow.
  const auto usable = [](std::int64_t v) { return v > -kFarthest && v < kFarthest; };
  if (usable(out.lower)) out.lower += floor_mod(set.residue - out.lower, set.modulus);
  if (usable(out.upper)) out.upper -= floor_mod(out.upper - set.residue, set.modulus);
  return out;
}

ModularSet modular_set_of(const Expr& e, const KnownResidues& known) {
  ModularSet out = ModularSet::of(0);
  for (const auto& term : e.terms()) {
    ModularSet product = ModularSet::of(term.coefficient);
    for (const auto& factor : term.factors) {
      const ModularSet base =
          narrowed(set_of_atom(*factor.atom, known), known(Expr::of_atom(factor.atom)));
      for (std::uint32_t i = 0; i < factor.power; ++i) product = product * base;
    }
    out = out + product;
  }
  return e.constant() ? out : narrowed(out, known(e));
}

}  // namespace lockstep::shapes
