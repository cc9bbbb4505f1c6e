#include <algorithm>
#include <numeric>
#include <utility>

#include <lockstep/shapes/expr/evaluation.h>
#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/facts/only_value.h>
#include <lockstep/shapes/pinning.h>

namespace lockstep::shapes {
namespace {

using Relation = Predicate::Relation;

// Limits that count steps, equal on every rank. Past a limit a symbol does not count as pinned.
constexpr int kFuelAtFirst = 100000, kFuelPerPredicate = 200, kMostFuel = 200000;
constexpr std::size_t kMaxSaid = 48;    // maximum number of predicates that a question uses
constexpr std::size_t kMaxMended = 64;  // maximum number of predicates mended for one point
constexpr int kMaxDoublings = 12;       // maximum number of doublings of a step from the hint
constexpr std::int64_t kMostDivisor = 1LL << 30;

// A common multiple of the numbers by which the expression divides, as far as it is within the
// limit.
std::int64_t divisor_of(const Expr& e) {
  std::int64_t out = 1;
  for (const auto& term : e.terms()) {
    for (const auto& factor : term.factors) {
      for (const auto& operand : factor.atom->operands) {
        const std::int64_t inner = divisor_of(operand);
        if (inner < kMostDivisor / out) out = std::lcm(out, inner);
      }
      const auto op = factor.atom->op;
      if (op != Expr::Op::FloorDiv && op != Expr::Op::Mod) continue;
      const auto n = factor.atom->operands[1].constant();
      if (n && *n > 0 && *n < kMostDivisor / out) out = std::lcm(out, *n);
    }
  }
  return out;
}

}  // namespace

void Pinning::add(Symbol symbol, Range declared, std::optional<std::int64_t> hint) {
  records_[symbol] = {declared, hint, {}, symbol};
}

void Pinning::watch(Symbol symbol) {
  const Record& record = records_.at(symbol);
  if (record.declared.lower == record.declared.upper) return;
  if (others_.empty() && without_other_.empty()) fuel_ = kFuelAtFirst;
  const std::int64_t up = *record.hint < record.declared.upper ? 1 : -1;
  remember(symbol, Point{{symbol, *record.hint + up}});
}

std::vector<Symbol> Pinning::say(const Predicate& predicate, const Location& where) {
  said_.push_back({predicate, where});
  if (others_.empty() && without_other_.empty()) return {};
  for (; linked_ < said_.size(); ++linked_) link(said_[linked_].predicate);
  fuel_ = std::min(fuel_ + kFuelPerPredicate, kMostFuel);
  std::vector<Symbol> out;
  for (const Symbol symbol : doubtful(predicate)) {
    remember(symbol, another(symbol));
    if (!others_.contains(symbol) && is_pinned(symbol)) out.push_back(symbol);
  }
  return out;
}

Symbol Pinning::all_linked(Symbol symbol) const {
  for (;;) {
    const Symbol next = records_.at(symbol).linked;
    if (next == symbol) return symbol;
    symbol = next;
  }
}

void Pinning::link(const Predicate& predicate) {
  const auto symbols = predicate.expr.symbols();
  std::int64_t divisor = divisor_of(predicate.expr);
  if (symbols.empty()) return;
  const Symbol first = all_linked(symbols[0]);
  for (const Symbol symbol : symbols) {
    records_.at(symbol).said.push_back(linked_);
    Record& root = records_.at(all_linked(symbol));
    if (root.divisor < kMostDivisor / divisor) divisor = std::lcm(divisor, root.divisor);
    root.linked = first;
    records_.at(symbol).linked = first;
  }
  records_.at(first).divisor = divisor;
}

// The watched symbols whose second point breaks the predicate, and the watched symbols linked to
// the predicate that have no second point.
std::set<Symbol> Pinning::doubtful(const Predicate& predicate) const {
  std::set<Symbol> out;
  const auto symbols = predicate.expr.symbols();
  if (symbols.empty()) return out;
  for (const Symbol symbol : symbols) {
    const auto found = moved_by_.find(symbol);
    if (found == moved_by_.end()) continue;
    for (const Symbol watched : found->second)
      if (!out.contains(watched) && !holds(predicate, others_.at(watched))) out.insert(watched);
  }
  const Symbol root = all_linked(symbols[0]);
  for (const Symbol symbol : without_other_)
    if (all_linked(symbol) == root) out.insert(symbol);
  return out;
}

bool Pinning::holds(const Predicate& predicate, const Point& moved) const {
  return predicate.evaluate([&](Symbol symbol) -> std::optional<std::int64_t> {
    const auto found = moved.find(symbol);
    return found == moved.end() ? records_.at(symbol).hint : std::optional(found->second);
  }) == true;
}

void Pinning::remember(Symbol symbol, std::optional<Point> other) {
  if (const auto old = others_.find(symbol); old != others_.end()) {
    for (const auto& [moved, value] : old->second) moved_by_[moved].erase(symbol);
    others_.erase(old);
  }
  without_other_.erase(symbol);
  if (!other) {
    without_other_.insert(symbol);
    return;
  }
  for (const auto& [moved, value] : *other) moved_by_[moved].insert(symbol);
  others_[symbol] = *std::move(other);
}

// A point that satisfies all predicates and at which the symbol does not have its hint. Searches
// near the hint: at distances of 1 to 3, and of multiples of the divisors.
std::optional<Pinning::Point> Pinning::another(Symbol symbol) {
  const Record& record = records_.at(symbol);
  const std::int64_t divisor = records_.at(all_linked(symbol)).divisor;
  std::vector<std::int64_t> steps = {1, 2, 3};
  for (int i = 0; i <= kMaxDoublings; ++i) steps.push_back(divisor << i);
  for (const std::int64_t step : steps) {
    for (const std::int64_t signed_step : {step, -step}) {
      Wide value = 0;
      if (fuel_ <= 0 || !add_wide(*record.hint, signed_step, value) || !fits_int64(value) ||
          !record.declared.contains(static_cast<std::int64_t>(value)))
        continue;
      if (auto out = moved_to(symbol, static_cast<std::int64_t>(value))) return out;
    }
  }
  return std::nullopt;
}

// A point that satisfies all predicates and at which the symbol has the value. Also moves other
// symbols, if predicates would not hold otherwise.
std::optional<Pinning::Point> Pinning::moved_to(Symbol symbol, std::int64_t value) {
  Point moved{{symbol, value}};
  std::vector<std::size_t> open = records_.at(symbol).said;
  std::size_t mended = 0;
  for (std::size_t i = 0; i < open.size(); ++i) {
    const Predicate& predicate = said_[open[i]].predicate;
    fuel_ -= static_cast<int>(1 + predicate.expr.terms().size());
    if (fuel_ <= 0) return std::nullopt;
    if (holds(predicate, moved)) continue;
    std::vector<Symbol> set;
    if (++mended > kMaxMended || !mend(predicate, moved, set)) return std::nullopt;
    for (const Symbol one : set) {
      const auto& said = records_.at(one).said;
      open.insert(open.end(), said.begin(), said.end());
    }
  }
  return moved;
}

// Gives one symbol that has not been moved a value at which the predicate holds. Symbols without a
// hint get the allowed value nearest to zero; the last of them may get another value.
bool Pinning::mend(const Predicate& predicate, Point& moved, std::vector<Symbol>& set) const {
  std::vector<Symbol> free;
  std::optional<Symbol> unknown;
  for (const Symbol symbol : predicate.expr.symbols()) {
    if (moved.contains(symbol)) continue;
    const Record& record = records_.at(symbol);
    if (!record.hint) {
      if (unknown) free.pop_back();
      if (unknown) set.push_back(*unknown);
      moved[symbol] = std::clamp<std::int64_t>(0, record.declared.lower, record.declared.upper);
      unknown = symbol;
    }
    free.push_back(symbol);
  }
  if (unknown) {
    free = {*unknown};
    set.push_back(*unknown);
    if (holds(predicate, moved)) return true;
  }
  for (auto it = free.rbegin(); it != free.rend(); ++it) {
    const auto value = solved(predicate, *it, moved);
    if (!value || !records_.at(*it).declared.contains(*value)) continue;
    const auto before = moved.find(*it) == moved.end() ? std::nullopt : std::optional(moved[*it]);
    moved[*it] = *value;
    if (holds(predicate, moved)) {
      if (!unknown) set.push_back(*it);
      return true;
    }
    if (before) {
      moved[*it] = *before;
    } else {
      moved.erase(*it);
    }
  }
  return false;
}

// The value of a linear symbol at which the predicate holds and its expression is as near to zero
// as possible; nullopt: there is none.
std::optional<std::int64_t> Pinning::solved(const Predicate& predicate, Symbol symbol,
                                            const Point& moved) const {
  const std::int64_t c = sole_coefficient(predicate.expr, symbol);
  if (c == 0) return std::nullopt;
  const auto rest = evaluate_wide(predicate.expr, [&](Symbol s) -> std::optional<std::int64_t> {
    if (s == symbol) return 0;
    const auto found = moved.find(s);
    return found == moved.end() ? records_.at(s).hint : std::optional(found->second);
  });
  if (!rest || !fits_int64(*rest)) return std::nullopt;
  Wide out = 0;
  const Wide wanted = predicate.relation == Relation::NotEqual ? 1 - *rest : -*rest;
  static_cast<void>(floor_divide_wide(wanted, c, out));
  if (out * c < wanted) ++out;
  if (predicate.relation == Relation::Equal && out * c != wanted) return std::nullopt;
  return fits_int64(out) ? std::optional(static_cast<std::int64_t>(out)) : std::nullopt;
}

bool Pinning::is_pinned(Symbol symbol) {
  std::vector<Predicate> predicates;
  for (const std::size_t i : nearest(symbol)) predicates.push_back(said_[i].predicate);
  int fuel = std::min(fuel_, kFuelPerQuestion);
  const int before = fuel;
  const SymbolRanges ranges = [this](Symbol s) { return records_.at(s).declared; };
  const bool out = is_only_value(symbol, *records_.at(symbol).hint, predicates, ranges, fuel);
  fuel_ -= before - fuel;
  return out;
}

// Collects the predicates that mention the symbol, then the predicates that mention a symbol of
// these, and so on. Order within a round: predicates with fewer symbols first, then later
// predicates first.
std::vector<std::size_t> Pinning::nearest(Symbol symbol) const {
  std::set<std::size_t> taken;
  std::set<Symbol> reached = {symbol}, next = {symbol};
  while (!next.empty() && taken.size() < kMaxSaid) {
    std::set<std::pair<std::size_t, std::size_t>> open;  // number of symbols, place from the end
    for (const Symbol one : next)
      for (const std::size_t i : records_.at(one).said)
        if (!taken.contains(i))
          open.insert({said_[i].predicate.expr.symbols().size(), said_.size() - i});
    next.clear();
    for (const auto& [count, from_end] : open) {
      if (taken.size() == kMaxSaid) break;
      const std::size_t i = said_.size() - from_end;
      taken.insert(i);
      for (const Symbol one : said_[i].predicate.expr.symbols())
        if (reached.insert(one).second) next.insert(one);
    }
  }
  return {taken.begin(), taken.end()};
}

std::vector<Guard> Pinning::predicates_about(Symbol symbol) const {
  std::vector<Guard> out;
  for (const std::size_t i : nearest(symbol))
    if (i + 1 != said_.size()) out.push_back(said_[i]);
  return out;
}

}  // namespace lockstep::shapes
