// Building blocks of ops by index: checks of indices, and places in a tensor flattened row-major
// into one dim. For the files of ops and gradients only.
#pragma once

#include <string_view>
#include <vector>

#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {

/// `index`, i64 or i32, as i64. Throws TraceUsageError, naming `what`, for any other dtype.
[[nodiscard]] Tensor wide_index(std::string_view what, const Tensor& index, const Line& where);

/// `index` with each element checked in the run to be at least 0 and less than `limit`; the failure
/// names `what`. `from_end`: `limit` has already been added to negative elements.
[[nodiscard]] Tensor checked_index(std::string_view what, const Tensor& index,
                                   const shapes::Expr& limit, bool from_end, const Line& where);

/// `count`, 0-d, checked in the run to be at most `most`, the bound declared for `what`.
[[nodiscard]] Tensor checked_count(std::string_view what, const Tensor& count,
                                   const shapes::Expr& most, const Line& where);

/// `lengths` with each element checked in the run to be at least 0 and at most `rows`.
[[nodiscard]] Tensor checked_lengths(std::string_view what, const Tensor& lengths,
                                     const shapes::Expr& rows, const Line& where);

/// `steps` from each offset to the next, checked in the run to be at least 0. Element 0 is negative
/// if the first offset is not 0.
[[nodiscard]] Tensor checked_steps(std::string_view what, const Tensor& steps, const Line& where);

/// As checked_index; negative indices count from the end.
[[nodiscard]] Tensor wrapped_index(std::string_view what, const Tensor& index,
                                   const shapes::Expr& limit, const Line& where);

/// Checks that `size`, a size of an index, is at most `bound`, the size of the tensor called `of`.
void need_no_larger(std::string_view what, const shapes::Expr& size, const shapes::Expr& bound,
                    std::string_view of, Trace& trace, const Line& where);
/// x cut to the first `sizes` elements, such as the sizes of an index, in every dim but `dim`.
/// Checks that x, called `of`, has as many. Requires as many sizes as x has dims.
[[nodiscard]] Tensor shortened(std::string_view what, const Tensor& x,
                               const std::vector<shapes::Expr>& sizes, std::int64_t dim,
                               std::string_view of, const Line& where);

/// x times a size.
[[nodiscard]] Tensor scaled(const Tensor& x, const shapes::Expr& size, const Line& where);

/// For each element of `index`: the row-major place, in a tensor of `sizes`, with the element as
/// the index along `dim` and its own position in the other dims. Records no guards and no asserts.
[[nodiscard]] Tensor places_along(const std::vector<shapes::Expr>& sizes, std::int64_t dim,
                                  const Tensor& index, const Line& where);

/// Moves `dim` of x to the front, and back.
[[nodiscard]] Tensor to_front(const Tensor& x, std::int64_t dim, const Line& where);
[[nodiscard]] Tensor from_front(const Tensor& x, std::int64_t dim, const Line& where);
/// The dims of x in this order.
[[nodiscard]] Tensor in_order(const Tensor& x, Dims order, const Line& where);

/// A number, float input, integer or tensor as a tensor of `dtype`; refuses a tensor of another
/// dtype.
[[nodiscard]] Tensor value_of(std::string_view what, const TensorOperand& value, Trace& trace,
                              DType dtype, const Line& where);

/// x with rows [M, ..] joined at places [M], as `mode` says.
[[nodiscard]] Tensor put_rows(const Tensor& x, const Tensor& places, const Tensor& rows, Put mode,
                              const Line& where);
/// x with rows [M, ..] added at places [M].
[[nodiscard]] Tensor add_rows(const Tensor& x, const Tensor& places, const Tensor& rows,
                              const Line& where);

/// Throws TraceUsageError, naming `what`, for a mask that is not of bools.
void need_mask(std::string_view what, const Tensor& mask, const Line& where);
/// Row-major positions of the mask's trues: i64 [u], u named after `what`. A mask without elements
/// gives the size 0 and no symbol. `least`: a number of trues that the mask certainly has.
[[nodiscard]] Tensor true_positions(const Tensor& mask, std::string_view what, const Line& where,
                                    std::int64_t least = 0);

/// x with its first `leading` dims as one.
[[nodiscard]] Tensor flattened(const Tensor& x, std::size_t leading, const Line& where);
/// All elements in one dim.
[[nodiscard]] Tensor flat_view(const Tensor& x, const Line& where);

}  // namespace lockstep::worker
