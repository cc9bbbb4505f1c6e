// Collectives of the tensor language, over a group: the frame's, unless another is given. All ranks
// of a given group must be ranks of the frame's: what they do together is what they agree on.
//
// The sizes that a collective needs to be the same on all ranks of its group may be symbols: they
// are uniform from there on. Where the group is the frame's and inputs give the size, the vote of
// every call says whether it is; a difference is ConstraintViolation on all ranks before anything
// moves, unless the frame as traced for these sizes needs none alike. Other sizes are compared when
// the graph runs, right before the first collective that needs them: those of a group within the
// frame's by one exchange per group, those that exist only then unless they were read back from
// what an all_reduce, broadcast or all_gather gave to all ranks alike.
#pragma once

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/graph/group.h>
#include <lockstep/worker/language/tensor_ops.h>

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
/// The same number of rows to and from every rank: rows of x are the same on all ranks and a
/// multiple of the group's size, which is checked when the graph runs unless proven. How counts are
/// exchanged.
[[nodiscard]] Tensor all_to_all_single(const Tensor& x, const Group& group = {},
                                       Line where = Line::current());
[[nodiscard]] Tensor all_reduce(const Tensor& x,
                                collectives::Reduce reduce = collectives::Reduce::Sum,
                                const Group& group = {}, Line where = Line::current());
/// [R, ..] to [n*R, ..], in rank order.
[[nodiscard]] Tensor all_gather(const Tensor& x, const Group& group = {},
                                Line where = Line::current());
/// [n*R, ..] to [R, ..]: this rank's share of the sum. That the rows are a multiple of n is checked
/// when the graph runs unless proven.
[[nodiscard]] Tensor reduce_scatter(const Tensor& x, const Group& group = {},
                                    Line where = Line::current());
/// `root`'s x on every rank; root is a place in the group.
[[nodiscard]] Tensor broadcast(const Tensor& x, Rank root, const Group& group = {},
                               Line where = Line::current());

// Rows that differ between ranks: an exchange of counts goes before. All sizes but those along
// `dim` (0 in send_recv) are the same on all ranks of the group.

/// The size of every rank of the group, in rank order. `like` is any tensor of the frame.
[[nodiscard]] Sizes sizes_of_ranks(const Tensor& like, const SymInt& size, const Group& group = {},
                                   Line where = Line::current());
/// [.., R, ..] of every rank joined along `dim`, in rank order: [.., sum of R, ..]. R may differ;
/// where it is a constant, which no rank has otherwise, no counts are exchanged.
[[nodiscard]] Tensor all_gather(const Tensor& x, std::int64_t dim, const Group& group = {},
                                Line where = Line::current());
/// [.., sum of shares, ..] to [.., share, ..]: this rank's part of the sum along `dim`, parts in
/// rank order. That the shares add up is checked when the graph runs.
[[nodiscard]] Tensor reduce_scatter(const Tensor& x, const SymInt& share, std::int64_t dim,
                                    const Group& group = {}, Line where = Line::current());
/// From one place of a group to another.
struct Route {
  Rank from, to;
};
/// Rows of x of the rank that sends to this one, as stages of a pipeline pass them on; no rows
/// where none does. The routes are the same on every rank; no rank sends twice or receives twice.
[[nodiscard]] Tensor send_recv(const Tensor& x, const std::vector<Route>& routes,
                               const Group& group = {}, Line where = Line::current());

/// `size` is the same on all ranks of the group: known from here on, and told of as a collective's
/// need is; over a group within the frame's, by an all_reduce and a check() where it stands.
void check_same(const SymInt& size, const Group& group = {}, Line where = Line::current());
/// This rank's place in the group: 0-d i64, a runtime value and never a constant of the program.
/// `like` is any tensor of the frame.
[[nodiscard]] Tensor group_rank(const Tensor& like, const Group& group = {},
                                Line where = Line::current());

}  // namespace lockstep::worker
