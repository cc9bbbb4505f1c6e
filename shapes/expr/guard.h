// Predicates on integers, and their two uses. A guard is checked before an entry runs; if it is
// false, another entry is needed. A deferred assert is checked when the graph runs; if it is false,
// the run is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/shapes/expr/expr.h>

namespace lockstep::shapes {

/// A line of the user's program: "train.cpp:41". Line 0: the line is not known.
struct Location {
  std::string file;
  std::uint32_t line = 0;
  bool operator==(const Location&) const = default;
  [[nodiscard]] std::string text() const;
};

/// expr == 0, expr != 0 or expr >= 0. The factories below normalise: common factors of the
/// coefficients are divided out (>= rounds the constant down), the leading coefficient of == and !=
/// is positive, an expression without symbols becomes 0, 1 or -1. So predicates that differ only in
/// how they were written are equal. They throw OverflowError, as the operators of Expr do.
struct Predicate {
  enum class Relation : std::uint8_t { Equal, NotEqual, NonNegative };
  Relation relation = Relation::Equal;
  Expr expr;

  /// The value of a predicate without symbols; nullopt for any other.
  [[nodiscard]] std::optional<bool> constant() const;
  /// The value of the predicate; nullopt if `expr` has no value.
  [[nodiscard]] std::optional<bool> evaluate(const Valuation& values) const;
  [[nodiscard]] Predicate negated() const;
  [[nodiscard]] Predicate substitute(Symbol symbol, const Expr& by) const;
  [[nodiscard]] Predicate substitute(const std::map<Symbol, Expr>& replacements) const;
  /// "2*s0 == s1", "s0 < u0": without minus signs, and with the canonically first side on the left.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string text(const Namer& namer) const;

  bool operator==(const Predicate&) const = default;
};

/// e == 0, e != 0 or e >= 0, normalised.
[[nodiscard]] Predicate predicate_of(Predicate::Relation relation, const Expr& e);
[[nodiscard]] Predicate equal(const Expr& a, const Expr& b);
[[nodiscard]] Predicate not_equal(const Expr& a, const Expr& b);
[[nodiscard]] Predicate less(const Expr& a, const Expr& b);
[[nodiscard]] Predicate less_equal(const Expr& a, const Expr& b);
[[nodiscard]] Predicate greater(const Expr& a, const Expr& b);
[[nodiscard]] Predicate greater_equal(const Expr& a, const Expr& b);

/// A condition that is checked on every call before an entry runs. Mentions only backed symbols.
struct Guard {
  Predicate predicate;
  Location where;      // the user's line that asked the question
  std::string note{};  // the reason, if the guard is not from a branch on exactly this predicate
};

/// A condition that must be true when the graph runs; otherwise the program is wrong.
struct DeferredAssert {
  Predicate predicate;
  Location where;
  std::string message;  // the user's text; may be empty
  /// The latest unbacked symbol of the predicate: once the symbol is bound, the assert can be
  /// tested. nullopt: it can be tested as soon as the inputs are bound.
  [[nodiscard]] std::optional<Symbol> due() const;
};

/// The guards of one entry as a flat postfix program over a vector of symbol values, for the
/// look-up on every call. It gives the same answers as Predicate::evaluate; a guard without a value
/// (overflow, division by zero) fails. It does not allocate if the stack is small. Immutable,
/// thread-safe.
class GuardProgram {
 public:
  /// `slots[i]` is the symbol whose value is at index i of the argument of holds(). Requires that
  /// every symbol of the guards has a slot.
  static GuardProgram compile(const std::vector<Guard>& guards, const std::vector<Symbol>& slots);
  /// Index of the first guard that fails; nullopt if all hold. Requires a value for each slot.
  [[nodiscard]] std::optional<std::size_t> first_failure(
      std::span<const std::int64_t> values) const;
  [[nodiscard]] bool holds(std::span<const std::int64_t> values) const {
    return !first_failure(values);
  }

 private:
  enum class Code : std::uint8_t {
    Push,       // pushes the number
    Load,       // pushes number * value of the slot
    AddLoaded,  // adds number * value of the slot to the top of the stack
    AddNumber,
    Add,
    Mul,
    FloorDiv,
    Mod,
    Min,
    Max,
    Test,
  };
  struct Instruction {
    Code code = Code::Push;
    Predicate::Relation relation = Predicate::Relation::Equal;  // Test only
    std::uint32_t slot = 0;
    std::int64_t number = 0;
  };
  class Compiler;
  std::vector<Instruction> program_;
  std::size_t depth_ = 0;  // number of stack cells needed
};

/// Reads what Expr::text() and Predicate::text() print without a Namer; nullopt for any other text.
/// For records and tests.
[[nodiscard]] std::optional<Expr> parse_expr(std::string_view text);
[[nodiscard]] std::optional<Predicate> parse_predicate(std::string_view text);

/// Removes a name from the start of `rest` and returns its expression; nullopt: `rest` does not
/// begin with a known name.
using NameReader = std::function<std::optional<Expr>(std::string_view& rest)>;
/// Reads a size or int as users write it: "x.size(0) * 2". For `unread` see parse_condition().
[[nodiscard]] std::optional<Expr> parse_expr(std::string_view text, const NameReader& names,
                                             std::string_view& unread);
/// Reads a condition as users write it, with their names in place of symbols: "x.size(0) % 8 == 0".
/// nullopt: the text is not a condition; `unread` is then the part that could not be read.
[[nodiscard]] std::optional<Predicate> parse_condition(std::string_view text,
                                                       const NameReader& names,
                                                       std::string_view& unread);

}  // namespace lockstep::shapes
