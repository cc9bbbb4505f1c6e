#include <algorithm>
#include <set>

#include "claim.h"

namespace lockstep::shapes {

std::vector<Symbol> Conclusion::symbols() const {
  if (kind != Kind::Same) return premise.predicate.expr.symbols();
  auto out = before.symbols();
  const auto more = after.symbols();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

bool Conclusion::fails_at(const Point& point) const {
  const Valuation values = valuation_of(point);
  switch (kind) {
    case Kind::NotOther:
      return premise.predicate.evaluate(values) == !premise.value;
    case Kind::Met:
      return premise.predicate.evaluate(values) != premise.value;
    case Kind::Same:
      break;
  }
  const auto value = before.evaluate(values);
  return value && after.evaluate(values) != value;
}

void Conclusion::require_failure(SmtQuery& query) const {
  switch (kind) {
    case Kind::NotOther:
      return query.require(premise.predicate, !premise.value);
    case Kind::Met:
      return query.require_not(premise.predicate, premise.value);
    case Kind::Same:
      return query.require_other(query.value(before), query.value(after));
  }
}

Claim Claim::of(const std::vector<Premise>& all, Conclusion conclusion,
                const std::vector<ShapeEnv::SymbolRecord>& symbols) {
  const auto own = conclusion.symbols();
  std::set<Symbol> reached(own.begin(), own.end());
  std::vector<bool> taken(all.size(), false);
  for (bool grown = true; grown;) {
    grown = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto held = all[i].predicate.expr.symbols();
      const auto is_reached = [&](Symbol s) { return reached.contains(s); };
      if (taken[i] || std::none_of(held.begin(), held.end(), is_reached)) continue;
      reached.insert(held.begin(), held.end());
      taken[i] = grown = true;
    }
  }
  Claim out{{}, std::move(conclusion), {}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (taken[i]) out.premises.push_back(all[i]);
  }
  for (const auto& record : symbols) {
    if (reached.contains(record.symbol)) out.symbols.push_back(record);
  }
  return out;
}

bool Claim::fails_at(const Point& point) const {
  const Valuation values = valuation_of(point);
  return conclusion.fails_at(point) &&
         std::all_of(premises.begin(), premises.end(), [&](const Premise& premise) {
           return premise.predicate.evaluate(values) == premise.value;
         });
}

std::string Claim::query() const {
  SmtQuery query;
  for (const auto& record : symbols) query.declare(record.symbol, record.declared);
  for (const auto& premise : premises) query.require(premise.predicate, premise.value);
  conclusion.require_failure(query);
  return query.text();
}

}  // namespace lockstep::shapes
