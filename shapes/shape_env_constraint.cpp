// The user's constraints on symbols: finds out whether a guard or assert breaks one, and why.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <lockstep/shapes/facts/declaration.h>
#include <lockstep/shapes/facts/facts.h>
#include <lockstep/shapes/facts/only_value.h>
#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {
namespace {

// A limit by number, so that every rank makes the same attempts.
constexpr std::size_t kMaxReasons = 48;

// "x.size(0)" as the arguments of the functions that mark dims: "x, 0"; nullopt for other sources.
std::optional<std::string> dim_arguments(const std::string& source) {
  const std::size_t at = source.rfind(".size(");
  if (at == std::string::npos || source.back() != ')') return std::nullopt;
  return source.substr(0, at) + ", " + source.substr(at + 6, source.size() - at - 7);
}

bool mentions_any(const Expr& e, const std::set<Symbol>& symbols) {
  const auto all = e.symbols();
  return std::any_of(all.begin(), all.end(), [&](Symbol s) { return symbols.contains(s); });
}

}  // namespace

// The accepted predicates that share symbols with the conclusion, directly or through other
// predicates; if there are too many, the latest of these.
std::vector<ShapeEnv::Asked> ShapeEnv::linked(const Predicate& conclusion,
                                              const Predicate* also) const {
  std::vector<Asked> all;
  for (const Guard& guard : declared_) all.push_back({guard.predicate, true, guard.where});
  for (const Asked& asked : asked_)
    all.push_back({asked.answer ? asked.predicate : asked.predicate.negated(), true, asked.where});

  std::set<Symbol> linked;
  const auto link = [&](const Expr& e) {
    for (const Symbol s : e.symbols()) linked.insert(s);
  };
  link(conclusion.expr);
  if (also) link(also->expr);
  for (std::size_t before = 0; before != linked.size();) {
    before = linked.size();
    for (const Asked& one : all)
      if (mentions_any(one.predicate.expr, linked)) link(one.predicate.expr);
  }
  std::erase_if(all, [&](const Asked& one) { return !mentions_any(one.predicate.expr, linked); });
  if (all.size() > kMaxReasons) all.erase(all.begin(), all.end() - kMaxReasons);
  return all;
}

bool ShapeEnv::forces(const std::vector<Asked>& some, const Predicate* also,
                      const Predicate& conclusion) const {
  std::vector<Predicate> premises;
  for (const Asked& one : some) premises.push_back(one.predicate);
  if (also) premises.push_back(*also);
  std::set<Symbol> symbols;
  for (const Symbol s : conclusion.expr.symbols()) symbols.insert(s);
  for (const Predicate& one : premises)
    for (const Symbol s : one.expr.symbols()) symbols.insert(s);
  Knowledge known;
  for (const Symbol s : symbols) known.add(s, record(s).declared);
  for (const Predicate& one : premises)
    if (!known.learn(one)) return true;
  if (known.prove(conclusion) == true) return true;
  const Direction d = direction_of(conclusion.expr);
  const auto symbol = d.direction.as_symbol();
  if (!symbol || conclusion.relation != Predicate::Relation::Equal) return false;
  int fuel = Pinning::kFuelPerQuestion;
  return is_only_value(
      *symbol, -d.offset, premises, [&](Symbol s) { return record(s).declared; }, fuel);
}

// A minimal subset of `all` from which, together with `also`, the conclusion follows: no member can
// be left out. Empty if no member is needed, or if the conclusion is not proven.
std::vector<ShapeEnv::Asked> ShapeEnv::needed(std::vector<Asked> all, const Predicate* also,
                                              const Predicate& conclusion) const {
  if (!forces(all, also, conclusion)) return {};
  for (std::size_t i = all.size(); i-- > 0;) {
    std::vector<Asked> fewer = all;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (forces(fewer, also, conclusion)) all = std::move(fewer);
  }
  return all;
}

std::string ShapeEnv::list_of(const std::vector<Asked>& reasons, std::string_view opening) const {
  std::string out;
  for (const Asked& reason : reasons)
    out += fmt::format("{}`{}` at {}", out.empty() ? opening : ", ", text_of(reason.predicate),
                       reason.where.text());
  return out;
}

