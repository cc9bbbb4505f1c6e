// Inside the interpreter: scans, sorting and searching, row by row; a row is the last dim.
#pragma once

#include <lockstep/worker/compile/interpreter/interpret.h>

namespace lockstep::worker {

[[nodiscard]] Result<Array> interpret_argsort(const NodeCall& call);
[[nodiscard]] Result<Array> interpret_cumsum(const NodeCall& call);
[[nodiscard]] Result<Array> interpret_cumprod(const NodeCall& call);
[[nodiscard]] Result<Array> interpret_cum_argmax(const NodeCall& call);
[[nodiscard]] Result<Array> interpret_logcumsumexp(const NodeCall& call);
[[nodiscard]] Result<Array> interpret_searchsorted(const NodeCall& call);

}  // namespace lockstep::worker
