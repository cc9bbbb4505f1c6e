// The shape environment of one trace: its symbols, what is known about them, the guards and the
// deferred asserts. Everything it decides is a pure function of the calls made on it, in order.
#pragma once

#include <map>
#include <stdexcept>

#include <lockstep/shapes/guard.h>
#include <lockstep/shapes/range.h>

namespace lockstep::shapes {

/// Unwinds the user's traced function: a branch or an int was asked of a value that is known only
/// when the graph runs. Caught at the trace boundary.
class DataDependentError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// check() of something that cannot be true, or a marked dim that a branch pins to one value.
/// Caught at the trace boundary.
class ConstraintError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One thread; lives as long as one trace. Unknown means unknown identically on every rank.
class ShapeEnv {
 public:
  /// A backed symbol. `source` is how users write it ("tokens.size(0)"); `hint` the agreed example
  /// value. `pinned_is_error`: the user marked the dim dynamic, so specialising it is an error.
  Expr backed(std::string source, std::int64_t hint, Range range, bool pinned_is_error = false);
  /// An unbacked symbol; `source` tells what made it ("counts.tolist()[0]"), `where` its line.
  Expr unbacked(std::string source, Range range, Location where);

  /// A branch on a size. Proven either way: no guard. Backed: the hint decides and a guard is
  /// recorded. Throws DataDependentError where an unbacked symbol leaves it open.
  [[nodiscard]] bool evaluate(const Predicate& predicate, const Location& where);
  /// Something that must be true. Proven: nothing is recorded. Otherwise a deferred assert, and it
  /// is known from here on. Throws ConstraintError if it is proven false.
  void check(const Predicate& predicate, const Location& where, std::string message = {});
  /// Proven true without recording anything; false where open.
  [[nodiscard]] bool statically_true(const Predicate& predicate) const;
  /// The answer if it can be proven, else nullopt; records nothing.
  [[nodiscard]] std::optional<bool> prove(const Predicate& predicate) const;
  /// A number where code needs one: specialises (guard expr == hint).
  [[nodiscard]] std::int64_t to_int(const Expr& expr, const Location& where);
  /// The value under the hints, for choices that must not install a guard; `fallback` where the
  /// expression holds unbacked symbols.
  [[nodiscard]] std::int64_t peek(const Expr& expr, std::int64_t fallback) const;

  /// The expression with all replacements applied.
  [[nodiscard]] Expr simplify(const Expr& expr) const;
  [[nodiscard]] Range range(const Expr& expr) const;

  /// After this a guard or assert that is not proven is a bug (the backward pass of a frozen
  /// graph).
  void freeze() { frozen_ = true; }

  struct SymbolRecord {
    Symbol symbol;
    std::string source;
    Location where;
    std::optional<std::int64_t> hint;  // backed only
    Range range;
    bool pinned_is_error = false;
  };
  [[nodiscard]] const std::vector<SymbolRecord>& symbols() const { return symbols_; }
  [[nodiscard]] const SymbolRecord& record(Symbol symbol) const;
  [[nodiscard]] const std::vector<Guard>& guards() const { return guards_; }
  /// In the order made; the one at index i is due once every symbol it mentions is bound.
  [[nodiscard]] const std::vector<DeferredAssert>& deferred_asserts() const { return asserts_; }
  [[nodiscard]] const std::map<Symbol, Expr>& replacements() const { return replacements_; }
  /// Names symbols by their source, for messages.
  [[nodiscard]] Namer source_namer() const;

 private:
  // The implementation's own: known facts by direction, see shape_env.cpp.
  void learn(const Predicate& fact, const Location& where);
  std::vector<SymbolRecord> symbols_;
  std::vector<Guard> guards_;
  std::vector<DeferredAssert> asserts_;
  std::vector<Predicate> facts_;
  std::map<Symbol, Expr> replacements_;
  std::uint32_t backed_count_ = 0, unbacked_count_ = 0;
  bool frozen_ = false;
};

}  // namespace lockstep::shapes
