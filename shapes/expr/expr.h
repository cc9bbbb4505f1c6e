// Integer expressions over symbols, in polynomial normal form. A value of type Expr denotes a
// partial function from symbol values to integers (a division by zero has no value); two
// expressions with the same normal form are equal as functions (the converse need not hold). If the
// written expression has a value, the normal form has the same value. The normal form may have a
// value if the written expression has none: s0*s1 // s0 is s1, also at s0 == 0. Sizes, guards and
// asserts are made of expressions.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::shapes {

/// A named integer. Backed symbols (s0, s1, …) are bound by graph inputs, unbacked symbols (u0, …)
/// by nodes of the graph. Symbols are ordered by (unbacked, serial), never by address, hash or
/// hint, so the order is the same on all ranks.
struct Symbol {
  bool unbacked = false;
  std::uint32_t serial = 0;
  auto operator<=>(const Symbol&) const = default;
  /// "s0" or "u0"
  [[nodiscard]] std::string name() const;
};

/// Thrown by the operators below if a coefficient does not fit in int64, or if an expression
/// exceeds the fixed size limits. The trace boundary catches it and turns it into a Status.
class OverflowError : public std::overflow_error {
  using std::overflow_error::overflow_error;
};

/// Gives a symbol's value; nullopt: it has no value.
using Valuation = std::function<std::optional<std::int64_t>(Symbol)>;
/// Gives the text for a symbol ("s0", or a source name such as "tokens.size(0)").
using Namer = std::function<std::string(Symbol)>;

/// Immutable value, cheap to copy, safe to share between threads. Hash-consed: equal expressions
/// are one node.
class Expr {
 public:
  /// Zero.
  Expr() = default;
  Expr(std::int64_t constant);  // NOLINT: a number is an expression
  [[nodiscard]] static Expr symbol(Symbol symbol);

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a) { return Expr(0) - a; }

  /// The value of an expression without symbols; nullopt for any other.
  [[nodiscard]] std::optional<std::int64_t> constant() const;
  /// The symbol, if the expression is a single symbol.
  [[nodiscard]] std::optional<Symbol> as_symbol() const;
  /// All symbols that occur in the expression, in canonical order.
  [[nodiscard]] std::vector<Symbol> symbols() const;
  [[nodiscard]] bool has_unbacked() const { return sum_ && sum_->unbacked; }

  /// The value; nullopt if a symbol has no value, on division by zero, or if the value does not fit
  /// in int64 (intermediate values may need up to 128 bits).
  [[nodiscard]] std::optional<std::int64_t> evaluate(const Valuation& values) const;
  /// The expression with `symbol` replaced everywhere.
  [[nodiscard]] Expr substitute(Symbol symbol, const Expr& by) const;
  /// Replaces all symbols at once: symbols inside a replacement are not replaced.
  [[nodiscard]] Expr substitute(const std::map<Symbol, Expr>& replacements) const;

  /// Canonical text, a pure function of the normal form: "2*s0 + 1", "s0 // 4", "Max(s0, u1)".
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string text(const Namer& namer) const;

  /// True if both have the same normal form.
  friend bool operator==(const Expr& a, const Expr& b) { return a.sum_ == b.sum_; }
  /// A total, canonical order by structure.
  friend std::strong_ordering operator<=>(const Expr& a, const Expr& b);

  /// The terms of the normal form, for code that walks expressions (codegen, guard programs).
  /// An expression is the sum over terms of coefficient * product of factors.
  enum class Op : std::uint8_t { Symbol, FloorDiv, Mod, Min, Max };
  struct Atom;
  struct Factor {
    std::shared_ptr<const Atom> atom;
    std::uint32_t power = 1;
  };
  struct Term {
    std::int64_t coefficient = 0;
    std::vector<Factor> factors;  // canonical order; empty for the constant term
  };
  struct Sum {
    std::vector<Term> terms;  // canonical order, coefficients not zero, not empty
    bool unbacked = false;    // it contains an unbacked symbol
  };
  [[nodiscard]] std::span<const Term> terms() const;
  /// The sum of the terms, which may be in any order. Requires that the factors of each term are in
  /// canonical order and that all atoms come from terms().
  [[nodiscard]] static Expr of_terms(std::vector<Term> terms);
  /// The expression that is this atom.
  [[nodiscard]] static Expr of_atom(std::shared_ptr<const Atom> atom);
  /// The address of the node; null for zero. Equal expressions have equal addresses; an address has
  /// no other meaning.
  [[nodiscard]] const void* identity() const { return sum_.get(); }

 private:
  friend Expr of_ordered_terms(std::vector<Term> terms);
  std::shared_ptr<const Sum> sum_;  // null for zero
};

struct Expr::Atom {
  Op op = Op::Symbol;
  lockstep::shapes::Symbol symbol;  // op Symbol
  std::vector<Expr> operands;       // FloorDiv and Mod: two; Min and Max: two or more, sorted
  std::uint32_t weight = 1;         // number of atoms: this one and all inside it
  bool unbacked = false;            // it contains an unbacked symbol
};

/// Rounds towards minus infinity, as the index arithmetic of tensors needs.
[[nodiscard]] Expr floor_div(const Expr& a, const Expr& b);
/// Rounds towards plus infinity: -floor_div(-a, b).
[[nodiscard]] Expr ceil_div(const Expr& a, const Expr& b);
/// a - floor_div(a, b) * b
[[nodiscard]] Expr mod(const Expr& a, const Expr& b);
[[nodiscard]] Expr min(const Expr& a, const Expr& b);
[[nodiscard]] Expr max(const Expr& a, const Expr& b);

/// `base` to the power of `exponent`; 1 if `exponent` is 0.
[[nodiscard]] Expr power(const Expr& base, std::uint32_t exponent);
/// The product of all factors; 1 if there are none.
[[nodiscard]] Expr product(std::span<const Expr> factors);
[[nodiscard]] Expr sum(std::span<const Expr> terms);

}  // namespace lockstep::shapes
