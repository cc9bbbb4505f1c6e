#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/expr/wide.h>
#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {
namespace {

using Relation = Predicate::Relation;

Predicate as_answered(const Predicate& predicate, bool answer) {
  return answer ? predicate : predicate.negated();
}

// True for conditions on one symbol other than !=, and for "a == k*b + c".
bool is_simple(const Predicate& guard) {
  const std::size_t symbols = guard.expr.symbols().size();
  if (guard.relation == Relation::NotEqual) return false;
  if (symbols == 1) return true;
  if (symbols != 2 || guard.relation != Relation::Equal) return false;
  bool one = false;
  for (const auto& term : guard.expr.terms()) {
    if (term.factors.empty()) continue;
    if (!monomial_expr(1, term.factors).as_symbol()) return false;
    one = one || term.coefficient == 1 || term.coefficient == -1;
  }
  return one;
}

}  // namespace

ShapeEnv::ShapeEnv(ShapeOptions options)
    : options_(options),
      known_(options.complex == ShapeOptions::Complex::Assert ? Knowledge::Targets::Linear
                                                              : Knowledge::Targets::Any) {}

void ShapeEnv::add_symbol(SymbolRecord record) {
  index_[record.symbol] = symbols_.size();
  known_.add(record.symbol, record.range);
  static_cast<void>(known_.take_changed());
  pinning_.add(record.symbol, record.range, record.hint);
  if (record.constraint != Constraint::None) pinning_.watch(record.symbol);
  symbols_.push_back(std::move(record));
}

Expr ShapeEnv::backed(std::string source, std::int64_t hint, Range range, Constraint constraint) {
  if (!range.contains(hint)) {
    throw std::logic_error(fmt::format("{}: the hint {} is outside its range", source, hint));
  }
  const Symbol symbol{false, backed_count_++};
  add_symbol({symbol, std::move(source), {}, hint, range, constraint, range, range});
  return Expr::symbol(symbol);
}

Expr ShapeEnv::unbacked(std::string source, Range range, Location where) {
  const Symbol symbol{true, unbacked_count_++};
  add_symbol({symbol, std::move(source), std::move(where), std::nullopt, range, Constraint::None,
              range, range});
  return Expr::symbol(symbol);
}

void ShapeEnv::declare(const Predicate& predicate, const Location& where) {
  if (predicate.evaluate(hints()) == false) {
    fails(predicate.negated(), where);
    throw ConstraintError(
        fmt::format("{}: `{}` was declared, but it does not hold{}; correct "
                    "the sizes or the declaration",
                    where.text(), text_of(predicate), values_under_hints(predicate.expr)));
  }
  declared_.push_back({predicate, where, "declared"});
  const Predicate p = known_.simplify(predicate);
  if (known_.prove_simplified(p) == true) return;
  const Outcome outcome = take_over(p, predicate, where);
  for (const Symbol symbol : outcome.changed) {
    SymbolRecord& r = symbols_[index_.at(symbol)];
    r.promised = r.range;
  }
  throw_if_broken(predicate, where, outcome);
}

const ShapeEnv::SymbolRecord& ShapeEnv::record(Symbol symbol) const {
  const auto found = index_.find(symbol);
  if (found == index_.end()) {
    throw std::logic_error("symbol " + symbol.name() + " is not of this shape environment");
  }
  return symbols_[found->second];
}

Namer ShapeEnv::source_namer() const {
  return [this](Symbol symbol) { return record(symbol).source; };
}

Valuation ShapeEnv::hints() const {
  return [this](Symbol symbol) { return record(symbol).hint; };
}

std::optional<bool> ShapeEnv::prove(const Predicate& predicate) const {
  return known_.prove(predicate);
}

bool ShapeEnv::statically_true(const Predicate& predicate) const {
  return prove(predicate) == true;
}

bool ShapeEnv::evaluate(const Predicate& predicate, const Location& where) {
  const auto answer = branch(predicate, where);
  if (!answer) throw_data_dependent(known_.simplify(predicate), predicate, where);
  asked_.push_back({predicate, *answer, where});
  return *answer;
}

bool ShapeEnv::evaluate_or(const Predicate& predicate, bool fallback, const Location& where) {
  const auto answer = branch(predicate, where);
  if (answer) asked_.push_back({predicate, *answer, where});
  if (!answer) failed_.reset();
  return answer.value_or(fallback);
}

// The answer to a branch; nullopt: unbacked symbols leave it open.
std::optional<bool> ShapeEnv::branch(const Predicate& asked, const Location& where) {
  Predicate p = known_.simplify(asked);
  if (const auto known = known_.prove_simplified(p)) return known;
  p = known_.reduced(p);
  if (const auto known = p.constant()) return known;
  if (p.expr.has_unbacked()) return branch_on_coefficients(p, asked, where);
  const auto value = p.evaluate(hints());
  if (!value) throw_no_value(text_of(asked), p.expr, where);
  add_guard(as_answered(p, *value), as_answered(asked, *value), where);
  return value;
}

