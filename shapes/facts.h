// What is known to hold in one trace, kept by direction: all relations between the same terms,
// whatever their constant and sense, meet in one place. Used by ShapeEnv and its prover only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <lockstep/shapes/guard.h>
#include <lockstep/shapes/range.h>

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
  /// Bounds of the expression by its direction alone.
  [[nodiscard]] Range range(const Expr& e) const;
  /// False only where e is known never to be zero.
  [[nodiscard]] bool may_be_zero(const Expr& e) const;
  /// e mod m where it is known.
  [[nodiscard]] std::optional<std::int64_t> residue(const Expr& e, std::int64_t m) const;
  /// Removes all that mentions the symbol and gives it as predicates, in canonical order.
  [[nodiscard]] std::vector<Predicate> take(Symbol symbol);

  struct Congruence {
    std::int64_t modulus = 1, residue = 0;
  };
  struct Known {
    Range range;
    std::set<std::int64_t> excluded;
    std::vector<Congruence> congruences;
  };
  [[nodiscard]] const std::map<Expr, Known>& by_direction() const { return by_direction_; }

 private:
  void add_as_written(const Predicate& predicate);
  void add_congruence(const Expr& direction, std::int64_t value);
  std::map<Expr, Known> by_direction_;
};

}  // namespace lockstep::shapes
