// Polynomials over atoms: what an Expr is made of. Orders, contents, exact division and the bare
// construction of opaque atoms, for the .cpp files that simplify. Internal to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/shapes/expr/expr.h>

namespace lockstep::shapes {

/// Canonical order of atoms: by op, then symbol or operands.
[[nodiscard]] std::strong_ordering compare_atoms(const Expr::Atom& a, const Expr::Atom& b);
/// Graded lexicographic, greatest first: a monomial order, so leading terms multiply.
[[nodiscard]] std::strong_ordering compare_monomials(std::span<const Expr::Factor> a,
                                                     std::span<const Expr::Factor> b);

/// The sum of terms that are in canonical order, without like ones and without zeros.
[[nodiscard]] Expr of_ordered_terms(std::vector<Expr::Term> terms);

/// An opaque atom, as it stands: no simplification. Throws OverflowError where it nests too much.
[[nodiscard]] Expr raw_atom(Expr::Op op, std::vector<Expr> operands);
/// The atom where the expression is one of that op, else nullptr.
[[nodiscard]] const Expr::Atom* as_atom(const Expr& e, Expr::Op op);

/// The constant term.
[[nodiscard]] std::int64_t constant_term(const Expr& e);
/// The coefficient of the symbol where it stands alone in one term and nowhere else; zero
/// otherwise.
[[nodiscard]] std::int64_t sole_coefficient(const Expr& e, Symbol symbol);
/// Greatest common divisor of the coefficients, >= 0; without the constant term unless asked.
[[nodiscard]] std::int64_t content(const Expr& e, bool with_constant);
/// Every coefficient divided by d. Requires that d divides them all.
[[nodiscard]] Expr divide_coefficients(const Expr& e, std::int64_t d);

/// Whether the term is written with a minus: "-Mod(a, b)", but CeilDiv(a, b) for -((-a) // b).
[[nodiscard]] bool reads_as_negative(const Expr::Term& term);
/// Whether it could be written the other way round as well: -((a - b) // 2), CeilDiv(b - a, 2).
[[nodiscard]] bool reads_either_way(const Expr::Term& term);

/// The factors that every term has, each with its lowest power.
[[nodiscard]] std::vector<Expr::Factor> common_monomial(const Expr& e);
[[nodiscard]] std::vector<Expr::Factor> common_monomial(const std::vector<Expr::Factor>& a,
                                                        const std::vector<Expr::Factor>& b);
/// Requires that the monomial divides every term.
[[nodiscard]] Expr divide_monomial(const Expr& e, std::span<const Expr::Factor> monomial);
[[nodiscard]] Expr monomial_expr(std::int64_t coefficient, std::vector<Expr::Factor> factors);

/// a == quotient*b + remainder, where no term of the remainder is an integer multiple of b's
/// leading term. Requires b != 0. nullopt past a fixed number of steps or on overflow.
struct Division {
  Expr quotient, remainder;
};
[[nodiscard]] std::optional<Division> divide(const Expr& a, const Expr& b);

}  // namespace lockstep::shapes
