// Hash-consing: one node for each distinct atom and each distinct sum of terms, for as long as
// something holds it. So equal expressions are one address, comparing them for equality is one
// comparison of pointers, and parts that occur often are stored once. Internal to this folder.
//
// The tables are the one thing here that is shared by all threads: expressions are values that are
// made by operators, which have no place for a table of their own. They are a memo and nothing
// else: no answer depends on what is in them, and nothing ever walks them.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/shapes/expr/expr.h>

namespace lockstep::shapes {

/// The node with these terms. Requires canonical order and that there are any. Thread-safe.
[[nodiscard]] std::shared_ptr<const Expr::Sum> unique_sum(std::vector<Expr::Term> terms);

/// The node that is this atom. Thread-safe.
[[nodiscard]] std::shared_ptr<const Expr::Atom> unique_atom(Expr::Atom atom);

}  // namespace lockstep::shapes
