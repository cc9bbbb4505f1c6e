// What the functions of this room check and shape their operands with. For its files only.
#pragma once

#include <string_view>
#include <vector>

#include <lockstep/worker/language/op_builder.h>

namespace lockstep::worker {

/// `x` with exactly these sizes, which it is checked to have. `name`: what it is to the user.
[[nodiscard]] Tensor of_sizes(std::string_view what, std::string_view name, const Tensor& x,
                              const std::vector<shapes::Expr>& sizes, const Line& where);
/// One number for each of `dims` dims, of a list of one for all or one each; `least`: what each is
/// at least. `name`: what they are to the user.
[[nodiscard]] Dims per_dim(std::string_view what, std::string_view name, const Dims& given,
                           std::size_t dims, std::int64_t least, const Line& where);
/// Throws TraceUsageError unless `x` holds floats.
void need_floats(std::string_view what, const Tensor& x, const Line& where);
/// `x` as i64, of i32 too; throws TraceUsageError for any other dtype. `name` as above.
[[nodiscard]] Tensor whole_numbers(std::string_view what, std::string_view name, const Tensor& x,
                                   const Line& where);

}  // namespace lockstep::worker
