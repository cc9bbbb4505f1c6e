// Checks of lengths. For the files of this room only.
#pragma once

#include <string_view>

#include <lockstep/worker/tensor/trace/tensor.h>

namespace lockstep::worker {

/// `lengths`, i64 or i32, as i64. Throws TraceUsageError, naming `what`, for any other dtype and
/// for another number of dims.
[[nodiscard]] Tensor wide_lengths(std::string_view what, const Tensor& lengths, int ndim,
                                  const Line& where);

}  // namespace lockstep::worker
