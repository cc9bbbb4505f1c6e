// What ops by indices are made of: checks of indices, and places in a tensor that lies row-major in
// one dim. For the files of ops and gradients only.
#pragma once

#include <string_view>
#include <vector>

#include <lockstep/worker/language/op_builder.h>

namespace lockstep::worker {

/// `index` as i64, of i32 too. Throws TraceUsageError, naming `what`, for any other dtype.
[[nodiscard]] Tensor wide_index(std::string_view what, const Tensor& index, const Line& where);

/// `index`, each of it checked in the run to be at least 0 and less than `limit`; the failure names
/// `what`. `from_end`: those that are negative had `limit` added.
[[nodiscard]] Tensor checked_index(std::string_view what, const Tensor& index,
                                   const shapes::Expr& limit, bool from_end, const Line& where);

/// `count` [], checked in the run to be at most `most`, which was declared of `what`.
[[nodiscard]] Tensor checked_count(std::string_view what, const Tensor& count,
                                   const shapes::Expr& most, const Line& where);

/// `lengths`, each of it checked in the run to be at least 0 and at most `rows`.
[[nodiscard]] Tensor checked_lengths(std::string_view what, const Tensor& lengths,
                                     const shapes::Expr& rows, const Line& where);

/// `steps` from each offset to the next, checked in the run to be at least 0; element 0 is negative
/// where the first offset is not 0.
[[nodiscard]] Tensor checked_steps(std::string_view what, const Tensor& steps, const Line& where);

/// As checked_index, of indices that count from the end where they are negative.
[[nodiscard]] Tensor wrapped_index(std::string_view what, const Tensor& index,
                                   const shapes::Expr& limit, const Line& where);

/// Checks that a size of the index is at most that of `of`.
void need_no_larger(std::string_view what, const shapes::Expr& size, const shapes::Expr& bound,
                    std::string_view of, Trace& trace, const Line& where);
/// The first elements of x in every dim but `dim`, as many as `sizes` says, which are those of an
/// index; that x, called `of`, has as many is checked. Requires as many dims.
[[nodiscard]] Tensor shortened(std::string_view what, const Tensor& x,
                               const std::vector<shapes::Expr>& sizes, std::int64_t dim,
                               std::string_view of, const Line& where);

/// x times a size.
[[nodiscard]] Tensor scaled(const Tensor& x, const shapes::Expr& size, const Line& where);

/// For each element of `index`, the row-major place in a tensor of `sizes` that it names along
/// `dim`, the other dims being its own. Records no guards and no asserts.
[[nodiscard]] Tensor places_along(const std::vector<shapes::Expr>& sizes, std::int64_t dim,
                                  const Tensor& index, const Line& where);

/// With that dim first, and back.
[[nodiscard]] Tensor to_front(const Tensor& x, std::int64_t dim, const Line& where);
[[nodiscard]] Tensor from_front(const Tensor& x, std::int64_t dim, const Line& where);
/// The dims of x in this order.
[[nodiscard]] Tensor in_order(const Tensor& x, Dims order, const Line& where);

/// A number, a float input, an integer or a tensor as a tensor of `dtype`; a tensor of another
/// dtype is refused.
[[nodiscard]] Tensor value_of(std::string_view what, const TensorOperand& value, Trace& trace,
                              DType dtype, const Line& where);

/// x with rows [M, ..] joined in at places [M].
[[nodiscard]] Tensor put_rows(const Tensor& x, const Tensor& places, const Tensor& rows, Put mode,
                              const Line& where);
/// x with rows [M, ..] added at places [M].
[[nodiscard]] Tensor add_rows(const Tensor& x, const Tensor& places, const Tensor& rows,
                              const Line& where);

/// Throws TraceUsageError, naming `what`, for a mask that is not of bools.
void need_mask(std::string_view what, const Tensor& mask, const Line& where);
/// Row-major positions of what is true: i64 [u], u named after `what`. No symbol where there is
/// nothing to count. `least`: a number of trues that is certain.
[[nodiscard]] Tensor true_positions(const Tensor& mask, std::string_view what, const Line& where,
                                    std::int64_t least = 0);

/// The first `leading` dims as one, and the dims behind them.
[[nodiscard]] Tensor flattened(const Tensor& x, std::size_t leading, const Line& where);
/// All elements in one dim.
[[nodiscard]] Tensor flat_view(const Tensor& x, const Line& where);

}  // namespace lockstep::worker
