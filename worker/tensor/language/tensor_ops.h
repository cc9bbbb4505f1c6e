// The tensor language: the operations of traced functions besides operators (operators.h),
// elementwise functions (elementwise_ops.h), indexing (index_ops.h), and scans and order along a
// dim (order_ops.h). Names and meanings follow numpy and torch. If operands do not fit, every
// function throws TraceUsageError with the user's line. Every rule is valid at sizes 0 and 1.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <lockstep/worker/tensor/language/elementwise_ops.h>
#include <lockstep/worker/tensor/language/index_ops.h>

namespace lockstep::worker {

using Dims = std::vector<std::int64_t>;  // negative dims count from the end
using Sizes = std::vector<SymInt>;

// New tensors. A symbolic size determines the trace; if all sizes are plain numbers, pass the
// trace.
[[nodiscard]] Tensor full(const Sizes& sizes, double value, DType dtype,
                          Line where = Line::current());
[[nodiscard]] Tensor full(Trace& trace, const Sizes& sizes, double value, DType dtype,
                          Line where = Line::current());
[[nodiscard]] Tensor zeros(const Sizes& sizes, DType dtype, Line where = Line::current());
[[nodiscard]] Tensor zeros(Trace& trace, const Sizes& sizes, DType dtype,
                           Line where = Line::current());
[[nodiscard]] Tensor ones(const Sizes& sizes, DType dtype, Line where = Line::current());
[[nodiscard]] Tensor ones(Trace& trace, const Sizes& sizes, DType dtype,
                          Line where = Line::current());
[[nodiscard]] Tensor full_like(const Tensor& x, double value, Line where = Line::current());
[[nodiscard]] Tensor zeros_like(const Tensor& x, Line where = Line::current());
[[nodiscard]] Tensor ones_like(const Tensor& x, Line where = Line::current());
/// 0, 1, ..., n-1 as i64.
[[nodiscard]] Tensor arange(const SymInt& n, Line where = Line::current());
[[nodiscard]] Tensor arange(Trace& trace, const SymInt& n, Line where = Line::current());
/// The index along `dim`, i64.
[[nodiscard]] Tensor iota(const Sizes& sizes, std::int64_t dim, Line where = Line::current());
/// A 0-d i64 tensor.
[[nodiscard]] Tensor scalar(const SymInt& value, Line where = Line::current());
[[nodiscard]] Tensor scalar(Trace& trace, const SymInt& value, Line where = Line::current());

// Views and movement.
/// One size may be -1; it is computed from the others. Requires the same number of elements, which
/// is checked when the graph runs unless proven.
[[nodiscard]] Tensor reshape(const Tensor& x, const Sizes& sizes, Line where = Line::current());
/// Dim i of the result is dim dims[i] of x.
[[nodiscard]] Tensor permute(const Tensor& x, const Dims& dims, Line where = Line::current());
[[nodiscard]] Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b,
                               Line where = Line::current());
/// Dims are aligned at the end; a dim of x must be equal or the constant 1; -1 keeps x's size.
[[nodiscard]] Tensor expand(const Tensor& x, const Sizes& sizes, Line where = Line::current());
[[nodiscard]] Tensor unsqueeze(const Tensor& x, std::int64_t dim, Line where = Line::current());
/// Requires that the dim has the constant size 1.
[[nodiscard]] Tensor squeeze(const Tensor& x, std::int64_t dim, Line where = Line::current());
/// Elements start, ..., start+length-1 of `dim`; 0 <= start and start+length <= size are checked.
[[nodiscard]] Tensor slice(const Tensor& x, std::int64_t dim, const SymInt& start,
                           const SymInt& length, Line where = Line::current());
/// Zeros before and after along `dim`; both counts are checked to be >= 0.
[[nodiscard]] Tensor pad(const Tensor& x, std::int64_t dim, const SymInt& before,
                         const SymInt& after, Line where = Line::current());
/// Requires at least one tensor, and equal sizes in all dims but `dim`.
[[nodiscard]] Tensor cat(const std::vector<Tensor>& xs, std::int64_t dim,
                         Line where = Line::current());
/// The elements of `dims` in reverse order; no dims: x.
[[nodiscard]] Tensor flip(const Tensor& x, const Dims& dims, Line where = Line::current());
/// Parts of the given sizes; checks their sum.
[[nodiscard]] std::vector<Tensor> split(const Tensor& x, const Sizes& sizes, std::int64_t dim,
                                        Line where = Line::current());

// Reductions over `dims`; no dims: over all. Over no elements: sum is 0, prod 1, mean, var and
// stddev are not a number, amax the lowest and amin the highest value of the dtype (floats:
// infinities), argmax and argmin 0, softmax empty, logsumexp minus infinity. A 0-d tensor also
// accepts the dim 0, over which there is nothing to reduce.
enum class Keep : std::uint8_t { Drop, Keep };  // a reduced dim vanishes, or stays with size 1
[[nodiscard]] Tensor sum(const Tensor& x, const Dims& dims = {}, Keep keep = Keep::Drop,
                         Line where = Line::current());
/// Ints wrap. The gradient is right with zeros among the factors.
[[nodiscard]] Tensor prod(const Tensor& x, const Dims& dims = {}, Keep keep = Keep::Drop,
                          Line where = Line::current());
[[nodiscard]] Tensor mean(const Tensor& x, const Dims& dims = {}, Keep keep = Keep::Drop,
                          Line where = Line::current());
