// The shape environment of one trace: its symbols, what was asked of them, the guards and the
// deferred asserts. Everything it decides is a pure function of the calls made on it, in order.
#pragma once

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>
#include <lockstep/shapes/facts/knowledge.h>
#include <lockstep/shapes/pinning.h>

namespace lockstep::shapes {

/// Unwinds the user's traced function: a branch or an int was asked of a value that is known only
/// when the graph runs. Caught at the trace boundary.
class DataDependentError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// check() of something that does not hold, a constraint that the program breaks, or an expression
/// without a value at the agreed sizes. Caught at the trace boundary.
class ConstraintError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What the user holds the trace to for one backed symbol. Broken: a ConstraintError at the line
/// that breaks it.
enum class Constraint : std::uint8_t {
  None,
  Varies,      // it may be narrowed, but never to a single number, whatever it takes to see that
  WholeRange,  // every value of its range is served: no guard narrows it or ties it to another one
};

struct ShapeOptions {
  /// What becomes of a branch on backed sizes that says more than a bound, a number, a remainder of
  /// one symbol, or that one is a multiple of another plus a number (`s0*s1 == s2`, `s0 != s1`).
  enum class Complex : std::uint8_t {
    Guard,   // other sizes are another entry's
    Assert,  // the entry serves the sizes that satisfy it; others are an error when the graph runs
  };
  Complex complex = Complex::Guard;
};

/// One thread; lives as long as one trace. Unknown means unknown identically on every rank.
class ShapeEnv {
 public:
  explicit ShapeEnv(ShapeOptions options = {});

  /// A backed symbol. `source` is how users write it ("tokens.size(0)"); `hint` the agreed example
  /// value. Requires that the range contains the hint.
  Expr backed(std::string source, std::int64_t hint, Range range,
              Constraint constraint = Constraint::None);
  /// An unbacked symbol; `source` tells what made it ("counts.tolist()[0]"), `where` its line.
  Expr unbacked(std::string source, Range range, Location where);
  /// A relation that was promised: known, and neither guard nor assert. Of backed symbols: by the
  /// user for every call, and who looks up the entry tests it before. Of unbacked ones: by the op
  /// that makes them (a count is at most the size of what is counted). Throws ConstraintError if it
  /// is false under the hints or contradicts what is known.
  void declare(const Predicate& predicate, const Location& where);

  /// A branch on a size. Proven either way: no guard. Backed: the hint decides and a guard is
  /// recorded. Throws DataDependentError where an unbacked symbol leaves it open, ConstraintError
  /// where it breaks a constraint.
  [[nodiscard]] bool evaluate(const Predicate& predicate, const Location& where);
  /// As evaluate, but `fallback` where an unbacked symbol leaves it open: nothing is recorded then.
  [[nodiscard]] bool evaluate_or(const Predicate& predicate, bool fallback, const Location& where);
  /// Something that must be true. Proven: nothing is recorded. Otherwise a deferred assert, and it
  /// is known from here on. Throws ConstraintError if it is proven false, false under the hints, or
  /// pins a symbol that must vary.
  void check(const Predicate& predicate, const Location& where, std::string message = {});
  /// Proven true without recording anything; false where open.
  [[nodiscard]] bool statically_true(const Predicate& predicate) const;
  /// The answer if it can be proven, else nullopt; records nothing.
  [[nodiscard]] std::optional<bool> prove(const Predicate& predicate) const;
  /// A number where code needs one: specialises (guard expr == hint). Throws as evaluate does.
  [[nodiscard]] std::int64_t to_int(const Expr& expr, const Location& where);
  /// The integer part of the square root as a number: guards its two bounds, r*r <= expr and
  /// expr < (r+1)*(r+1). Throws as evaluate does, ConstraintError also for negative values.
  [[nodiscard]] std::int64_t isqrt(const Expr& expr, const Location& where);
  /// The value under the hints, for choices that must not install a guard; `fallback` where the
  /// expression holds unbacked symbols.
  [[nodiscard]] std::int64_t peek(const Expr& expr, std::int64_t fallback) const;

  /// An expression that is equal given all that is known: replacements applied, divisions, minima
  /// and maxima resolved where ranges and facts decide them.
  [[nodiscard]] Expr simplify(const Expr& expr) const { return known_.simplify(expr); }
  [[nodiscard]] Range range(const Expr& expr) const { return known_.range(expr); }

  /// After this a guard or assert that is not proven is a bug (the backward pass of a frozen
  /// graph).
  void freeze() { frozen_ = true; }

