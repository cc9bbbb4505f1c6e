// The tensor language: indexing by tensors of indices and by masks. Names and meanings follow
// torch. Indices are i64 or i32; an index out of range is an error when the graph runs, on all
// ranks. Negative indices are out of range, except where they are said to count from the end. If
// operands do not fit, every function throws TraceUsageError with the user's line. Results are the
// same bits on every run: elements with the same index are joined in the order of the indices. If
// several elements are set at one place, the last one wins, and it alone has a gradient.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/worker/tensor/language/operators.h>

namespace lockstep::worker {

/// Rows of x [R, ..] at index [M].
[[nodiscard]] Tensor index_select(const Tensor& x, const Tensor& index,
                                  Line where = Line::current());
/// Zeros [rows, ..] with `values` [M, ..] added at index [M], in order.
[[nodiscard]] Tensor index_add(const SymInt& rows, const Tensor& index, const Tensor& values,
                               Line where = Line::current());

// Whole slices along `dim`, chosen by index [M]; `source` has x's sizes, but M along `dim`.
[[nodiscard]] Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index,
                                  Line where = Line::current());
/// x with the source added.
[[nodiscard]] Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index,
                               const Tensor& source, Line where = Line::current());
/// x with the source's slices in place of its own.
[[nodiscard]] Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index,
                                const Tensor& source, Line where = Line::current());
/// x with a number or 0-d tensor in place of these slices. Negative indices count from the end.
[[nodiscard]] Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index,
                                const TensorOperand& value, Line where = Line::current());

// Along one dim, element by element: the index has as many dims as x. In dims other than `dim` it
// is no larger than x.
/// For each element of `index`: the element of x at the same place, but with the index along `dim`.
/// The result has the sizes of index.
[[nodiscard]] Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index,
                            Line where = Line::current());
/// As gather, but x and index broadcast in all dims but `dim`. Negative indices count from the end.
[[nodiscard]] Tensor take_along_dim(const Tensor& x, const Tensor& index, std::int64_t dim,
                                    Line where = Line::current());
/// x with elements of `src` (a number, or a tensor no smaller than the index) at the places that
/// gather reads.
[[nodiscard]] Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index,
                             const TensorOperand& src, Line where = Line::current());
/// As scatter, but adds the elements.
[[nodiscard]] Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index,
                                 const Tensor& src, Line where = Line::current());
/// How elements with the same place are joined. The mean of ints is rounded down.
enum class ScatterReduce : std::uint8_t { Sum, Prod, Mean, Amax, Amin };
/// As scatter, but joins the elements. `include_self`: x's own element takes part; else it stays
/// only at places that get no element of `src`. Amax and amin: equal elements share the gradient.
[[nodiscard]] Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index,
                                    const Tensor& src, ScatterReduce reduce,
                                    bool include_self = true, Line where = Line::current());

// Indexing by several tensors, one per dim of x. They broadcast, and negative indices count from
// the end. A mask counts as one tensor per dim of the mask: the places of its trues, which are
// counted (selection_ops.h). Dims of x without a tensor (Index(), or behind the last) are taken
// whole. The dims of the indices replace the indexed dims where the first of these was, or come
// first if a dim without a tensor is between the indexed dims.
[[nodiscard]] Tensor index(const Tensor& x, const std::vector<Index>& at,
                           Line where = Line::current());
/// x with `values`, which broadcast to index(x, at), set or added at the indexed places.
[[nodiscard]] Tensor index_put(const Tensor& x, const std::vector<Index>& at,
                               const TensorOperand& values, bool accumulate = false,
                               Line where = Line::current());

// Indexing by row-major places. Negative places count from the end.
/// The elements of x at these places, in the sizes of `index`.
[[nodiscard]] Tensor take(const Tensor& x, const Tensor& index, Line where = Line::current());
/// x with elements of `source`, one for each index, set or added at these places.
[[nodiscard]] Tensor put(const Tensor& x, const Tensor& index, const Tensor& source,
                         bool accumulate = false, Line where = Line::current());

// Masks of bools. Only masked_put may count the trues of its mask.
/// x with a number or 0-d tensor where the mask is true. x and mask broadcast.
[[nodiscard]] Tensor masked_fill(const Tensor& x, const Tensor& mask, const TensorOperand& value,
                                 Line where = Line::current());
/// x with the elements of `source`, in order, where the mask is true. x and mask broadcast. Checks
/// that the source has enough elements.
[[nodiscard]] Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source,
                                    Line where = Line::current());
/// `x[mask] = value` for a mask over the leading dims of x, as a new tensor. A value for one row of
/// x[mask] broadcasts to all of them. A value with one more dim has a row per true of the mask:
/// then the trues are counted and checked (the host waits, unless x[mask] was counted before).
[[nodiscard]] Tensor masked_put(const Tensor& x, const Tensor& mask, const TensorOperand& value,
                                Line where = Line::current());

}  // namespace lockstep::worker
