// Predicates on integers, and the two things that are made of them: guards (checked before an entry
// runs; false means "another entry") and deferred asserts (checked in the graph; false is an
// error).
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

/// Where in the user's program something was asked: "train.cpp:41"; line 0: not known.
struct Location {
  std::string file;
  std::uint32_t line = 0;
  bool operator==(const Location&) const = default;
  [[nodiscard]] std::string text() const;
};

/// expr == 0, expr != 0 or expr >= 0. The constructors below normalise: common factors of the
/// coefficients are divided out (>= rounds the constant down), the leading coefficient of == and !=
/// is positive, constants become 0, 1 or -1. So predicates that differ only in how they were
/// written are equal. They throw OverflowError as the operators of Expr do.
struct Predicate {
  enum class Relation : std::uint8_t { Equal, NotEqual, NonNegative };
  Relation relation = Relation::Equal;
  Expr expr;

  /// The value where it does not depend on any symbol.
  [[nodiscard]] std::optional<bool> constant() const;
  /// nullopt where expr has no value.
  [[nodiscard]] std::optional<bool> evaluate(const Valuation& values) const;
  [[nodiscard]] Predicate negated() const;
  [[nodiscard]] Predicate substitute(Symbol symbol, const Expr& by) const;
  [[nodiscard]] Predicate substitute(const std::map<Symbol, Expr>& replacements) const;
  /// "2*s0 == s1", "s0 < u0": no minus signs, the canonically first side on the left.
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

/// Checked on every call before an entry runs. Mentions backed symbols only.
struct Guard {
  Predicate predicate;
  Location where;      // the user's line that asked
  std::string note{};  // why it is there, where that is more than a branch on just this; or empty
};

/// Must be true or the program is wrong.
struct DeferredAssert {
  Predicate predicate;
  Location where;
  std::string message;  // what the user said, may be empty
  /// The latest unbacked symbol that it mentions: it can be tested once that is bound. nullopt:
  /// right after the inputs.
  [[nodiscard]] std::optional<Symbol> due() const;
};

/// Guards of one entry as a flat postfix program over a vector of symbol values, for the look-up on
/// every call. Agrees with Predicate::evaluate; a guard without a value (overflow, division by
/// zero) fails. Does not allocate while the stack is small. Immutable, thread-safe.
class GuardProgram {
 public:
  /// `slots[i]` is the symbol whose value stands at index i of `holds`' argument.
  /// Requires that every symbol of the guards has a slot.
  static GuardProgram compile(const std::vector<Guard>& guards, const std::vector<Symbol>& slots);
  /// Index of the first guard that fails, nullopt if all hold. Requires a value per slot.
  [[nodiscard]] std::optional<std::size_t> first_failure(
      std::span<const std::int64_t> values) const;
  [[nodiscard]] bool holds(std::span<const std::int64_t> values) const {
    return !first_failure(values);
  }

 private:
  enum class Code : std::uint8_t {
    Push,       // the number
    Load,       // number * value of the slot
    AddLoaded,  // the same, onto the last one
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
  std::size_t depth_ = 0;  // stack cells needed
};

/// Reads what Expr::text() and Predicate::text() print (symbol names only); nullopt if it is not
/// such a text. For records and tests.
[[nodiscard]] std::optional<Expr> parse_expr(std::string_view text);
[[nodiscard]] std::optional<Predicate> parse_predicate(std::string_view text);

/// Takes a name off the start of `rest` and gives what it stands for; nullopt: there is none.
using NameReader = std::function<std::optional<Expr>(std::string_view& rest)>;
/// Reads a condition as users write it, with names of their own in place of symbols:
/// "x.size(0) % 8 == 0". nullopt if it is none; `unread` is then what could not be read.
[[nodiscard]] std::optional<Predicate> parse_condition(std::string_view text,
                                                       const NameReader& names,
                                                       std::string_view& unread);

}  // namespace lockstep::shapes