/// The sum of squared deviations from the mean, divided by n - `correction` for n elements.
/// `correction` is 1 for a sample, 0 for a population. Takes floats; infinite or not a number
/// unless n > correction.
[[nodiscard]] Tensor var(const Tensor& x, const Dims& dims = {}, double correction = 1,
                         Keep keep = Keep::Drop, Line where = Line::current());
/// The square root of the variance, torch's `std`. Its gradient is 0 where its value is 0.
[[nodiscard]] Tensor stddev(const Tensor& x, const Dims& dims = {}, double correction = 1,
                            Keep keep = Keep::Drop, Line where = Line::current());
/// The variance, or the standard deviation, beside the mean.
struct Spread {
  Tensor value, mean;
};
[[nodiscard]] Spread var_mean(const Tensor& x, const Dims& dims = {}, double correction = 1,
                              Keep keep = Keep::Drop, Line where = Line::current());
[[nodiscard]] Spread std_mean(const Tensor& x, const Dims& dims = {}, double correction = 1,
                              Keep keep = Keep::Drop, Line where = Line::current());
/// The vector norm (torch.linalg.vector_norm) of floats: the p-th root of the sum of |x|^p. p may
/// be 0 (number of elements that are not 0), 1, any other number, and plus or minus infinity (amax
/// and amin of |x|). The gradient is 0 where the norm is 0.
[[nodiscard]] Tensor norm(const Tensor& x, double p = 2, const Dims& dims = {},
                          Keep keep = Keep::Drop, Line where = Line::current());
/// Number of elements that are not 0 (not false), i64.
[[nodiscard]] Tensor count_nonzero(const Tensor& x, const Dims& dims = {}, Keep keep = Keep::Drop,
                                   Line where = Line::current());
[[nodiscard]] Tensor amax(const Tensor& x, const Dims& dims = {}, Keep keep = Keep::Drop,
                          Line where = Line::current());
[[nodiscard]] Tensor amin(const Tensor& x, const Dims& dims = {}, Keep keep = Keep::Drop,
                          Line where = Line::current());
/// For bools. Over no elements: any is false, all is true.
[[nodiscard]] Tensor any(const Tensor& x, const Dims& dims = {}, Keep keep = Keep::Drop,
                         Line where = Line::current());
[[nodiscard]] Tensor all(const Tensor& x, const Dims& dims = {}, Keep keep = Keep::Drop,
                         Line where = Line::current());
/// The lowest index among equal values, i64.
[[nodiscard]] Tensor argmax(const Tensor& x, std::int64_t dim, Keep keep = Keep::Drop,
                            Line where = Line::current());
[[nodiscard]] Tensor argmin(const Tensor& x, std::int64_t dim, Keep keep = Keep::Drop,
                            Line where = Line::current());
[[nodiscard]] Tensor softmax(const Tensor& x, std::int64_t dim, Line where = Line::current());
[[nodiscard]] Tensor log_softmax(const Tensor& x, std::int64_t dim, Line where = Line::current());
/// Ints are computed in f32.
[[nodiscard]] Tensor logsumexp(const Tensor& x, std::int64_t dim, Keep keep = Keep::Drop,
                               Line where = Line::current());
[[nodiscard]] Tensor logsumexp(const Tensor& x, const Dims& dims, Keep keep = Keep::Drop,
                               Line where = Line::current());

// Products; more in product_ops.h.
/// [.., M, K] x [.., K, N]; dims before the last two broadcast. A 1-D side is a row or a column.
[[nodiscard]] Tensor matmul(const Tensor& a, const Tensor& b, Line where = Line::current());
/// Rows of x [N, K] come in segments of counts[e] rows (i64 [E], sum N); segment e is multiplied by
/// w[e] of w [E, K, M]. Segments may be empty.
[[nodiscard]] Tensor segment_matmul(const Tensor& x, const Tensor& w, const Tensor& counts,
                                    Line where = Line::current());

// Order and counts (more in order_ops.h); indexing is in index_ops.h.
/// Indices that sort along the last dim, ascending, stable.
[[nodiscard]] Tensor argsort(const Tensor& x, Line where = Line::current());
/// Inclusive sums of a 1-D tensor.
[[nodiscard]] Tensor cumsum(const Tensor& x, Line where = Line::current());
/// Each index k, counts[k] times in a row: i64 [total], for counts i64 [K] whose sum is `total`.
[[nodiscard]] Tensor segment_ids(const Tensor& counts, const SymInt& total,
                                 Line where = Line::current());
/// i64 [..] to [.., classes]: 1 where the index is the class, else 0.
[[nodiscard]] Tensor one_hot(const Tensor& index, const SymInt& classes, DType dtype,
                             Line where = Line::current());

// Values that exist only when the graph runs, read back to the host. The host waits for each.
enum class Values : std::uint8_t { Any, NonNegative };  // NonNegative: checked; symbols are >= 0
/// The elements of an i64 or bool tensor of constant length as integers. Repeated calls on one
/// tensor give the same symbols.
[[nodiscard]] std::vector<SymInt> tolist(const Tensor& x, Values values = Values::Any,
                                         Line where = Line::current());
/// The element of a 0-d i64 or bool tensor; a bool is 0 or 1. If the tensor is an input of the
/// frame, or a comparison of values computed from float inputs, the element is known before the
/// graph runs, like a size, and a branch on it is a guard.
[[nodiscard]] SymInt item(const Tensor& x, Values values = Values::Any,
                          Line where = Line::current());
/// The element of a 0-d bool tensor, for check(). A branch on it throws DataDependentError, unless
/// it is known before the graph runs.
[[nodiscard]] SymBool item_bool(const Tensor& x, Line where = Line::current());

}  // namespace lockstep::worker
