// Own ops, as users define them, for tests. The definitions are right; tests change them to be
// wrong.
#pragma once

#include <lockstep/worker/tensor/user_ops/own_op.h>

namespace lockstep::worker::test {

/// x / (1 + exp(-x)) for x f64 [n, m]. Has a reference, a function, and texts for host and CUDA.
[[nodiscard]] OwnDefinition swish_definition();
/// swish_definition() with its gradient.
[[nodiscard]] OwnOp swish();
/// (x f64 [n, m], w f64 [m]): the sum of each row's elements times w -> [n]. Has a reference only.
[[nodiscard]] OwnDefinition weighted_rows_definition();
[[nodiscard]] OwnOp weighted_rows();

}  // namespace lockstep::worker::test
