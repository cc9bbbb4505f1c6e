// What one trace knows about its symbols: ranges, facts about expressions, and the replacements
// that follow. It makes no decision, records nothing, and knows neither names nor lines. Internal
// to shapes.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>
#include <lockstep/shapes/facts/facts.h>

namespace lockstep::shapes {

/// Conservative: every answer is true of all values that satisfy the ranges and the learnt facts.
/// Its state is a pure function of the calls made, in order. One thread.
class Knowledge {
 public:
  /// The expressions that may replace a symbol.
  enum class Targets : std::uint8_t {
    Any,
    Linear,  // only k*symbol + c and numbers
  };
  explicit Knowledge(Targets targets = Targets::Any) : targets_(targets) {}

  /// Requires that the symbol is new. If the range has one value, the symbol is replaced by it.
  void add(Symbol symbol, Range range);
  /// Learns that the predicate holds, with the facts, narrower ranges and replacements that follow
  /// from it. False: it contradicts earlier facts (a part of it may have been learnt).
  [[nodiscard]] bool learn(const Predicate& fact);
  /// As learn(). Requires that `fact` is a result of simplify() that is neither proven nor refuted.
  [[nodiscard]] bool learn_open(const Predicate& fact);

  /// An expression that is equal under the known facts: replacements are applied; divisions, minima
  /// and maxima are resolved if ranges and facts decide them. Throws OverflowError.
  [[nodiscard]] Expr simplify(const Expr& expr) const;
  [[nodiscard]] Predicate simplify(const Predicate& predicate) const;
  /// The same predicate without factors that are known not to be zero. Throws OverflowError.
  [[nodiscard]] Predicate reduced(const Predicate& predicate) const;
  /// The answer, if it can be proven; else nullopt, also on overflow.
  [[nodiscard]] std::optional<bool> prove(const Predicate& predicate) const;
  /// As prove(). Requires that `predicate` is a result of simplify().
  [[nodiscard]] std::optional<bool> prove_simplified(const Predicate& predicate) const;
  [[nodiscard]] Range range(const Expr& expr) const;
  [[nodiscard]] Range range(Symbol symbol) const { return ranges_.at(symbol); }

  /// The replacements, in solved form: none contains a replaced symbol.
  [[nodiscard]] const std::map<Symbol, Expr>& replacements() const { return replacements_; }
  /// The number that the symbol must be; nullopt: no number is known.
  [[nodiscard]] std::optional<std::int64_t> number(Symbol symbol) const;
  /// The symbols whose range or number has changed since the last call, in the order of change.
  [[nodiscard]] std::vector<Symbol> take_changed() { return std::exchange(changed_, {}); }
  /// The facts about the symbol alone, in addition to its range.
  [[nodiscard]] const Facts::Known* facts_of(Symbol symbol) const {
    return facts_.of(Expr::symbol(symbol));
  }

 private:
  [[nodiscard]] bool learn_all(std::deque<Predicate> open, int taken);
  [[nodiscard]] bool absorb(const Predicate& fact, std::vector<Predicate>& consequences);
  [[nodiscard]] bool narrow(Symbol symbol, std::vector<Predicate>& consequences);
  void propagate(const Predicate& fact, std::vector<Predicate>& consequences) const;
  void propagate_into_quotient(const Expr& direction, std::vector<Predicate>& consequences) const;
  [[nodiscard]] bool learn_remainders(const Expr& zero, std::vector<Predicate>& consequences);
  void eliminate(const Expr& zero, std::vector<Predicate>& consequences) const;
  [[nodiscard]] bool replace_by(const Expr& zero, std::vector<Predicate>& consequences);
  [[nodiscard]] std::optional<Expr> target_for(Symbol symbol, const Expr& zero) const;
  void replace(Symbol symbol, const Expr& target);
  [[nodiscard]] SymbolRanges symbol_ranges() const;

  Targets targets_;
  std::map<Symbol, Range> ranges_;
  Facts facts_;
  std::map<Symbol, Expr> replacements_;
  std::map<Symbol, std::vector<Symbol>>
      held_by_;  // by symbol: replaced symbols whose replacement contains it
  std::vector<Symbol> changed_;
};

}  // namespace lockstep::shapes
