// The facts of one trace, grouped by direction: all relations between the same terms are in one
// place, whatever their constants and signs.
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

/// e == scale*direction + offset, where the direction has no constant term, its coefficients have
/// no common factor, and its leading coefficient is positive. Relations of expressions of the same
/// direction are relations of numbers.
struct Direction {
  Expr direction;
  std::int64_t scale = 1, offset = 0;
};
/// Requires that e is not constant. Throws OverflowError.
[[nodiscard]] Direction direction_of(const Expr& e);

/// e with each Mod(a, b) that is not inside another atom written as a - b*(a // b), so that
/// remainders and quotients have common terms. Throws OverflowError.
[[nodiscard]] Expr without_mods(const Expr& e);

/// Conservative: every answer is true of all values that satisfy the added facts.
class Facts {
 public:
  /// Adds the fact that the predicate holds. Requires that it is not constant. Throws
  /// OverflowError.
  void add(const Predicate& predicate);
  /// Adds the fact that e == value + k*m for some k. Requires that e is not constant and m >= 2.
  /// Throws OverflowError.
  void add_remainder(const Expr& e, std::int64_t value, std::int64_t m);
  /// Bounds of the expression from facts about its direction alone.
  [[nodiscard]] Range range(const Expr& e) const;
  /// False: e is never zero. True: not known.
  [[nodiscard]] bool may_be_zero(const Expr& e) const;
  [[nodiscard]] bool has_residues() const { return has_residues_; }
  /// Remainders of the expression from facts about its direction alone.
  [[nodiscard]] ModularSet residues(const Expr& e) const;
  /// Removes all facts that mention the symbol and returns them as predicates, in canonical order.
  [[nodiscard]] std::vector<Predicate> take(Symbol symbol);

  struct Known {
    Range range;
    std::set<std::int64_t> excluded;
    ModularSet residues;
  };
  /// The facts about the direction; nullptr: there are none.
  [[nodiscard]] const Known* of(const Expr& direction) const;
  /// The first `most` directions, in canonical order, that share a term with e, with any
  /// coefficient.
  [[nodiscard]] std::vector<Expr> sharing_terms(const Expr& e, std::size_t most) const;

 private:
  void add_as_written(const Predicate& predicate);
  Known& at(const Expr& direction);
  void forget(const Expr& direction);
  std::map<Expr, Known> by_direction_;
  std::map<Expr, std::set<Expr>> by_monomial_;  // directions with the monomial
  std::map<Symbol, std::set<Expr>> by_symbol_;  // directions with the symbol
  bool has_residues_ = false;
};

}  // namespace lockstep::shapes
