// Decides whether the predicates of a trace leave only one value to a symbol that must vary. The
// question is asked after every guard, so a second point that satisfies all predicates is kept.
// Internal to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>

namespace lockstep::shapes {

/// Conservative: a symbol that is reported as pinned is pinned. If it is not reported, a second
/// value is known or the answer is not known. The number of steps is limited, and the limit grows
/// with the number of predicates, so hard cases do not make a trace slow. Its answers are a pure
/// function of the calls made, in order. One thread.
class Pinning {
 public:
  /// Number of steps of is_only_value() that one question may take.
  static constexpr int kFuelPerQuestion = 60000;

  void add(Symbol symbol, Range declared, std::optional<std::int64_t> hint);
  /// From here on the symbol must have values besides its hint. Requires that the symbol was added,
  /// with a hint.
  void watch(Symbol symbol);
  /// Adds a predicate that holds from here on. Returns the watched symbols that it pins.
  [[nodiscard]] std::vector<Symbol> say(const Predicate& predicate, const Location& where);
  /// The predicates, except the last, that are nearest to the symbol, in the order of say().
  [[nodiscard]] std::vector<Guard> predicates_about(Symbol symbol) const;

 private:
  using Point = std::map<Symbol, std::int64_t>;
  struct Record {
    Range declared;
    std::optional<std::int64_t> hint;
    std::vector<std::size_t> said;  // predicates that mention the symbol
    Symbol linked;                  // next on the way to the representative of all linked symbols
    std::int64_t divisor = 1;       // common multiple of the divisors of all linked symbols
  };

  [[nodiscard]] Symbol all_linked(Symbol symbol) const;
  void link(const Predicate& predicate);
  [[nodiscard]] std::set<Symbol> doubtful(const Predicate& predicate) const;
  [[nodiscard]] bool holds(const Predicate& predicate, const Point& moved) const;
  [[nodiscard]] std::optional<Point> another(Symbol symbol);
  [[nodiscard]] std::optional<Point> moved_to(Symbol symbol, std::int64_t value);
  [[nodiscard]] bool mend(const Predicate& predicate, Point& moved, std::vector<Symbol>& set) const;
  [[nodiscard]] std::optional<std::int64_t> solved(const Predicate& predicate, Symbol symbol,
                                                   const Point& moved) const;
  void remember(Symbol symbol, std::optional<Point> other);
  [[nodiscard]] bool is_pinned(Symbol symbol);
  [[nodiscard]] std::vector<std::size_t> nearest(Symbol symbol) const;

  std::map<Symbol, Record> records_;
  std::vector<Guard> said_;
  std::size_t linked_ = 0;          // number of predicates in said_ that are linked
  std::map<Symbol, Point> others_;  // by watched symbol; missing: no second value was found
  std::map<Symbol, std::set<Symbol>> moved_by_;  // by symbol: watched symbols whose point moves it
  std::set<Symbol> without_other_;
  int fuel_ = 0;
};

}  // namespace lockstep::shapes
