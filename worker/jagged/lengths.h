// What this room asks of lengths before it builds on them. For its files only.
#pragma once

#include <string_view>

#include <lockstep/worker/trace/tensor.h>

namespace lockstep::worker {

/// `lengths` as i64, of i32 too. Throws TraceUsageError, naming `what`, for any other dtype and for
/// another number of dims.
[[nodiscard]] Tensor wide_lengths(std::string_view what, const Tensor& lengths, int ndim,
                                  const Line& where);

}  // namespace lockstep::worker
