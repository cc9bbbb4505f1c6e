// Scans along a dim, order, and counts by value, for users of frames. Names and meanings are
// torch's. Each function says which of several equal elements it picks, so that results are the
// same on every run. Not-a-number is greater than all else. Every function throws TraceUsageError
// as those of tensor_ops.h do.
//
//   const Taken best = topk(scores, 2, -1);              // {values, indices} [N, 2]
//   const Tensor before = cumsum(counts, 0) - counts;
//   const Tensor left = cumsum(x, -1, Direction::Reverse);
#pragma once

#include <optional>

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

/// Elements of a tensor, and their i64 indices along the dim. Gradients go to these elements.
struct Taken {
  Tensor values, indices;
};

/// Reverse: from the last element of the dim to the first.
enum class Direction : std::uint8_t { Forward, Reverse };

// Inclusive scans of `dim`: each element of the result covers the elements from the start of the
// scan to its place. A result has the dtype of x; ints wrap.
[[nodiscard]] Tensor cumsum(const Tensor& x, std::int64_t dim,
                            Direction direction = Direction::Forward, Line where = Line::current());
/// The gradient is right with zeros among the factors.
[[nodiscard]] Tensor cumprod(const Tensor& x, std::int64_t dim,
                             Direction direction = Direction::Forward,
                             Line where = Line::current());
/// The largest (smallest) element so far; among equal ones the last that the scan passed.
[[nodiscard]] Taken cummax(const Tensor& x, std::int64_t dim,
                           Direction direction = Direction::Forward, Line where = Line::current());
[[nodiscard]] Taken cummin(const Tensor& x, std::int64_t dim,
                           Direction direction = Direction::Forward, Line where = Line::current());
/// log(sum(exp(x))) of floats, without overflow on the way.
[[nodiscard]] Tensor logcumsumexp(const Tensor& x, std::int64_t dim,
                                  Direction direction = Direction::Forward,
                                  Line where = Line::current());
/// Each element minus the element before it. The result has one element fewer along `dim`; it is
/// empty if `dim` is empty.
[[nodiscard]] Tensor diff(const Tensor& x, std::int64_t dim = -1, Line where = Line::current());

// Order along `dim`. Equal elements keep their order, also in descending order.
[[nodiscard]] Tensor argsort(const Tensor& x, std::int64_t dim, bool descending = false,
                             Line where = Line::current());
[[nodiscard]] Taken sort(const Tensor& x, std::int64_t dim = -1, bool descending = false,
                         Line where = Line::current());
/// The k largest elements in descending order, or the k smallest in ascending order; of equal
/// elements the first ones. Checks that `dim` has k elements.
[[nodiscard]] Taken topk(const Tensor& x, const SymInt& k, std::int64_t dim = -1,
                         bool largest = true, Line where = Line::current());
/// The k-th smallest element; k = 1 is the smallest.
[[nodiscard]] Taken kthvalue(const Tensor& x, const SymInt& k, std::int64_t dim = -1,
                             Keep keep = Keep::Drop, Line where = Line::current());
/// The middle element, or the lower one of two; if any element is not a number, the first such
/// element. Checks that `dim` has at least one element.
[[nodiscard]] Taken median(const Tensor& x, std::int64_t dim = -1, Keep keep = Keep::Drop,
                           Line where = Line::current());

/// The place of each value in `sorted`, which ascends along its last dim: before elements equal to
/// the value, or behind them with `right`. i64, in the sizes of `values`. `sorted` is 1-D, or has
/// the dims of `values` except for the last.
[[nodiscard]] Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false,
                                  Line where = Line::current());
/// As searchsorted with the arguments swapped and 1-D boundaries.
[[nodiscard]] Tensor bucketize(const Tensor& values, const Tensor& boundaries, bool right = false,
                               Line where = Line::current());

/// Number of times each of 0, 1, .., length - 1 occurs in the 1-D ints x: i64 [length]. With
/// weights, one per element of x, sums the weights in place of counting; int weights are summed in
/// f64. Any other element is an error when the graph runs. The default length is one more than the
/// largest element (0 for an empty x); it is read back to the host.
[[nodiscard]] Tensor bincount(const Tensor& x, const std::optional<SymInt>& length = {},
                              const std::optional<Tensor>& weights = {},
                              Line where = Line::current());

}  // namespace lockstep::worker
