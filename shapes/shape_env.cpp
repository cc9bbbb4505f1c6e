// What a trace asks: symbols, branches, checks, numbers. Learning stands in shape_env_learn.cpp,
// the text of errors in shape_env_text.cpp.
#include <algorithm>

#include <fmt/format.h>

#include <lockstep/shapes/polynomial.h>
#include <lockstep/shapes/prover.h>
#include <lockstep/shapes/shape_env.h>
#include <lockstep/shapes/simplifier.h>

namespace lockstep::shapes {
namespace {

using Relation = Predicate::Relation;

Predicate with_relation(Relation relation, const Expr& e) {
  switch (relation) {
    case Relation::Equal:
      return equal(e, 0);
    case Relation::NotEqual:
      return not_equal(e, 0);
    case Relation::NonNegative:
      break;
  }
  return greater_equal(e, 0);
}

}  // namespace

Expr ShapeEnv::backed(std::string source, std::int64_t hint, Range range, bool pinned_is_error) {
  if (!range.contains(hint)) {
    throw std::logic_error(fmt::format("{}: the hint {} is outside its range", source, hint));
  }
  const Symbol symbol{false, backed_count_++};
  index_[symbol] = symbols_.size();
  symbols_.push_back({symbol, std::move(source), {}, hint, range, pinned_is_error, range});
  if (range.lower == range.upper && !pinned_is_error) replacements_[symbol] = range.lower;
  return Expr::symbol(symbol);
}

Expr ShapeEnv::unbacked(std::string source, Range range, Location where) {
  const Symbol symbol{true, unbacked_count_++};
  index_[symbol] = symbols_.size();
  symbols_.push_back(
      {symbol, std::move(source), std::move(where), std::nullopt, range, false, range});
  if (range.lower == range.upper) replacements_[symbol] = range.lower;
  return Expr::symbol(symbol);
}

const ShapeEnv::SymbolRecord& ShapeEnv::record(Symbol symbol) const {
  const auto found = index_.find(symbol);
  if (found == index_.end()) {
    throw std::logic_error("symbol " + symbol.name() + " is not of this shape environment");
  }
  return symbols_[found->second];
}

ShapeEnv::SymbolRecord& ShapeEnv::mutable_record(Symbol symbol) {
  return const_cast<SymbolRecord&>(record(symbol));
}

Namer ShapeEnv::source_namer() const {
  return [this](Symbol symbol) { return record(symbol).source; };
}

Valuation ShapeEnv::hints() const {
  return [this](Symbol symbol) { return record(symbol).hint; };
}

SymbolRanges ShapeEnv::symbol_ranges() const {
  return [this](Symbol symbol) { return record(symbol).range; };
}

Expr ShapeEnv::simplify(const Expr& expr) const {
  return simplify_under(expr.substitute(replacements_), facts_, symbol_ranges());
}

Predicate ShapeEnv::simplify(const Predicate& predicate) const {
  return with_relation(predicate.relation, simplify(predicate.expr));
}

Range ShapeEnv::range(const Expr& expr) const {
  const auto ranges = symbol_ranges();
  return Prover(facts_, ranges).bounds(simplify(expr));
}

std::optional<bool> ShapeEnv::prove(const Predicate& predicate) const {
  try {
    const auto ranges = symbol_ranges();
    return Prover(facts_, ranges).prove(simplify(predicate));
  } catch (const OverflowError&) {
    return std::nullopt;
  }
}

bool ShapeEnv::statically_true(const Predicate& predicate) const {
  return prove(predicate) == true;
}

bool ShapeEnv::evaluate(const Predicate& predicate, const Location& where) {
  const auto answer = branch(predicate, where);
  if (!answer) throw_data_dependent(simplify(predicate.expr), predicate, where);
  asked_.push_back({predicate, *answer, where});
  return *answer;
}

bool ShapeEnv::evaluate_or(const Predicate& predicate, bool fallback, const Location& where) {
  const auto answer = branch(predicate, where);
  if (answer) asked_.push_back({predicate, *answer, where});
  return answer.value_or(fallback);
}

// nullopt: an unbacked symbol leaves it open.
std::optional<bool> ShapeEnv::branch(const Predicate& asked, const Location& where) {
  Predicate p = simplify(asked);
  const auto ranges = symbol_ranges();
  if (const auto known = Prover(facts_, ranges).prove(p)) return known;
  p = Prover(facts_, ranges).reduced(p);
  if (const auto known = p.constant()) return known;
  if (p.expr.has_unbacked()) return branch_on_coefficients(p, where);
  const auto value = p.evaluate(hints());
  if (!value) throw_no_value(text_of(asked), p.expr, where);
  add_guard(*value ? p : p.negated(), *value ? asked : asked.negated(), where);
  return value;
}

// Where every coefficient of unbacked terms is zero under the hints, guards on just that settle the
// question for all values of the unbacked symbols.
std::optional<bool> ShapeEnv::branch_on_coefficients(const Predicate& p, const Location& where) {
  std::map<Expr, std::vector<Expr>> coefficients;  // unbacked monomial: its backed factors
  for (const auto& term : p.expr.terms()) {
    std::vector<Expr::Factor> open, known;
    for (const auto& factor : term.factors) {
      (Expr::of_atom(factor.atom).has_unbacked() ? open : known).push_back(factor);
    }
    if (open.empty()) continue;
    coefficients[monomial_expr(1, std::move(open))].push_back(
        monomial_expr(term.coefficient, std::move(known)));
  }
  std::vector<Expr> vanish;
  for (const auto& [monomial, parts] : coefficients) {
    const Expr coefficient = sum(parts);
    if (coefficient.evaluate(hints()) != 0) return std::nullopt;
    vanish.push_back(coefficient);
  }
  Expr rest = p.expr;
  for (const auto& [monomial, parts] : coefficients) rest = rest - monomial * sum(parts);
  for (const auto& coefficient : vanish) {
    if (branch(equal(coefficient, 0), where) != true) return std::nullopt;
  }
  return branch(with_relation(p.relation, rest), where);
}

// A polynomial in one symbol that is zero at the hint and, by the prover, nowhere else says that
// the symbol is the hint.
Predicate ShapeEnv::sharpened(const Predicate& guard) const {
  const auto symbols = guard.expr.symbols();
  if (guard.relation != Relation::Equal || symbols.size() != 1) return guard;
  const auto hint = record(symbols[0]).hint;
  if (!hint || guard.expr.evaluate(hints()) != 0) return guard;
  const Expr root = Expr::symbol(symbols[0]) - *hint;
  if (guard.expr == root) return guard;
  const auto division = divide(guard.expr, root);
  const bool only =
      division && division->remainder == 0 && prove(not_equal(division->quotient, 0)) == true;
  return only ? equal(root, 0) : guard;
}

void ShapeEnv::add_guard(const Predicate& guard, const Predicate& asked, const Location& where) {
  if (frozen_) {
    throw std::logic_error(
        fmt::format("{}: `{}` would add a guard to a frozen graph", where.text(), text_of(asked)));
  }
  guards_.push_back({sharpened(guard), where});
  learn(guards_.back().predicate, asked, where);
  throw_if_pinned(asked, where);
}

void ShapeEnv::check(const Predicate& predicate, const Location& where, std::string message) {
  const Predicate p = simplify(predicate);
  const auto ranges = symbol_ranges();
  const auto known = Prover(facts_, ranges).prove(p);
  if (known == true) {
    asked_.push_back({predicate, true, where});
    return;
  }
  const std::string said = message.empty() ? "" : " (" + message + ")";
  const std::string text = text_of(predicate);
  if (known == false) {
    throw ConstraintError(
        fmt::format("{}: check({}) can never hold{}{}; correct the sizes or the check",
                    where.text(), text, said, values_under_hints(predicate.expr)));
  }
  if (p.evaluate(hints()) == false) {
    throw ConstraintError(
        fmt::format("{}: check({}) does not hold{}{}; correct the sizes or the check", where.text(),
                    text, said, values_under_hints(predicate.expr)));
  }
  if (frozen_) {
    throw std::logic_error(
        fmt::format("{}: check({}) would add an assert to a frozen graph", where.text(), text));
  }
  asserts_.push_back({p, where, std::move(message)});
  learn(p, predicate, where);
  throw_if_pinned(predicate, where);
  asked_.push_back({predicate, true, where});
}

std::int64_t ShapeEnv::to_int(const Expr& expr, const Location& where) {
  const std::int64_t value = number(expr, where);
  asked_.push_back({equal(expr, value), true, where});
  return value;
}

std::int64_t ShapeEnv::number(const Expr& expr, const Location& where) {
  const Expr e = simplify(expr);
  if (const auto value = e.constant()) return *value;
  const Range known = range(e);
  if (known.lower == known.upper) return known.lower;
  if (e.has_unbacked()) throw_data_dependent_int(e, expr, where);
  const auto value = e.evaluate(hints());
  if (!value) throw_no_value(text_of(expr), e, where);
  add_guard(equal(e, *value), equal(expr, *value), where);
  return *value;
}

std::int64_t ShapeEnv::peek(const Expr& expr, std::int64_t fallback) const {
  return simplify(expr).evaluate(hints()).value_or(fallback);
}

}  // namespace lockstep::shapes
