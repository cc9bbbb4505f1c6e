// What is known of a value by its remainder: a domain of the prover beside the intervals. Internal
// to this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <lockstep/shapes/expr/expr.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// The integers residue + k*modulus: all of them where the modulus is 1, the residue alone where it
/// is 0. 0 <= residue < modulus otherwise. Conservative: arithmetic gives a set that holds every
/// result; where a number would grow past 2^31 it gives a larger set, never a wrong one.
struct ModularSet {
  std::int64_t modulus = 1, residue = 0;

  [[nodiscard]] static ModularSet of(std::int64_t value);
  /// residue + k*modulus. Requires modulus >= 1.
  [[nodiscard]] static ModularSet of(std::int64_t residue, std::int64_t modulus);
  [[nodiscard]] bool contains(std::int64_t value) const;
  /// The remainder by n that all members have in common. Requires n >= 1.
  [[nodiscard]] std::optional<std::int64_t> remainder(std::int64_t n) const;
  bool operator==(const ModularSet&) const = default;
};
[[nodiscard]] ModularSet operator+(const ModularSet& a, const ModularSet& b);
[[nodiscard]] ModularSet operator*(const ModularSet& a, const ModularSet& b);
/// Holds the members of both (a least modulus for either).
[[nodiscard]] ModularSet unite(const ModularSet& a, const ModularSet& b);
/// The members that both have, by the Chinese remainder theorem; nullopt: there are none. The
/// larger modulus of the two where the combined one does not fit.
[[nodiscard]] std::optional<ModularSet> intersect(const ModularSet& a, const ModularSet& b);

/// The range from its first member of the set to its last one: empty where it has none.
[[nodiscard]] Range tightened(const Range& range, const ModularSet& set);

/// Gives what is known of an expression as a whole.
using KnownResidues = std::function<ModularSet(const Expr&)>;
/// The set of the expression's values: what is known of it and of its parts, put together.
[[nodiscard]] ModularSet modular_set_of(const Expr& e, const KnownResidues& known);

}  // namespace lockstep::shapes