// If the coefficients of all unbacked terms are zero under the hints, adds guards that require
// this. Then the answer is the same for all values of the unbacked symbols.
std::optional<bool> ShapeEnv::branch_on_coefficients(const Predicate& p, const Predicate& asked,
                                                     const Location& where) {
  std::map<Expr, std::vector<Expr>> coefficients;  // by unbacked monomial: its backed factors
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
  bool all_vanish = true;
  for (const auto& [monomial, parts] : coefficients) {
    vanish.push_back(sum(parts));
    all_vanish = all_vanish && vanish.back().evaluate(hints()) == 0;
  }
  if (!all_vanish) {
    fails_unless_all_vanish(vanish, where);
    return std::nullopt;
  }
  Expr rest = p.expr;
  for (const auto& [monomial, parts] : coefficients) rest = rest - monomial * sum(parts);
  const std::size_t before = guards_.size();
  for (const auto& coefficient : vanish) {
    if (branch(equal(coefficient, 0), where) != true) return std::nullopt;
  }
  const auto answer = branch(predicate_of(p.relation, rest), where);
  for (std::size_t i = before; i < guards_.size(); ++i) {
    guards_[i].note = fmt::format("answers `{}` for every value of {}", text_of(asked),
                                  describe_unbacked(p.expr));
  }
  return answer;
}

// Replaces "polynomial == 0", of one symbol, by "symbol == hint", if the polynomial is zero at the
// hint and provably nowhere else.
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

bool ShapeEnv::becomes_assert(const Predicate& guard) const {
  return options_.complex == ShapeOptions::Complex::Assert && !is_simple(guard);
}

void ShapeEnv::add_guard(const Predicate& guard, const Predicate& asked, const Location& where,
                         const Expr* number) {
  if (becomes_assert(guard)) {
    return add_assert(guard, asked, where, "the branch that was traced is right for this only");
  }
  if (frozen_) {
    throw std::logic_error(
        fmt::format("{}: `{}` would add a guard to a frozen graph", where.text(), text_of(asked)));
  }
  fails(guard, where);
  throw_if_tied(guard, asked, where, number);
  guards_.push_back({sharpened(guard), where, {}});
  learn(guards_.back().predicate, asked, where);
  failed_.reset();
}

void ShapeEnv::add_assert(const Predicate& assert, const Predicate& asked, const Location& where,
                          std::string message) {
  if (frozen_) {
    throw std::logic_error(fmt::format("{}: check({}) would add an assert to a frozen graph",
                                       where.text(), text_of(asked)));
  }
  fails(assert, where);
  asserts_.push_back({assert, where, std::move(message)});
  learn(assert, asked, where);
  failed_.reset();
}

// Learns the fact; throws if it contradicts another fact or breaks a constraint.
void ShapeEnv::learn(const Predicate& fact, const Predicate& asked, const Location& where) {
  throw_if_broken(asked, where, take_over(fact, asked, where));
}

ShapeEnv::Outcome ShapeEnv::take_over(const Predicate& fact, const Predicate& asked,
                                      const Location& where) {
  if (!known_.learn_open(fact)) {
    throw ConstraintError(fmt::format(
        "{}: `{}` contradicts what earlier checks and branches say{}; correct one of them",
        where.text(), text_of(asked), because(fact.negated(), nullptr, ": ")));
  }
  Outcome out{known_.take_changed(), pinning_.say(asked, where)};
  for (const Symbol symbol : out.changed) symbols_[index_.at(symbol)].range = known_.range(symbol);
  return out;
}

void ShapeEnv::check(const Predicate& predicate, const Location& where, std::string message) {
  const Predicate p = known_.simplify(predicate);
  const auto known = known_.prove_simplified(p);
  const std::string said = message.empty() ? "" : " (" + message + ")";
  if (known == false || p.evaluate(hints()) == false) {
    fails(p.negated(), where);
    throw ConstraintError(fmt::format("{}: check({}) {}{}{}; correct the sizes or the check",
                                      where.text(), text_of(predicate),
                                      known == false ? "can never hold" : "does not hold", said,
                                      values_under_hints(predicate.expr)));
  }
  if (known != true) add_assert(p, predicate, where, std::move(message));
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
  if (e.has_unbacked()) {
    fails(std::nullopt, where);
    throw_data_dependent_int(e, expr, where);
  }
  const auto value = e.evaluate(hints());
  if (!value) throw_no_value(text_of(expr), e, where);
  add_guard(equal(e, *value), equal(expr, *value), where, &expr);
  guards_.back().note = fmt::format("fixes {} to {}", text_of(expr), *value);
  return *value;
}

std::int64_t ShapeEnv::isqrt(const Expr& expr, const Location& where) {
  const Expr e = simplify(expr);
  const Range known = range(e);
  const auto value = known.lower == known.upper ? std::optional(known.lower) : e.evaluate(hints());
  if (e.has_unbacked() && known.lower != known.upper) {
    fails(std::nullopt, where);
    throw_data_dependent_int(e, expr, where);
  }
  if (!value) throw_no_value(text_of(expr), e, where);
  if (*value < 0) {
    fails(less(e, 0), where);
    throw ConstraintError(
        fmt::format("{}: the square root of `{}` is asked for, but that is {}; test that it is not "
                    "negative before",
                    where.text(), text_of(expr), *value));
  }
  auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(*value)));
  while (Wide{root} * root > *value) --root;
  while (Wide{root + 1} * (root + 1) <= *value) ++root;
  const Wide above = Wide{root + 1} * (root + 1);
  static_cast<void>(evaluate(greater_equal(expr, root * root), where));
  if (fits_int64(above)) {
    static_cast<void>(evaluate(less(expr, static_cast<std::int64_t>(above)), where));
  }
  return root;
}

std::int64_t ShapeEnv::peek(const Expr& expr, std::int64_t fallback) const {
  return simplify(expr).evaluate(hints()).value_or(fallback);
}

}  // namespace lockstep::shapes
