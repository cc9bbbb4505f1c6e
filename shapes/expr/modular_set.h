// Congruences, "value == residue modulo a number": the prover's second abstract domain, besides
// intervals. Internal to shapes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <lockstep/shapes/expr/expr.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// The integers residue + k*modulus. With modulus 1 these are all integers, with modulus 0 only the
/// residue; otherwise 0 <= residue < modulus. Conservative: arithmetic gives a set that contains
/// every result. If a number would grow past 2^31, the set is larger than necessary, never wrong.
struct ModularSet {
  std::int64_t modulus = 1, residue = 0;

  [[nodiscard]] static ModularSet of(std::int64_t value);
  /// residue + k*modulus. Requires modulus >= 1.
  [[nodiscard]] static ModularSet of(std::int64_t residue, std::int64_t modulus);
  [[nodiscard]] bool contains(std::int64_t value) const;
  /// The remainder by n, if it is the same for all members. Requires n >= 1.
  [[nodiscard]] std::optional<std::int64_t> remainder(std::int64_t n) const;
  bool operator==(const ModularSet&) const = default;
};
[[nodiscard]] ModularSet operator+(const ModularSet& a, const ModularSet& b);
[[nodiscard]] ModularSet operator*(const ModularSet& a, const ModularSet& b);
/// The smallest set of this form that contains the members of both.
[[nodiscard]] ModularSet unite(const ModularSet& a, const ModularSet& b);
/// The common members, by the Chinese remainder theorem; nullopt: no common member. If the combined
/// modulus does not fit, returns the set with the larger modulus.
[[nodiscard]] std::optional<ModularSet> intersect(const ModularSet& a, const ModularSet& b);

/// The range from the first to the last member of the set within `range`; empty if `range` contains
/// no member.
[[nodiscard]] Range tightened(const Range& range, const ModularSet& set);

/// Gives the set that is known for an expression as a whole.
using KnownResidues = std::function<ModularSet(const Expr&)>;
/// A set that contains every value of the expression, from the known sets of the expression and of
/// its parts.
[[nodiscard]] ModularSet modular_set_of(const Expr& e, const KnownResidues& known);

}  // namespace lockstep::shapes
