// Rewrite rules and laws of arithmetic as they are written down: trees that nothing simplifies, and
// what is said about them.
#pragma once

#include <string>
#include <vector>

#include "random_expr.h"

#include "validation/smt_query.h"

namespace lockstep::shapes::testing {

/// Builds trees with the usual operators; over at most the four symbols of Values.
struct Tree {
  Written written;
  Tree(std::int64_t number);  // NOLINT: a number is a tree
  explicit Tree(Written of) : written(std::move(of)) {}
  static Tree symbol(std::size_t i);
};
Tree operator+(const Tree& a, const Tree& b);
Tree operator-(const Tree& a, const Tree& b);
Tree operator*(const Tree& a, const Tree& b);
Tree quotient(const Tree& a, const Tree& b);
Tree remainder(const Tree& a, const Tree& b);
Tree least(const Tree& a, const Tree& b);
Tree greatest(const Tree& a, const Tree& b);

/// `a relation b`, as written.
struct Said {
  Tree a;
  enum class Relation { Equal, NotEqual, Less, LessEqual } relation;
  Tree b;
  /// nullopt where a side has no value.
  [[nodiscard]] std::optional<bool> holds(const Values& values) const;
  [[nodiscard]] Predicate predicate() const;
  void require(SmtQuery& query, bool value) const;
};
Said operator==(const Tree& a, const Tree& b);
Said operator!=(const Tree& a, const Tree& b);
Said operator<(const Tree& a, const Tree& b);
Said operator<=(const Tree& a, const Tree& b);
Said operator>(const Tree& a, const Tree& b);
Said operator>=(const Tree& a, const Tree& b);

SmtValue smt(SmtQuery& query, const Written& written);
void declare_all(SmtQuery& query);

}  // namespace lockstep::shapes::testing
