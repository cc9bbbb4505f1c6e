// Collectives of the tensor language over a group: the frame's group, unless another is given. All
// ranks of a given group must be ranks of the frame: these ranks agree on the program.
//
// Sizes that a collective needs equal on all ranks of its group may be symbols; after the
// collective they count as uniform. If the group is the frame's and inputs give the size, the vote
// of every call compares it. A difference is ConstraintViolation on all ranks before any data
// moves, unless the entry that fits these sizes does not need them equal. Other sizes are compared
// when the graph runs, right before the first collective that needs them. For a group within the
// frame's, one exchange per group compares its sizes. Sizes read back from the result of an
// all_reduce, broadcast or all_gather are equal already and are not compared.
#pragma once

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/tensor/graph/group.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

/// Sends in_splits[p] rows of x to rank p, in order, and receives out_splits[p] from it; the result
/// has sum(out_splits) rows, in rank order. Each split >= 0 and sum(in_splits) == rows of x are
/// checked when the graph runs unless proven. Before any row moves, in_splits[p] of this rank r is
/// compared with out_splits[r] of rank p. If they differ, all ranks get RuntimeAssert ("rank 1
/// expects 5 rows from rank 0, which sends 3"). Lists are proven to fit if out_splits are made of
/// exchanged counts just as in_splits are made of the counts sent; other lists cost an exchange of
/// counts and a vote.
[[nodiscard]] Tensor all_to_all_single(const Tensor& x, const Sizes& out_splits,
                                       const Sizes& in_splits, const Group& group = {},
                                       Line where = Line::current());
/// Sends the same number of rows to every rank and receives as many from each. The number of rows
/// of x is the same on all ranks and a multiple of the group's size, which is checked when the
/// graph runs unless proven. Counts are exchanged this way.
[[nodiscard]] Tensor all_to_all_single(const Tensor& x, const Group& group = {},
                                       Line where = Line::current());
[[nodiscard]] Tensor all_reduce(const Tensor& x,
                                collectives::Reduce reduce = collectives::Reduce::Sum,
                                const Group& group = {}, Line where = Line::current());
/// [R, ..] to [n*R, ..], in rank order.
[[nodiscard]] Tensor all_gather(const Tensor& x, const Group& group = {},
                                Line where = Line::current());
/// [n*R, ..] to [R, ..]: this rank's share of the sum. Checks when the graph runs, unless proven,
/// that the rows are a multiple of n.
[[nodiscard]] Tensor reduce_scatter(const Tensor& x, const Group& group = {},
                                    Line where = Line::current());
/// The x of `root` on every rank; root is a place in the group.
[[nodiscard]] Tensor broadcast(const Tensor& x, Rank root, const Group& group = {},
                               Line where = Line::current());

// Collectives of rows whose number differs between ranks: an exchange of counts comes first. All
// sizes but those along `dim` (0 in send_recv) are the same on all ranks of the group.

/// The size of every rank of the group, in rank order. `like` is any tensor of the frame.
[[nodiscard]] Sizes sizes_of_ranks(const Tensor& like, const SymInt& size, const Group& group = {},
                                   Line where = Line::current());
/// Joins [.., R, ..] of every rank along `dim`, in rank order, to [.., sum of R, ..]. R may differ
/// between ranks. A constant R is the same on all ranks: no counts are exchanged.
[[nodiscard]] Tensor all_gather(const Tensor& x, std::int64_t dim, const Group& group = {},
                                Line where = Line::current());
/// [.., sum of shares, ..] to [.., share, ..]: this rank's part of the sum along `dim`, parts in
/// rank order. Checks when the graph runs that the shares add up.
[[nodiscard]] Tensor reduce_scatter(const Tensor& x, const SymInt& share, std::int64_t dim,
                                    const Group& group = {}, Line where = Line::current());
/// From one place of a group to another.
struct Route {
  Rank from, to;
};
/// Sends the rows of x along the routes, as stages of a pipeline pass rows on. Returns the rows of
/// x of the rank that sends to this one; no rows if no rank does. The routes are the same on every
/// rank; no rank sends twice or receives twice.
[[nodiscard]] Tensor send_recv(const Tensor& x, const std::vector<Route>& routes,
                               const Group& group = {}, Line where = Line::current());

/// Requires that `size` is the same on all ranks of the group: it counts as uniform from here on. A
/// difference is reported as for a collective that needs the size; over a group within the frame's,
/// an all_reduce and a check() at this place report it.
void check_same(const SymInt& size, const Group& group = {}, Line where = Line::current());
/// This rank's place in the group: 0-d i64, a runtime value and never a constant of the program.
/// `like` is any tensor of the frame.
[[nodiscard]] Tensor group_rank(const Tensor& like, const Group& group = {},
                                Line where = Line::current());

}  // namespace lockstep::worker
