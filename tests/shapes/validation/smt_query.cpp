#include <fmt/format.h>
#include <fmt/ranges.h>

#include "smt_query.h"

namespace lockstep::shapes {
namespace {

std::string numeral(std::int64_t n) {
  if (n >= 0) return std::to_string(n);
  return fmt::format("(- {})", 0 - static_cast<std::uint64_t>(n));
}

bool is_numeral(const std::string& text) {
  return text[0] != '(' ? text[0] >= '0' && text[0] <= '9'
                        : text.size() > 3 && text[1] == '-' && text[3] >= '0' && text[3] <= '9' &&
                              text.find(' ', 3) == std::string::npos;
}

std::vector<std::string> joined(const SmtValue& a, const SmtValue& b) {
  std::vector<std::string> out = a.divisors;
  out.insert(out.end(), b.divisors.begin(), b.divisors.end());
  return out;
}

std::string conjunction(const std::vector<std::string>& conditions) {
  return conditions.empty() ? "true" : fmt::format("(and {})", fmt::join(conditions, " "));
}

std::string defined(const SmtValue& value) {
  std::vector<std::string> conditions;
  for (const auto& divisor : value.divisors) {
    conditions.push_back(fmt::format("(distinct {} 0)", divisor));
  }
  return conjunction(conditions);
}

std::string truth(Predicate::Relation relation, const std::string& e, bool value) {
  switch (relation) {
    case Predicate::Relation::Equal:
      return fmt::format("({} {} 0)", value ? "=" : "distinct", e);
    case Predicate::Relation::NotEqual:
      return fmt::format("({} {} 0)", value ? "distinct" : "=", e);
    case Predicate::Relation::NonNegative:
      break;
  }
  return fmt::format("({} {} 0)", value ? ">=" : "<", e);
}

}  // namespace

void SmtQuery::add_assertion(const std::string& condition) {
  text_ += fmt::format("(assert {})\n", condition);
}

std::string SmtQuery::fresh(const char* prefix) {
  const std::string name = fmt::format("{}!{}", prefix, fresh_++);
  text_ += fmt::format("(declare-const {} Int)\n", name);
  return name;
}

void SmtQuery::declare(Symbol symbol, const Range& range) {
  text_ += fmt::format("(declare-const {} Int)\n", symbol.name());
  add_assertion(
      fmt::format("(<= {} {} {})", numeral(range.lower), symbol.name(), numeral(range.upper)));
}

SmtValue SmtQuery::number(std::int64_t n) { return {numeral(n), {}}; }
SmtValue SmtQuery::symbol(Symbol symbol) { return {symbol.name(), {}}; }

SmtValue SmtQuery::add(const SmtValue& a, const SmtValue& b) {
  return {fmt::format("(+ {} {})", a.text, b.text), joined(a, b)};
}

SmtValue SmtQuery::multiply(const SmtValue& a, const SmtValue& b) {
  return {fmt::format("(* {} {})", a.text, b.text), joined(a, b)};
}

// a == b*q + r with r between zero and b, by which q is the quotient rounded down.
std::pair<std::string, std::string> SmtQuery::division(const SmtValue& a, const SmtValue& b) {
  const auto [found, added] = divisions_.try_emplace({a.text, b.text});
  auto& [q, r] = found->second;
  if (!added) return found->second;
  q = fresh("q");
  r = fresh("r");
  const bool is_number = is_numeral(b.text);
  const auto within = [&](const char* when, const std::string& then) {
    add_assertion(is_number ? then : fmt::format("(=> ({} {} 0) {})", when, b.text, then));
  };
  if (b.text == "0") return found->second;
  within("distinct", fmt::format("(= {} (+ (* {} {}) {}))", a.text, b.text, q, r));
  if (!is_number || b.text[0] != '(')
    within(">", fmt::format("(and (<= 0 {}) (< {} {}))", r, r, b.text));
  if (!is_number || b.text[0] == '(')
    within("<", fmt::format("(and (< {} {}) (<= {} 0))", b.text, r, r));
  return found->second;
}

SmtValue SmtQuery::floor_div(const SmtValue& a, const SmtValue& b) {
  auto divisors = joined(a, b);
  divisors.push_back(b.text);
  return {division(a, b).first, std::move(divisors)};
}

SmtValue SmtQuery::mod(const SmtValue& a, const SmtValue& b) {
  auto divisors = joined(a, b);
  divisors.push_back(b.text);
  return {division(a, b).second, std::move(divisors)};
}

SmtValue SmtQuery::extreme(const SmtValue& a, const SmtValue& b, const char* relation) {
  const std::string key = fmt::format("({} {} {})", relation, a.text, b.text);
  const auto [found, added] = extremes_.try_emplace(key);
  if (added) {
    std::string& m = found->second = fresh("m");
    add_assertion(fmt::format("(and ({0} {1} {2}) ({0} {1} {3}) (or (= {1} {2}) (= {1} {3})))",
                              relation, m, a.text, b.text));
  }
  return {found->second, joined(a, b)};
}

SmtValue SmtQuery::min(const SmtValue& a, const SmtValue& b) { return extreme(a, b, "<="); }
SmtValue SmtQuery::max(const SmtValue& a, const SmtValue& b) { return extreme(a, b, ">="); }

SmtValue SmtQuery::atom(const Expr::Atom& atom) {
  if (atom.op == Expr::Op::Symbol) return symbol(atom.symbol);
  SmtValue out = value(atom.operands[0]);
  for (std::size_t i = 1; i < atom.operands.size(); ++i) {
    const SmtValue next = value(atom.operands[i]);
    switch (atom.op) {
      case Expr::Op::FloorDiv:
        out = floor_div(out, next);
        break;
      case Expr::Op::Mod:
        out = mod(out, next);
        break;
      case Expr::Op::Min:
        out = min(out, next);
        break;
      case Expr::Op::Max:
        out = max(out, next);
        break;
      case Expr::Op::Symbol:
        break;
    }
  }
  return out;
}

SmtValue SmtQuery::value(const Expr& e) {
  SmtValue out = number(0);
  bool first = true;
  for (const auto& term : e.terms()) {
    SmtValue product = number(term.coefficient);
    bool one = term.coefficient == 1;
    for (const auto& factor : term.factors) {
      const SmtValue base = atom(*factor.atom);
      for (std::uint32_t i = 0; i < factor.power; ++i) {
        product = std::exchange(one, false) ? base : multiply(product, base);
      }
    }
    out = std::exchange(first, false) ? product : add(out, product);
  }
  return out;
}

void SmtQuery::require(const Predicate& predicate, bool value) {
  const SmtValue e = this->value(predicate.expr);
  add_assertion(defined(e));
  add_assertion(truth(predicate.relation, e.text, value));
}

void SmtQuery::require_not(const Predicate& predicate, bool value) {
  const SmtValue e = this->value(predicate.expr);
  add_assertion(
      fmt::format("(not (and {} {}))", defined(e), truth(predicate.relation, e.text, value)));
}

void SmtQuery::require_not_all(const std::vector<Predicate>& predicates) {
  std::vector<std::string> parts;
  for (const Predicate& predicate : predicates) {
    const SmtValue e = value(predicate.expr);
    parts.push_back(
        fmt::format("(and {} {})", defined(e), truth(predicate.relation, e.text, true)));
  }
  add_assertion(fmt::format("(not {})", conjunction(parts)));
}

void SmtQuery::require(const SmtValue& a, const char* relation, const SmtValue& b) {
  add_assertion(defined(a));
  add_assertion(defined(b));
  add_assertion(fmt::format("({} {} {})", relation, a.text, b.text));
}

void SmtQuery::require_other(const SmtValue& before, const SmtValue& after) {
  add_assertion(defined(before));
  add_assertion(fmt::format("(not (and {} (= {} {})))", defined(after), before.text, after.text));
}

}  // namespace lockstep::shapes
