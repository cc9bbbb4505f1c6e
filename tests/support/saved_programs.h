// Saved programs without a job, for tests: of a traced case, and a small one with a bit of
// everything.
#pragma once

#include "ops/op_cases.h"
#include "ops/own_ops.h"

#include <lockstep/worker/saved/saved_bytes.h>

namespace lockstep::worker::test {

/// Of this graph alone.
[[nodiscard]] SavedProgram program_of(Graph graph, Decision decision, int ranks = 1);
/// The case with all sizes symbols, and its gradients where it is of one rank.
[[nodiscard]] SavedProgram program_of(const OpCase& op_case);
/// Guards, a group guard, uniform sizes, asserts, an own op, branches, a scan, all_to_alls with
/// sizes from data, and an entry of fixed sizes; of 2 ranks.
[[nodiscard]] SavedProgram small_program();
/// y = -x, with one size a symbol; without lines.
[[nodiscard]] SavedProgram tiny_program();
/// The definitions that it uses.
[[nodiscard]] OwnOps own_ops_in(const SavedProgram& program);

}  // namespace lockstep::worker::test
