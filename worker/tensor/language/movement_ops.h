// The tensor language: movement of elements, made of views, slices, padding and cat. Names and
// meanings follow torch, negative dims count from the end, and every rule is valid at sizes 0 and
// 1. If operands do not fit, every function throws TraceUsageError with the user's line.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

/// x at `index` of `dim`, without that dim. A plain negative index counts from the end. Checks that
/// the index lies in the dim.
[[nodiscard]] Tensor select(const Tensor& x, std::int64_t dim, const SymInt& index,
                            Line where = Line::current());
/// Dims start to end become one dim. A 0-d tensor becomes [1].
[[nodiscard]] Tensor flatten(const Tensor& x, std::int64_t start = 0, std::int64_t end = -1,
                             Line where = Line::current());
/// `dim` becomes dims of these sizes; one of them may be -1.
[[nodiscard]] Tensor unflatten(const Tensor& x, std::int64_t dim, const Sizes& sizes,
                               Line where = Line::current());
/// Dim source[i] goes to place destination[i]; the others keep their order.
[[nodiscard]] Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination,
                             Line where = Line::current());

/// xs joined along a new dim. Requires at least one tensor, all of equal sizes.
[[nodiscard]] Tensor stack(const std::vector<Tensor>& xs, std::int64_t dim = 0,
                           Line where = Line::current());
/// The opposite of stack. Requires a dim whose size is a number.
[[nodiscard]] std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim = 0,
                                         Line where = Line::current());
/// n parts along `dim` of ceil(size / n) elements each. There are always n parts: the last ones
/// have fewer elements or none.
[[nodiscard]] std::vector<Tensor> chunk(const Tensor& x, std::int64_t n, std::int64_t dim = 0,
                                        Line where = Line::current());
/// x repeated times[i] times along dim i. `times` and the dims are aligned at the end; further
/// numbers add dims in front. Requires a number for each dim of x.
[[nodiscard]] Tensor repeat(const Tensor& x, const Sizes& times, Line where = Line::current());
/// As repeat; dims without a number are taken once.
[[nodiscard]] Tensor tile(const Tensor& x, const Sizes& times, Line where = Line::current());

/// Moves elements by shifts[i] along dims[i]; elements that leave at one end enter at the other. No
/// dims: moves by one shift in row-major order.
[[nodiscard]] Tensor roll(const Tensor& x, const Sizes& shifts, const Dims& dims = {},
                          Line where = Line::current());

// Triangles and diagonals of the last two dims. `diagonal` and `offset` count to the right of the
// main diagonal; negative numbers mean diagonals below it.
/// Zeros above the diagonal.
[[nodiscard]] Tensor tril(const Tensor& x, std::int64_t diagonal = 0, Line where = Line::current());
/// Zeros below the diagonal.
[[nodiscard]] Tensor triu(const Tensor& x, std::int64_t diagonal = 0, Line where = Line::current());
/// The diagonal of dims a and b as the last dim; empty if it lies outside.
[[nodiscard]] Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t a = 0,
                              std::int64_t b = 1, Line where = Line::current());
/// Zeros with the last dim of x on the diagonal of new dims a and b.
[[nodiscard]] Tensor diag_embed(const Tensor& x, std::int64_t offset = 0, std::int64_t a = -2,
                                std::int64_t b = -1, Line where = Line::current());
/// diag_embed of a 1-D tensor, diagonal of a 2-D one.
[[nodiscard]] Tensor diag(const Tensor& x, std::int64_t offset = 0, Line where = Line::current());

/// Windows along one dim of x: `count` windows that start `stride` elements apart, each of `size`
/// elements `dilation` apart.
struct Windows {
  std::int64_t dim = 0;
  SymInt size;
  std::int64_t stride = 1, dilation = 1;
  std::optional<SymInt> count{};  // default: as many as lie within the dim
};
/// Each windowed dim of x becomes the number of its windows. One dim per window size is appended,
/// in the order of the windowed dims. A view, as torch's Tensor.unfold. Checks that windows lie
/// within x.
[[nodiscard]] Tensor unfold(const Tensor& x, const std::vector<Windows>& windows,
                            Line where = Line::current());
/// The inverse of unfold: adds up windows where they overlap, in a fixed order, into a tensor whose
/// windowed dims have `sizes`. Window sizes and counts are those of x: `size` and `count` of the
/// windows are not used.
[[nodiscard]] Tensor fold(const Tensor& x, const std::vector<Windows>& windows, const Sizes& sizes,
                          Line where = Line::current());

/// Ij: dim i has the size of xs[i]. Xy: the same with the first two dims swapped.
enum class Indexing : std::uint8_t { Ij, Xy };
/// Each of the 1-D or 0-d xs spread over the grid of all of them.
[[nodiscard]] std::vector<Tensor> meshgrid(const std::vector<Tensor>& xs,
                                           Indexing indexing = Indexing::Ij,
                                           Line where = Line::current());

}  // namespace lockstep::worker