  struct SymbolRecord {
    Symbol symbol;
    std::string source;
    Location where;
    std::optional<std::int64_t> hint;  // backed only
    Range range;                       // what is known of it by now
    Constraint constraint = Constraint::None;
    Range declared;  // as made
    Range promised;  // what declared relations leave of that
  };
  [[nodiscard]] const std::vector<SymbolRecord>& symbols() const { return symbols_; }
  [[nodiscard]] const SymbolRecord& record(Symbol symbol) const;
  /// In the order recorded. What an entry keeps of them is minimal_guards() of guard_set.h.
  [[nodiscard]] const std::vector<Guard>& guards() const { return guards_; }
  /// In the order made; the one at index i is due once every symbol it mentions is bound.
  [[nodiscard]] const std::vector<DeferredAssert>& deferred_asserts() const { return asserts_; }
  [[nodiscard]] const std::vector<Guard>& declared() const { return declared_; }
  [[nodiscard]] const std::map<Symbol, Expr>& replacements() const { return known_.replacements(); }
  /// A branch as it was taken, a number that was given, a check that was accepted.
  struct Asked {
    Predicate predicate;  // as asked, not simplified
    bool answer = true;
    Location where;
  };
  /// All that the program relies on, in the order asked; the measure that validation.h puts to what
  /// is emitted. Questions that threw, were open or answered by a fallback are not in it.
  [[nodiscard]] const std::vector<Asked>& asked() const { return asked_; }
  /// Why the last question that threw did. Sizes that meet all that was relied on until then, and
  /// `when`, fail likewise; without `when` all that meet the former.
  struct Failed {
    std::optional<Predicate> when;
    Location where;
    bool only_here = false;  // what else fails likewise is not known
  };
  [[nodiscard]] const std::optional<Failed>& failed() const { return failed_; }
  /// Told before a failure for want of a value: of what divides in `expr` one is zero at the hints.
  void fails_without_value(const Expr& expr, const Location& where);
  /// Names symbols by their source, for messages.
  [[nodiscard]] Namer source_namer() const;

 private:
  [[nodiscard]] Valuation hints() const;
  [[nodiscard]] std::optional<bool> branch(const Predicate& asked, const Location& where);
  [[nodiscard]] std::optional<bool> branch_on_coefficients(const Predicate& p,
                                                           const Predicate& asked,
                                                           const Location& where);
  [[nodiscard]] Predicate sharpened(const Predicate& guard) const;
  [[nodiscard]] bool becomes_assert(const Predicate& guard) const;
  /// `number`: what was asked to be a number; nullptr: the guard is of a branch.
  void add_guard(const Predicate& guard, const Predicate& asked, const Location& where,
                 const Expr* number = nullptr);
  void add_assert(const Predicate& assert, const Predicate& asked, const Location& where,
                  std::string message);
  void learn(const Predicate& fact, const Predicate& asked, const Location& where);
  /// The symbols that a fact was about after all.
  struct Outcome {
    std::vector<Symbol> changed;  // their range or number is another one
    std::vector<Symbol> pinned;   // of those with a constraint: they have one value left
  };
  [[nodiscard]] Outcome take_over(const Predicate& fact, const Predicate& asked,
                                  const Location& where);
  [[nodiscard]] std::int64_t number(const Expr& expr, const Location& where);
  void add_symbol(SymbolRecord record);

  // shape_env_constraint.cpp
  void throw_if_broken(const Predicate& asked, const Location& where, const Outcome& outcome) const;
  [[noreturn]] void throw_pinned(const SymbolRecord& r, std::int64_t value, const Predicate& asked,
                                 const Location& where) const;
  [[noreturn]] void throw_narrowed(const SymbolRecord& r, const Predicate& asked,
                                   const Location& where) const;
  [[nodiscard]] std::string to_declare(const Predicate& predicate, const SymbolRecord& r) const;
  void throw_if_tied(const Predicate& guard, const Predicate& asked, const Location& where,
                     const Expr* number) const;
  [[nodiscard]] std::vector<Asked> linked(const Predicate& conclusion, const Predicate* also) const;
  [[nodiscard]] bool forces(const std::vector<Asked>& some, const Predicate* also,
                            const Predicate& conclusion) const;
  [[nodiscard]] std::vector<Asked> needed(std::vector<Asked> all, const Predicate* also,
                                          const Predicate& conclusion) const;
  [[nodiscard]] std::string list_of(const std::vector<Asked>& reasons,
                                    std::string_view opening) const;
  [[nodiscard]] std::string because(const Predicate& conclusion, const Predicate* also,
                                    std::string_view opening) const;

  // shape_env_failed.cpp
  void fails(std::optional<Predicate> when, const Location& where);
  void fails_unless_all_vanish(const std::vector<Expr>& coefficients, const Location& where);

  // shape_env_text.cpp
  [[nodiscard]] std::string describe(Symbol symbol) const;
  [[nodiscard]] std::string describe_unbacked(const Expr& expr) const;
  [[nodiscard]] std::string text_of(const Predicate& predicate) const;
  [[nodiscard]] std::string text_of(const Expr& expr) const;
  [[nodiscard]] std::string values_under_hints(const Expr& expr) const;
  [[nodiscard]] std::string both_answers(const Predicate& open) const;
  [[noreturn]] void throw_data_dependent(const Predicate& open, const Predicate& asked,
                                         const Location& where) const;
  [[noreturn]] void throw_data_dependent_int(const Expr& open, const Expr& asked,
                                             const Location& where) const;
  [[noreturn]] void throw_no_value(const std::string& asked, const Expr& expr,
                                   const Location& where);

  ShapeOptions options_;
  std::vector<SymbolRecord> symbols_;
  std::vector<Guard> guards_;
  std::vector<DeferredAssert> asserts_;
  std::vector<Guard> declared_;
  std::vector<Asked> asked_;
  std::optional<Failed> failed_;
  Knowledge known_;
  Pinning pinning_;
  std::map<Symbol, std::size_t> index_;  // into symbols_
  std::uint32_t backed_count_ = 0, unbacked_count_ = 0;
  bool frozen_ = false;
};

}  // namespace lockstep::shapes
