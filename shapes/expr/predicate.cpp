#include <algorithm>
#include <utility>

#include <lockstep/shapes/expr/evaluation.h>
#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/polynomial.h>

namespace lockstep::shapes {
namespace {

using Relation = Predicate::Relation;

bool truth(Relation relation, Wide value) {
  switch (relation) {
    case Relation::Equal:
      return value == 0;
    case Relation::NotEqual:
      return value != 0;
    case Relation::NonNegative:
      return value >= 0;
  }
  return false;
}

// One form per relation and truth value: 0 == 0, 1 == 0, 1 != 0, 0 != 0, 0 >= 0, -1 >= 0.
Predicate settled(Relation relation, bool value) {
  if (relation == Relation::NonNegative) return {relation, value ? 0 : -1};
  return {relation, value == (relation == Relation::Equal) ? 0 : 1};
}

Predicate normalise(Relation relation, Expr e) {
  if (const auto value = e.constant()) return settled(relation, truth(relation, *value));
  const std::int64_t g = content(e, false);
  const std::int64_t c = constant_term(e);
  if (relation == Relation::NonNegative) {
    Wide floored = 0;
    static_cast<void>(floor_divide_wide(c, g, floored));
    return {relation, divide_coefficients(e - c, g) + static_cast<std::int64_t>(floored)};
  }
  // The terms with symbols are multiples of g, so they never add up to a number that is no multiple
  // of g.
  if (c % g != 0) return settled(relation, relation == Relation::NotEqual);
  e = divide_coefficients(e, g);
  return {relation, e.terms()[0].coefficient < 0 ? -e : e};
}

const char* sign_text(Relation relation, bool strict, bool turned) {
  if (relation == Relation::Equal) return " == ";
  if (relation == Relation::NotEqual) return " != ";
  if (turned) return strict ? " < " : " <= ";
  return strict ? " > " : " >= ";
}

// The terms for the left side, chosen so that no minus is written. If all terms and the number
// would be on one side, a term that reads equally well when negated moves to the other side:
// "CeilDiv(a, b) == 3" for "(-a) // b + 3 == 0".
std::vector<Expr::Term> left_side(const Expr& e, std::int64_t constant) {
  std::vector<Expr::Term> left, right;
  for (const auto& term : e.terms())
    if (!term.factors.empty()) (reads_as_negative(term) ? right : left).push_back(term);
  const bool has_both = !left.empty() && !right.empty();
  auto& all = left.empty() ? right : left;
  auto& other = left.empty() ? left : right;
  const bool is_beside = left.empty() ? constant < 0 : constant > 0;
  const auto turned = std::find_if(all.begin(), all.end(), reads_either_way);
  if (has_both || turned == all.end() || (!is_beside && (constant != 0 || all.size() == 1)))
    return left;
  other.push_back(*turned);
  all.erase(turned);
  return left;
}

}  // namespace

std::string Location::text() const { return line == 0 ? file : file + ":" + std::to_string(line); }

std::optional<Symbol> DeferredAssert::due() const {
  const auto symbols = predicate.expr.symbols();
  return !symbols.empty() && symbols.back().unbacked ? std::optional(symbols.back()) : std::nullopt;
}

std::optional<bool> Predicate::constant() const {
  const auto value = expr.constant();
  return value ? std::optional(truth(relation, *value)) : std::nullopt;
}

std::optional<bool> Predicate::evaluate(const Valuation& values) const {
  const auto value = evaluate_wide(expr, values);
  return value ? std::optional(truth(relation, *value)) : std::nullopt;
}

Predicate Predicate::negated() const {
  switch (relation) {
    case Relation::Equal:
      return {Relation::NotEqual, expr};
    case Relation::NotEqual:
      return {Relation::Equal, expr};
    case Relation::NonNegative:
      break;
  }
  return normalise(Relation::NonNegative, -expr - 1);
}

Predicate Predicate::substitute(Symbol symbol, const Expr& by) const {
  return normalise(relation, expr.substitute(symbol, by));
}

Predicate Predicate::substitute(const std::map<Symbol, Expr>& replacements) const {
  return normalise(relation, expr.substitute(replacements));
}

std::string Predicate::text() const {
  return text([](Symbol symbol) { return symbol.name(); });
}

std::string Predicate::text(const Namer& namer) const {
  const std::int64_t c = constant_term(expr);
  Expr left = Expr::of_terms(left_side(expr, c));
  Expr right = left - (expr - c);
  bool strict = false;
  if (relation == Relation::NonNegative && c == -1 && left != 0 && right != 0) {
    strict = true;
  } else if (c < 0 && c != INT64_MIN && left != 0) {
    right = right - c;
  } else {
    left = left + c;
  }
  const bool turn = !right.constant() && (left.constant() || right < left);
  if (turn) std::swap(left, right);
  return left.text(namer) + sign_text(relation, strict, turn) + right.text(namer);
}

Predicate predicate_of(Relation relation, const Expr& e) { return normalise(relation, e); }
Predicate equal(const Expr& a, const Expr& b) { return normalise(Relation::Equal, a - b); }
Predicate not_equal(const Expr& a, const Expr& b) { return normalise(Relation::NotEqual, a - b); }
Predicate less(const Expr& a, const Expr& b) { return normalise(Relation::NonNegative, b - a - 1); }
Predicate less_equal(const Expr& a, const Expr& b) {
  return normalise(Relation::NonNegative, b - a);
}
Predicate greater(const Expr& a, const Expr& b) { return less(b, a); }
Predicate greater_equal(const Expr& a, const Expr& b) { return less_equal(b, a); }

}  // namespace lockstep::shapes