std::string ShapeEnv::because(const Predicate& conclusion, const Predicate* also,
                              std::string_view opening) const {
  return list_of(needed(linked(conclusion, also), also, conclusion), opening);
}

void ShapeEnv::throw_if_broken(const Predicate& asked, const Location& where,
                               const Outcome& outcome) const {
  for (const Symbol symbol : std::set<Symbol>(outcome.changed.begin(), outcome.changed.end())) {
    const SymbolRecord& r = record(symbol);
    if (r.constraint == Constraint::None) continue;
    if (const auto value = known_.number(symbol); value && r.declared.lower != r.declared.upper)
      throw_pinned(r, *value, asked, where);
    if (r.constraint == Constraint::WholeRange && r.range != r.promised)
      throw_narrowed(r, asked, where);
  }
  for (const Symbol symbol : outcome.pinned)
    throw_pinned(record(symbol), *record(symbol).hint, asked, where);
}

void ShapeEnv::throw_pinned(const SymbolRecord& r, std::int64_t value, const Predicate& asked,
                            const Location& where) const {
  const auto arguments = dim_arguments(r.source);
  const Predicate conclusion = equal(Expr::symbol(r.symbol), value);
  std::vector<Asked> near;
  for (const Guard& said : pinning_.predicates_about(r.symbol))
    near.push_back({said.predicate, true, said.where});
  auto reasons = needed(near, &asked, conclusion);
  if (reasons.empty()) reasons = needed(linked(conclusion, &asked), &asked, conclusion);
  throw ConstraintError(fmt::format(
      "{}: `{}`{} fixes {} to {}, but that dim is marked dynamic; write code that is right for "
      "every size, or, if it always is {}, {}",
      where.text(), text_of(asked), list_of(reasons, " together with "), r.source, value, value,
      arguments ? fmt::format("call mark_static({}) or remove the mark", *arguments)
                : "remove the mark"));
}

void ShapeEnv::throw_narrowed(const SymbolRecord& r, const Predicate& asked,
                              const Location& where) const {
  const Expr e = Expr::symbol(r.symbol);
  const bool below = r.range.upper < r.promised.upper;
  const Predicate bound = below ? less_equal(e, r.range.upper) : greater_equal(e, r.range.lower);
  throw ConstraintError(fmt::format(
      "{}: `{}`{} leaves {} only {}, but it was declared to be {}; write code that is right for "
      "all of it, or {}",
      where.text(), text_of(asked), because(bound, &asked, " together with "), r.source,
      range_text(r.range), range_text(r.promised), to_declare(bound, r)));
}

// The advice to declare the predicate, as code to paste.
std::string ShapeEnv::to_declare(const Predicate& predicate, const SymbolRecord& r) const {
  return fmt::format("declare \"{}\" in the frame's constraints",
                     declaration_text(predicate, r.symbol, r.declared, *r.hint, source_namer()));
}

// Throws the error for a guard that ties a symbol whose whole range was promised.
void ShapeEnv::throw_if_tied(const Predicate& guard, const Predicate& asked, const Location& where,
                             const Expr* number) const {
  std::vector<const SymbolRecord*> promised;
  for (const Symbol s : guard.expr.symbols())
    if (record(s).constraint == Constraint::WholeRange) promised.push_back(&record(s));
  if (promised.empty()) return;
  const bool alone = guard.expr.symbols().size() == 1;
  // For a bound of one symbol throw_narrowed() makes the error, which shows the range that the
  // bound leaves.
  if (alone && direction_of(guard.expr).direction.as_symbol() &&
      guard.relation != Predicate::Relation::NotEqual)
    return;
  const std::string asks = number ? fmt::format("to_int({})", text_of(*number))
                                  : fmt::format("this branch on `{}`", text_of(asked));
  throw ConstraintError(
      fmt::format("{}: {} was traced for sizes with `{}` only, but {} was declared to be {}{}; {}, "
                  "or {}",
                  where.text(), asks, text_of(guard), promised[0]->source,
                  range_text(promised[0]->promised), alone ? "" : ", whatever the other sizes are",
                  number ? "keep the size symbolic" : "write code that is right either way",
                  to_declare(guard, *promised[0])));
}

}  // namespace lockstep::shapes
