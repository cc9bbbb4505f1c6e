// Collectives of the tensor language, over a group: the frame's, unless another is given. All ranks
// of a given group must be ranks of the frame's: what they do together is what they agree on. All
// but all_to_all_single need sizes that are constants: a size that is a symbol may differ between
// ranks.
#pragma once

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/group.h>
#include <lockstep/worker/tensor_ops.h>

namespace lockstep::worker {

/// Sends in_splits[p] rows of x to rank p, in order, and receives out_splits[p] from it; the result
/// has sum(out_splits) rows, in rank order. Each split >= 0 and sum(in_splits) == rows of x are
/// checked when the graph runs unless proven. So is, before any row moves, that in_splits[p] is
/// out_splits[here] on rank p: where they do not fit all ranks get RuntimeAssert ("rank 1 expects 5
/// rows from rank 0, which sends 3"). out_splits made of exchanged counts just as in_splits are
/// made of what was sent are proven to fit; other lists cost an exchange of counts and a vote.
[[nodiscard]] Tensor all_to_all_single(const Tensor& x, const Sizes& out_splits,
                                       const Sizes& in_splits, const Group& group = {},
                                       Line where = Line::current());
/// The same number of rows to and from every rank: rows of x must be a constant multiple of the
/// group's size. How counts are exchanged.
[[nodiscard]] Tensor all_to_all_single(const Tensor& x, const Group& group = {},
                                       Line where = Line::current());
[[nodiscard]] Tensor all_reduce(const Tensor& x,
                                collectives::Reduce reduce = collectives::Reduce::Sum,
                                const Group& group = {}, Line where = Line::current());
/// [R, ..] to [n*R, ..], in rank order.
[[nodiscard]] Tensor all_gather(const Tensor& x, const Group& group = {},
                                Line where = Line::current());
/// [n*R, ..] to [R, ..]: this rank's share of the sum.
[[nodiscard]] Tensor reduce_scatter(const Tensor& x, const Group& group = {},
                                    Line where = Line::current());
/// `root`'s x on every rank; root is a place in the group.
[[nodiscard]] Tensor broadcast(const Tensor& x, Rank root, const Group& group = {},
                               Line where = Line::current());
/// This rank's place in the group: 0-d i64, a runtime value and never a constant of the program.
/// `like` is any tensor of the frame.
[[nodiscard]] Tensor group_rank(const Tensor& like, const Group& group = {},
                                Line where = Line::current());

}  // namespace lockstep::worker
