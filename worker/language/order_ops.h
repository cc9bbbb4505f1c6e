// Scans along a dim, order, and counts by value, for users of frames. Names and meanings are
// torch's; of several equal elements each function says which it means, so that results are the
// same on every run. Not-a-number is greater than all else. Every function throws TraceUsageError
// as those of tensor_ops.h do.
//
//   const Taken best = topk(scores, 2, -1);              // {values, indices} [N, 2]
//   const Tensor before = cumsum(counts, 0) - counts;
//   const Tensor left = cumsum(x, -1, Direction::Reverse);
#pragma once

#include <optional>

#include <lockstep/worker/language/tensor_ops.h>

namespace lockstep::worker {

/// Elements of a tensor, and i64 indices along the dim: where they stand in it. Gradients go to
/// these elements.
struct Taken {
  Tensor values, indices;
};

/// Reverse: from the last element of the dim to the first.
enum class Direction : std::uint8_t { Forward, Reverse };

// Scans: of all elements of `dim` up to each, itself included. A result has the dtype of x; ints
// wrap.
[[nodiscard]] Tensor cumsum(const Tensor& x, std::int64_t dim,
                            Direction direction = Direction::Forward, Line where = Line::current());
/// Its gradient is right with zeros among the factors.
[[nodiscard]] Tensor cumprod(const Tensor& x, std::int64_t dim,
                             Direction direction = Direction::Forward,
                             Line where = Line::current());
/// The largest (smallest) element so far; of equal ones the last that the scan came to.
[[nodiscard]] Taken cummax(const Tensor& x, std::int64_t dim,
                           Direction direction = Direction::Forward, Line where = Line::current());
[[nodiscard]] Taken cummin(const Tensor& x, std::int64_t dim,
                           Direction direction = Direction::Forward, Line where = Line::current());
/// Of floats: log(sum(exp(x))), which overflows nowhere on the way.
[[nodiscard]] Tensor logcumsumexp(const Tensor& x, std::int64_t dim,
                                  Direction direction = Direction::Forward,
                                  Line where = Line::current());
/// What each element is more than the one before: one fewer along `dim`, of none none.
[[nodiscard]] Tensor diff(const Tensor& x, std::int64_t dim = -1, Line where = Line::current());

// Order along `dim`. Equal elements stay in the order in which they stand, also where it descends.
[[nodiscard]] Tensor argsort(const Tensor& x, std::int64_t dim, bool descending = false,
                             Line where = Line::current());
[[nodiscard]] Taken sort(const Tensor& x, std::int64_t dim = -1, bool descending = false,
                         Line where = Line::current());
/// The k largest (smallest), from there on in order; of equal ones the first. `dim` has as many,
/// which is checked.
[[nodiscard]] Taken topk(const Tensor& x, const SymInt& k, std::int64_t dim = -1,
                         bool largest = true, Line where = Line::current());
/// The k-th smallest, k = 1 the smallest.
[[nodiscard]] Taken kthvalue(const Tensor& x, const SymInt& k, std::int64_t dim = -1,
                             Keep keep = Keep::Drop, Line where = Line::current());
/// The element in the middle, of an even number the lower one; if there is a not-a-number, the
/// first of these. `dim` has at least one element, which is checked.
[[nodiscard]] Taken median(const Tensor& x, std::int64_t dim = -1, Keep keep = Keep::Drop,
                           Line where = Line::current());

/// Where each value goes in `sorted`, which ascends along its last dim: before elements equal to
/// it, or with `right` behind them; i64 of the sizes of `values`. `sorted` is 1-D, or its dims but
/// the last are those of `values`.
[[nodiscard]] Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false,
                                  Line where = Line::current());
/// The same the other way round, with 1-D boundaries.
[[nodiscard]] Tensor bucketize(const Tensor& values, const Tensor& boundaries, bool right = false,
                               Line where = Line::current());

/// How often each of 0, 1, .., length - 1 occurs in the 1-D ints x: i64 [length]; with weights, one
/// per element of x, the sum of theirs, of ints in f64. Any other element is an error when the
/// graph runs. Without a length it is one more than the largest element (0 for an empty x), which
/// is read back to the host.
[[nodiscard]] Tensor bincount(const Tensor& x, const std::optional<SymInt>& length = {},
                              const std::optional<Tensor>& weights = {},
                              Line where = Line::current());

}  // namespace lockstep::worker
