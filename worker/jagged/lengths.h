// What this room asks of lengths before it builds on them. For its files only.
#pragma once

#include <string_view>

#include <lockstep/worker/trace/tensor.h>

namespace lockstep::worker {

/// Refuses lengths that are not i64 of so many dims, in the name of the function `what`.
void need_lengths(std::string_view what, const Tensor& lengths, int ndim, const Line& where);

}  // namespace lockstep::worker
