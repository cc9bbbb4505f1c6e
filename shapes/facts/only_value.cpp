#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <lockstep/shapes/expr/polynomial.h>
#include <lockstep/shapes/facts/facts.h>
#include <lockstep/shapes/facts/linear_system.h>
#include <lockstep/shapes/facts/only_value.h>

namespace lockstep::shapes {
namespace {

using Relation = Predicate::Relation;
using Row = LinearSystem::Row;
using Variable = LinearSystem::Variable;

constexpr Wide kMaxTried = 4096;
constexpr std::size_t kMaxCounted = 8;  // symbols whose values are counted

/// Predicates as linear relations of unknowns. These are the symbols, a quotient q for each
/// division of an x by a number n (n*q <= x < n*q + n), and one unknown for each product, minimum,
/// maximum or other division.
class LinearForm {
 public:
  explicit LinearForm(const SymbolRanges& ranges) : ranges_(ranges) {}

  void require(const Predicate& predicate) {
    const bool was_exact = exact_;
    exact_ = true;
    if (const auto row = row_of(predicate.expr)) system_.require(predicate.relation, *row);
    if (!exact_)
      for (const Symbol symbol : predicate.expr.symbols()) unclear_.insert(symbol);
    exact_ = exact_ && was_exact;
  }
  Variable variable_of(Symbol symbol) { return variable_of(Expr::symbol(symbol)); }
  [[nodiscard]] const LinearSystem& system() const { return system_; }
  /// The symbols of predicates that the relations express only in part.
  [[nodiscard]] const std::set<Symbol>& unclear() const { return unclear_; }

 private:
  // The row of the expression; nullopt: a number does not fit.
  std::optional<Row> row_of(const Expr& e) {
    std::optional<Row> out = Row{};
    for (const auto& term : e.terms()) {
      if (!out) return out;
      if (term.factors.empty()) {
        out = LinearSystem::sum(*out, 1, {{}, term.coefficient});
        continue;
      }
      const auto part = row_of_monomial(monomial_expr(1, term.factors));
      out = part ? LinearSystem::sum(*out, term.coefficient, *part) : std::nullopt;
    }
    return out;
  }

  std::optional<Row> row_of_monomial(const Expr& monomial) {
    for (const Expr::Op op : {Expr::Op::FloorDiv, Expr::Op::Mod}) {
      const Expr::Atom* atom = as_atom(monomial, op);
      const auto n = atom ? atom->operands[1].constant() : std::nullopt;
      if (!n || *n < 1) continue;
      const auto quotient = quotient_of(atom->operands[0], *n);
      if (!quotient || op == Expr::Op::FloorDiv) return quotient;
      const auto x = row_of(atom->operands[0]);
      return x ? LinearSystem::sum(*x, -*n, *quotient) : x;
    }
    return Row{{{variable_of(monomial), 1}}, 0};
  }

  std::optional<Row> quotient_of(const Expr& x, std::int64_t n) {
    const auto [place, is_new] = quotients_.try_emplace({x, n}, next_);
    const Row quotient{{{place->second, 1}}, 0};
    if (!is_new) return quotient;
    ++next_;
    const auto row = row_of(x);
    const auto rest = row ? LinearSystem::sum(*row, -n, quotient) : row;
    if (!rest) return rest;
    system_.require(Relation::NonNegative, *rest);
    const auto above = LinearSystem::sum({{}, n - 1}, -1, *rest);
    if (above) system_.require(Relation::NonNegative, *above);
    return quotient;
  }

  Variable variable_of(const Expr& monomial) {
    const bool is_symbol = monomial.as_symbol().has_value();
    exact_ = exact_ && is_symbol;
    const auto [place, is_new] = variables_.try_emplace(monomial, next_);
    const Variable out = place->second;
    if (!is_new) return out;
    ++next_;
    const Range range = range_of(monomial, ranges_);
    const Row row{{{out, 1}}, 0};
    if (range.lower != Range::kMin) bound(1, row, range.lower);
    if (range.upper != Range::kMax) bound(-1, row, range.upper);
    if (!is_symbol) relate_to_parts(monomial, row);
    return out;
  }

  // Requires sign*(row - value) >= 0.
  void bound(Wide sign, const Row& row, Wide value) {
    if (const auto out = LinearSystem::sum({{}, -sign * value}, sign, row))
      system_.require(Relation::NonNegative, *out);
  }

