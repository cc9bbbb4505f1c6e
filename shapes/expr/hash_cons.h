// Hash-consing: one node for each distinct atom and each distinct sum of terms, as long as an
// expression holds it. So equality is one comparison of pointers, and a part that occurs often is
// stored once. Internal to this folder.
//
// All threads share the tables, because operators make expressions, and an operator cannot get a
// table as an argument. The tables are only a memo: no answer depends on their content, and no code
// walks them.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/shapes/expr/expr.h>

namespace lockstep::shapes {

/// The node with these terms. Requires at least one term, in canonical order. Thread-safe.
[[nodiscard]] std::shared_ptr<const Expr::Sum> unique_sum(std::vector<Expr::Term> terms);

/// The node of this atom. Thread-safe.
[[nodiscard]] std::shared_ptr<const Expr::Atom> unique_atom(Expr::Atom atom);

}  // namespace lockstep::shapes
