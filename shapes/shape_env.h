// The shape environment of one trace: its symbols, the questions about them, the guards and the
// deferred asserts. Every decision is a pure function of the calls made, in order.
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

/// Unwinds the user's traced function if it branches on a value that is known only when the graph
/// runs, or asks for such a value as an int. Caught at the trace boundary.
class DataDependentError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Thrown if a check() does not hold, the program breaks a constraint, or an expression has no
/// value at the agreed sizes. Caught at the trace boundary.
class ConstraintError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The user's requirement on one backed symbol. The line that breaks it throws ConstraintError.
enum class Constraint : std::uint8_t {
  None,
  Varies,      // guards may narrow it, but never to a single number
  WholeRange,  // every value of its range is served: no guard narrows it or ties it to another
               // symbol
};

struct ShapeOptions {
  /// How a complex branch on backed sizes is recorded. Simple branches are conditions on one symbol
  /// other than `!=`, and `a == k*b + c`. All others are complex (`s0*s1 == s2`, `s0 != 3`).
  enum class Complex : std::uint8_t {
    Guard,   // other sizes get another entry
    Assert,  // the entry serves sizes that satisfy the assert; others are an error in the run
  };
  Complex complex = Complex::Guard;
};

/// One per trace; used by one thread. An answer that is unknown on one rank is unknown on all.
class ShapeEnv {
 public:
  explicit ShapeEnv(ShapeOptions options = {});

  /// Makes a backed symbol. `source` is the symbol as users write it ("tokens.size(0)"), `hint` the
  /// agreed example value. Requires that the range contains the hint.
  Expr backed(std::string source, std::int64_t hint, Range range,
              Constraint constraint = Constraint::None);
  /// Makes an unbacked symbol. `source` names what made it ("counts.tolist()[0]"), `where` is its
  /// line.
  Expr unbacked(std::string source, Range range, Location where);
  /// Adds a promised relation, which is known from here on and becomes neither guard nor assert.
  /// The user promises relations of backed symbols for every call, and the look-up of an entry
  /// tests them. An op promises relations of the unbacked symbols that it makes (a count is at most
  /// the number of elements counted). Throws ConstraintError if the relation is false under the
  /// hints or contradicts a known fact.
  void declare(const Predicate& predicate, const Location& where);

  /// Answers a branch on sizes. If the answer is proven, nothing is recorded. If it depends on
  /// backed symbols, the hints decide and a guard is recorded. Throws DataDependentError if
  /// unbacked symbols leave the answer open, ConstraintError if the guard breaks a constraint.
  [[nodiscard]] bool evaluate(const Predicate& predicate, const Location& where);
  /// As evaluate(), but if unbacked symbols leave the answer open, returns `fallback` and records
  /// nothing.
  [[nodiscard]] bool evaluate_or(const Predicate& predicate, bool fallback, const Location& where);
  /// Requires a condition to be true. If it is proven, nothing is recorded. Otherwise it becomes a
  /// deferred assert and is known from here on. Throws ConstraintError if it is proven false, is
  /// false under the hints, or pins a symbol that must vary.
  void check(const Predicate& predicate, const Location& where, std::string message = {});
  /// True: the predicate is proven. False: it is refuted, or not known. Records nothing.
  [[nodiscard]] bool statically_true(const Predicate& predicate) const;
  /// The proven answer; nullopt: not known. Records nothing.
  [[nodiscard]] std::optional<bool> prove(const Predicate& predicate) const;
  /// The value as a number, for code that needs a number: specialises by the guard `expr` == hint.
  /// Throws as evaluate() does.
  [[nodiscard]] std::int64_t to_int(const Expr& expr, const Location& where);
  /// The integer part r of the square root as a number, with the guards r*r <= expr and expr <
  /// (r+1)*(r+1). Throws as evaluate() does, and ConstraintError for a negative value.
  [[nodiscard]] std::int64_t isqrt(const Expr& expr, const Location& where);
  /// The value under the hints, for choices that must not record a guard; `fallback` if the
  /// expression has unbacked symbols.
  [[nodiscard]] std::int64_t peek(const Expr& expr, std::int64_t fallback) const;

  /// An expression that is equal under the known facts: replacements are applied; divisions, minima
  /// and maxima are resolved if ranges and facts decide them.
  [[nodiscard]] Expr simplify(const Expr& expr) const { return known_.simplify(expr); }
  [[nodiscard]] Range range(const Expr& expr) const { return known_.range(expr); }

  /// After this call a new guard or assert that is not proven is a bug, and throws
  /// std::logic_error. For the backward pass of a frozen graph.
  void freeze() { frozen_ = true; }

  struct SymbolRecord {
    Symbol symbol;
    std::string source;
    Location where;
    std::optional<std::int64_t> hint;  // only of a backed symbol
    Range range;                       // range known so far
    Constraint constraint = Constraint::None;
    Range declared;  // range with which the symbol was made
    Range promised;  // the part of `declared` that declared relations leave
  };
  [[nodiscard]] const std::vector<SymbolRecord>& symbols() const { return symbols_; }
  [[nodiscard]] const SymbolRecord& record(Symbol symbol) const;
  /// The guards, in the order recorded. An entry keeps only their minimal_guards() (guard_set.h).
  [[nodiscard]] const std::vector<Guard>& guards() const { return guards_; }
  /// The asserts, in the order made. An assert is due once every symbol that it mentions is bound.
  [[nodiscard]] const std::vector<DeferredAssert>& deferred_asserts() const { return asserts_; }
  [[nodiscard]] const std::vector<Guard>& declared() const { return declared_; }
  [[nodiscard]] const std::map<Symbol, Expr>& replacements() const { return known_.replacements(); }
  /// An answered question: a branch taken, a number returned, or a check accepted.
  struct Asked {
    Predicate predicate;  // the question as asked, not simplified
    bool answer = true;
    Location where;
  };
  /// The answers on which the program depends, in the order asked; tests compare guards and asserts
  /// with them. Omits questions that threw or got a fallback.
  [[nodiscard]] const std::vector<Asked>& asked() const { return asked_; }
  /// The other sizes at which the last question that threw would throw, too: the sizes that satisfy
  /// all earlier answers, and `when` if it is set.
  struct Failed {
    std::optional<Predicate> when;
    Location where;
    bool only_here = false;  // it is not known which other sizes fail
  };
  [[nodiscard]] const std::optional<Failed>& failed() const { return failed_; }
  /// Records in failed() a failure of the caller: `expr` has no value, because a divisor in it is
  /// zero at the hints. To be called before the error is thrown.
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
  /// `number` is the expression that to_int() specialises; nullptr: the guard comes from a branch.
  void add_guard(const Predicate& guard, const Predicate& asked, const Location& where,
                 const Expr* number = nullptr);
  void add_assert(const Predicate& assert, const Predicate& asked, const Location& where,
                  std::string message);
  void learn(const Predicate& fact, const Predicate& asked, const Location& where);
  /// The effect of a learnt fact on symbols.
  struct Outcome {
    std::vector<Symbol> changed;  // symbols whose range or number changed
    std::vector<Symbol> pinned;   // symbols with a constraint that have one value left
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
