// Checks and shapes of operands. For the files of this room only.
#pragma once

#include <string_view>
#include <vector>

#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {

/// `x` with exactly these sizes; checks that it has them. `name`: its name in errors.
[[nodiscard]] Tensor of_sizes(std::string_view what, std::string_view name, const Tensor& x,
                              const std::vector<shapes::Expr>& sizes, const Line& where);
/// One number for each of `dims` dims, from a list of one for all or one each; `least`: smallest
/// number allowed. `name`: their name in errors.
[[nodiscard]] Dims per_dim(std::string_view what, std::string_view name, const Dims& given,
                           std::size_t dims, std::int64_t least, const Line& where);
/// Throws TraceUsageError unless `x` holds floats.
void need_floats(std::string_view what, const Tensor& x, const Line& where);
/// `x`, i64 or i32, as i64; throws TraceUsageError for any other dtype. `name` as above.
[[nodiscard]] Tensor whole_numbers(std::string_view what, std::string_view name, const Tensor& x,
                                   const Line& where);

}  // namespace lockstep::worker
