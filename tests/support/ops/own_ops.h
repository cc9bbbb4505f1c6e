// Ops as users bring them, for tests: what is right of them, to be made wrong.
#pragma once

#include <lockstep/worker/user_ops/own_op.h>

namespace lockstep::worker::test {

/// x / (1 + exp(-x)) of any sizes; f64. Reference, function and both texts.
[[nodiscard]] OwnDefinition swish_definition();
/// With its gradient.
[[nodiscard]] OwnOp swish();
/// (x f64 [n, m], w f64 [m]): the sum of each row's elements times w -> [n]. Of the reference
/// alone.
[[nodiscard]] OwnDefinition weighted_rows_definition();
[[nodiscard]] OwnOp weighted_rows();

}  // namespace lockstep::worker::test
