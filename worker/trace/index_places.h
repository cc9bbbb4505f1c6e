// What ops by indices are made of: checks of indices, and places in a tensor that lies row-major in
// one dim. For the files of ops and gradients only.
#pragma once

#include <string_view>
#include <vector>

#include <lockstep/worker/trace/op_builder.h>

namespace lockstep::worker {

/// Throws TraceUsageError, naming `what`, for indices that are not i64.
void need_index(std::string_view what, const Tensor& index, const Line& where);

/// `index`, each of it checked in the run to be at least 0 and less than `limit`; the failure names
/// `what`. `from_end`: those that are negative had `limit` added.
[[nodiscard]] Tensor checked_index(std::string_view what, const Tensor& index,
                                   const shapes::Expr& limit, bool from_end, const Line& where);

/// The same of indices that count from the end where they are negative.
[[nodiscard]] Tensor wrapped_index(std::string_view what, const Tensor& index,
                                   const shapes::Expr& limit, const Line& where);

/// The first elements of x in every dim but `dim`, as many as `sizes` says; that x has as many is
/// checked. Requires as many dims.
[[nodiscard]] Tensor shortened(std::string_view what, const Tensor& x,
                               const std::vector<shapes::Expr>& sizes, std::int64_t dim,
                               const Line& where);

/// x times a size.
[[nodiscard]] Tensor scaled(const Tensor& x, const shapes::Expr& size, const Line& where);

/// For each element of `index`, the row-major place in a tensor of `sizes` that it names along
/// `dim`, the other dims being its own. Records no guards and no asserts.
[[nodiscard]] Tensor places_along(const std::vector<shapes::Expr>& sizes, std::int64_t dim,
                                  const Tensor& index, const Line& where);

/// All elements in one dim.
[[nodiscard]] Tensor flat_view(const Tensor& x, const Line& where);

}  // namespace lockstep::worker
