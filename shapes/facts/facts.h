// What is known to hold in one trace, kept by direction: all relations between the same terms,
// whatever their constant and sense, meet in one place. Used by ShapeEnv and its prover only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/modular_set.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// e == scale*direction + offset, where the direction has no constant term, coefficients without a
/// common factor and a positive leading one. Expressions of the same direction compare by numbers.
struct Direction {
  Expr direction;
  std::int64_t scale = 1, offset = 0;
};
/// Requires that e is not constant. Throws OverflowError.
[[nodiscard]] Direction direction_of(const Expr& e);

/// e with each Mod(a, b) outside other atoms written as a - b*(a // b), the form in which
/// remainders meet quotients. Throws OverflowError.
[[nodiscard]] Expr without_mods(const Expr& e);

/// Conservative: every answer is true of all values that satisfy what was added.
class Facts {
 public:
  /// The predicate holds. Requires that it is not constant. Throws OverflowError.
  void add(const Predicate& predicate);
  /// e is value + k*m. Requires that e is not constant and m >= 2. Throws OverflowError.
  void add_remainder(const Expr& e, std::int64_t value, std::int64_t m);
  /// Bounds of the expression by its direction alone.
  [[nodiscard]] Range range(const Expr& e) const;
  /// False only where e is known never to be zero.
  [[nodiscard]] bool may_be_zero(const Expr& e) const;
  [[nodiscard]] bool has_residues() const { return has_residues_; }
  /// The remainders of the expression by its direction alone.
  [[nodiscard]] ModularSet residues(const Expr& e) const;
  /// Removes all that mentions the symbol and gives it as predicates, in canonical order.
  [[nodiscard]] std::vector<Predicate> take(Symbol symbol);

  struct Known {
    Range range;
    std::set<std::int64_t> excluded;
    ModularSet residues;
  };
  /// What is known of the direction; nullptr: nothing.
  [[nodiscard]] const Known* of(const Expr& direction) const;
  /// Directions that have a term in common with e but for its coefficient, in canonical order; at
  /// most `most`, the first ones.
  [[nodiscard]] std::vector<Expr> sharing_terms(const Expr& e, std::size_t most) const;

 private:
  void add_as_written(const Predicate& predicate);
  Known& at(const Expr& direction);
  void forget(const Expr& direction);
  std::map<Expr, Known> by_direction_;
  std::map<Expr, std::set<Expr>> by_monomial_;  // its directions
  std::map<Symbol, std::set<Expr>> by_symbol_;  // its directions
  bool has_residues_ = false;
};

}  // namespace lockstep::shapes
