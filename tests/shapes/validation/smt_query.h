// Questions to the solver as text: expressions and predicates in SMT-LIB 2. Equal questions have
// equal texts, so answers are reproducible. For validation and for the proofs of the rules.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// A partial integer: the text of its value, and the divisors that must not be zero for it to have
/// one.
struct SmtValue {
  std::string text;
  std::vector<std::string> divisors;
};

/// One question: is there a valuation that meets all requirements? Integers are unbounded here,
/// while evaluation ends at 128 bits. Divisions round towards minus infinity. A division by zero
/// has no value: its quotient and remainder are unconstrained constants. One thread.
class SmtQuery {
 public:
  /// The symbol takes a value of the range. Requires that it was not declared before.
  void declare(Symbol symbol, const Range& range);

  [[nodiscard]] SmtValue value(const Expr& e);
  [[nodiscard]] static SmtValue number(std::int64_t n);
  [[nodiscard]] static SmtValue symbol(Symbol symbol);
  [[nodiscard]] static SmtValue add(const SmtValue& a, const SmtValue& b);
  [[nodiscard]] static SmtValue multiply(const SmtValue& a, const SmtValue& b);
  [[nodiscard]] SmtValue floor_div(const SmtValue& a, const SmtValue& b);
  [[nodiscard]] SmtValue mod(const SmtValue& a, const SmtValue& b);
  [[nodiscard]] SmtValue min(const SmtValue& a, const SmtValue& b);
  [[nodiscard]] SmtValue max(const SmtValue& a, const SmtValue& b);

  /// Requires that the predicate has a value and that it is `value`.
  void require(const Predicate& predicate, bool value);
  /// The predicate has no value or the other one.
  void require_not(const Predicate& predicate, bool value);
  /// At least one of the predicates has no value or is false.
  void require_not_all(const std::vector<Predicate>& predicates);
  /// Both have values in this relation of SMT-LIB: "<", "distinct".
  void require(const SmtValue& a, const char* relation, const SmtValue& b);
  /// `before` has a value, and `after` has no value or another one.
  void require_other(const SmtValue& before, const SmtValue& after);

  /// Declarations and assertions, in the order made.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  SmtValue atom(const Expr::Atom& atom);
  std::pair<std::string, std::string> division(const SmtValue& a, const SmtValue& b);
  SmtValue extreme(const SmtValue& a, const SmtValue& b, const char* relation);
  std::string fresh(const char* prefix);
  void add_assertion(const std::string& condition);

  std::string text_;
  std::map<std::pair<std::string, std::string>, std::pair<std::string, std::string>> divisions_;
  std::map<std::string, std::string> extremes_;  // condition: constant
  int fresh_ = 0;
};

}  // namespace lockstep::shapes
