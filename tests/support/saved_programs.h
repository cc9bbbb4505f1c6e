// Saved programs without a job, for tests: made from a traced case, and a small one that has every
// part of the format.
#pragma once

#include "ops/op_cases.h"
#include "ops/own_ops.h"

#include <lockstep/worker/files/saved/saved_bytes.h>

namespace lockstep::worker::test {

/// A program with this graph only.
[[nodiscard]] SavedProgram program_of(Graph graph, Decision decision, int ranks = 1);
/// The case with all sizes as symbols; with its gradients if it runs on one rank.
[[nodiscard]] SavedProgram program_of(const OpCase& op_case);
/// A program of 2 ranks with guards, a group guard, uniform sizes, asserts, an own op, branches, a
/// scan, all_to_alls with sizes from data, and an entry of fixed sizes.
[[nodiscard]] SavedProgram small_program();
/// y = -x, with one size as a symbol; without source lines.
[[nodiscard]] SavedProgram tiny_program();
/// The definitions of own ops that the program uses.
[[nodiscard]] OwnOps own_ops_in(const SavedProgram& program);

}  // namespace lockstep::worker::test