  // Adds linear relations that hold for an unknown. For example, a minimum is at most each operand;
  // a product of two factors with lower bounds satisfies (x - lower_x)*(y - lower_y) >= 0.
  void relate_to_parts(const Expr& monomial, const Row& row) {
    for (const Expr::Op op : {Expr::Op::Min, Expr::Op::Max}) {
      const Expr::Atom* atom = as_atom(monomial, op);
      if (atom == nullptr) continue;
      for (const Expr& operand : atom->operands) {
        const auto other = row_of(operand);
        const auto beyond = other ? LinearSystem::sum(row, -1, *other) : other;
        if (beyond) bound(op == Expr::Op::Max ? 1 : -1, *beyond, 0);
      }
      exact_ = false;
    }
    std::vector<Expr> factors;
    for (const auto& factor : monomial.terms()[0].factors)
      factors.insert(factors.end(), std::min<std::uint32_t>(factor.power, 3),
                     Expr::of_atom(factor.atom));
    if (factors.size() != 2) return;
    const Range x = range_of(factors[0], ranges_), y = range_of(factors[1], ranges_);
    if (x.lower == Range::kMin || y.lower == Range::kMin) return;
    const auto a = row_of(factors[0]), b = row_of(factors[1]);
    auto out = a && b ? LinearSystem::sum(row, -Wide{y.lower}, *a) : std::nullopt;
    if (out) out = LinearSystem::sum(*out, -Wide{x.lower}, *b);
    if (out) bound(1, *out, -Wide{x.lower} * y.lower);
    exact_ = false;
  }

  const SymbolRanges& ranges_;
  LinearSystem system_;
  std::map<Expr, Variable> variables_;
  std::map<std::pair<Expr, std::int64_t>, Variable> quotients_;
  std::set<Symbol> unclear_;
  Variable next_ = 0;
  bool exact_ = true;
};

class Refutation {
 public:
  Refutation(const SymbolRanges& ranges, int& fuel) : ranges_(ranges), fuel_(fuel) {}

  /// True: no values satisfy all predicates. Throws OverflowError.
  bool of(const std::vector<Predicate>& all) {
    LinearForm form(ranges_);
    for (const Predicate& predicate : all) {
      if (predicate.constant() == false) return true;
      if (!predicate.constant()) form.require(predicate);
    }
    if (form.system().is_contradictory(LinearSystem::Trying::No, fuel_)) return true;
    const auto fewest = fewest_candidates(all, form);
    if (fewest && fewest->count() <= kMaxTried - tried_) return by_trying(*fewest, all);
    return form.unclear().empty() &&
           form.system().is_contradictory(LinearSystem::Trying::Yes, fuel_);
  }

 private:
  struct Candidates {
    Symbol symbol;
    Range range;
    std::int64_t step = 1;
    [[nodiscard]] Wide count() const {
      return range.empty() ? 0 : (Wide{range.upper} - range.lower) / step + 1;
    }
  };

  // The symbol with the fewest values. Chooses among the symbols of predicates that the relations
  // express only in part; if there are no such predicates, among all symbols.
  std::optional<Candidates> fewest_candidates(const std::vector<Predicate>& all,
                                              LinearForm& form) const {
    std::set<Symbol> symbols = form.unclear();
    for (auto it = all.begin(); it != all.end() && form.unclear().empty(); ++it)
      for (const Symbol symbol : it->expr.symbols()) symbols.insert(symbol);
    std::optional<Candidates> out;
    std::size_t compared = 0;
    for (const Symbol symbol : symbols) {
      if (fuel_ <= 0 || compared++ == kMaxCounted) break;
      const Candidates next = candidates(symbol, all, form);
      if (!out || next.count() < out->count()) out = next;
    }
    return out;
  }

  // True: there is no value with which all predicates can be satisfied.
  bool by_trying(const Candidates& candidates, const std::vector<Predicate>& all) {
    std::int64_t value = candidates.range.lower;
    for (Wide left = candidates.count(); left > 0; --left, value += candidates.step) {
      ++tried_;
      std::vector<Predicate> there;
      bool fails = false;
      for (std::size_t i = 0; i < all.size() && !fails; ++i) {
        fuel_ -= static_cast<int>(1 + all[i].expr.terms().size());
        there.push_back(all[i].substitute(candidates.symbol, value));
        fails = there.back().constant() == false;
      }
      if (!fails && (fuel_ <= 0 || tried_ > kMaxTried || !of(there))) return false;
    }
    return true;
  }

  Candidates candidates(Symbol symbol, const std::vector<Predicate>& all, LinearForm& form) const {
    Facts facts;
    for (const Predicate& predicate : all) {
      const auto symbols = predicate.expr.symbols();
      if (symbols.size() == 1 && symbols[0] == symbol) facts.add(predicate);
    }
    const Variable variable = form.variable_of(symbol);
    const ModularSet residues = facts.residues(Expr::symbol(symbol));
    const Range range = intersect(form.system().range(variable, fuel_), ranges_(symbol));
    return {symbol, tightened(range, residues), std::max<std::int64_t>(residues.modulus, 1)};
  }

  const SymbolRanges& ranges_;
  int& fuel_;
  Wide tried_ = 0;
};

}  // namespace

bool is_only_value(Symbol symbol, std::int64_t value, const std::vector<Predicate>& predicates,
                   const SymbolRanges& ranges, int& fuel) {
  const Expr e = Expr::symbol(symbol);
  std::vector<Predicate> all = predicates;
  try {
    Refutation refutation(ranges, fuel);
    all.push_back(greater(e, value));
    if (!refutation.of(all)) return false;
    all.back() = less(e, value);
    return refutation.of(all);
  } catch (const OverflowError&) {
    return false;
  }
}

}  // namespace lockstep::shapes
