// Polynomials over atoms, which are the form of an Expr: orders, contents, exact division, and the
// construction of opaque atoms without simplification. Used by the .cpp files that simplify.
// Internal to shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/shapes/expr/expr.h>

namespace lockstep::shapes {

/// Canonical order of atoms: by op, then symbol or operands.
[[nodiscard]] std::strong_ordering compare_atoms(const Expr::Atom& a, const Expr::Atom& b);
/// Graded lexicographic order, greatest first. It is a monomial order: the leading term of a
/// product is the product of the leading terms.
[[nodiscard]] std::strong_ordering compare_monomials(std::span<const Expr::Factor> a,
                                                     std::span<const Expr::Factor> b);

/// The sum of the terms. Requires canonical order, no two terms with the same factors, no zero
/// coefficient.
[[nodiscard]] Expr of_ordered_terms(std::vector<Expr::Term> terms);

/// An opaque atom without simplification. Throws OverflowError if it nests too deeply.
[[nodiscard]] Expr raw_atom(Expr::Op op, std::vector<Expr> operands);
/// The atom, if the expression is a single atom of that op; else nullptr.
[[nodiscard]] const Expr::Atom* as_atom(const Expr& e, Expr::Op op);

/// The constant term.
[[nodiscard]] std::int64_t constant_term(const Expr& e);
/// The coefficient of the symbol, if the symbol is the only factor of one term and occurs nowhere
/// else; otherwise zero.
[[nodiscard]] std::int64_t sole_coefficient(const Expr& e, Symbol symbol);
/// Greatest common divisor of the coefficients, >= 0; including the constant term if
/// `with_constant`.
[[nodiscard]] std::int64_t content(const Expr& e, bool with_constant);
/// Every coefficient divided by d. Requires that d divides them all.
[[nodiscard]] Expr divide_coefficients(const Expr& e, std::int64_t d);

/// Whether the term is written with a minus, as "-Mod(a, b)". The term -((-a) // b) is written
/// CeilDiv(a, b), without a minus.
[[nodiscard]] bool reads_as_negative(const Expr::Term& term);
/// Whether the term reads equally well with both signs, as -((a - b) // 2), which is CeilDiv(b - a,
/// 2).
[[nodiscard]] bool reads_either_way(const Expr::Term& term);

/// The factors that every term has, each with its lowest power.
[[nodiscard]] std::vector<Expr::Factor> common_monomial(const Expr& e);
[[nodiscard]] std::vector<Expr::Factor> common_monomial(const std::vector<Expr::Factor>& a,
                                                        const std::vector<Expr::Factor>& b);
/// The expression divided by the monomial. Requires that the monomial divides every term.
[[nodiscard]] Expr divide_monomial(const Expr& e, std::span<const Expr::Factor> monomial);
[[nodiscard]] Expr monomial_expr(std::int64_t coefficient, std::vector<Expr::Factor> factors);

/// a == quotient*b + remainder, where no term of the remainder is an integer multiple of b's
/// leading term. Requires b != 0. nullopt past a fixed number of steps or on overflow.
struct Division {
  Expr quotient, remainder;
};
[[nodiscard]] std::optional<Division> divide(const Expr& a, const Expr& b);

}  // namespace lockstep::shapes
