// Proves predicates from the facts of one trace. Internal to this folder.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>
#include <lockstep/shapes/facts/facts.h>

namespace lockstep::shapes {

/// A prover for one query. The facts and ranges must outlive it. Sound, incomplete, deterministic:
/// it stops after a fixed number of steps, never by time. One thread.
class Prover {
 public:
  /// Number of steps of one query, about one per term examined.
  static constexpr int kFuel = 10000;
  Prover(const Facts& facts, const SymbolRanges& symbols) : facts_(facts), symbols_(symbols) {}

  /// The answer, if it is the same for all values that satisfy the facts and at which the predicate
  /// has a value; nullopt: not known, also on overflow.
  [[nodiscard]] std::optional<bool> prove(const Predicate& predicate);
  /// The same predicate without factors that are known not to be zero. Throws OverflowError.
  [[nodiscard]] Predicate reduced(const Predicate& predicate);
  /// Interval of the expression, from the ranges of its symbols and from facts about its atoms, its
  /// terms and the expression itself.
  [[nodiscard]] Range bounds(const Expr& e);
  /// Remainders of the expression, from facts about its atoms and about the expression itself.
  [[nodiscard]] ModularSet residues(const Expr& e);

 private:
  /// The signs that a value may have.
  struct Signs {
    bool negative = true, zero = true, positive = true;
    [[nodiscard]] bool settled() const { return negative + zero + positive <= 1; }
    [[nodiscard]] std::optional<bool> answer(Predicate::Relation relation) const;
  };
  struct Factors {
    Expr a, b;  // factors whose product is the expression
  };
  Signs signs(const Expr& e, int depth);
  Signs signs_as_written(const Expr& e, int depth);
  void narrow_by_factors(const Expr& e, Signs& out, int depth);
  static std::optional<Factors> monomial_factor(const Expr& e);
  std::optional<Factors> proportional_factor(const Expr& e);
  bool never_negative_here(const Expr& e);
  bool never_negative_given_fact(const Expr& e);
  bool nonnegative_after_shift(const Expr& e, bool prefer_lower);
  Range monomial_range(const Expr::Term& term);
  Range atom_range(const Expr::Factor& factor);
  /// n*e for some n > 0, without quotients of dividends whose remainders are known. Returns e
  /// itself if it has no such quotients.
  Expr without_exact_quotients(const Expr& e);
  /// n times the factor, if the factor is a quotient by a number n whose remainder is known.
  std::optional<Expr> exact_dividend(const Expr::Factor& factor);
  bool spend(const Expr& e);

  // prover_facts.cpp
  class Combination;
  /// What the least value of a Combination says about e, if its terms are independent of each
  /// other.
  struct LeastValue {
    bool never_negative = false;  // true: e is never negative
    std::vector<const Expr::Term*>
        blocking_terms;  // the first term without a bound; if all have one, the terms that may vary
  };
  void narrow_by_pairs(const Expr& e, Signs& out);
  bool never_negative_given_two(const Expr& e);
  bool never_negative_given_two(const Expr& e, const Expr::Term& t, const Expr& d, int& pairs);
  LeastValue outlook(const Combination& sum);
  std::vector<Expr> directions_with(const Expr::Term& monomial) const;

  const Facts& facts_;
  const SymbolRanges& symbols_;
  int fuel_ = kFuel;
};

}  // namespace lockstep::shapes
