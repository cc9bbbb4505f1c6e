// Sends rows to experts of a fixed capacity and back, as mixtures of experts route tokens (GShard,
// Lepikhin et al. 2020; Switch Transformer, Fedus et al. 2021). All sizes are known before the run,
// so ranks exchange buffers of the capacity: no counts are read back, and nothing waits between
// counts and rows.
//
//   const Dispatched sent = dispatch(x, expert_of_row, 8, at_most(capacity));
//   const Received here = send_to_owners(sent);                      // rows [8/n, n * capacity, D]
//   const Tensor made = matmul(relu(matmul(here.rows, w1)), w2);     // w1 [8/n, D, H]
//   const Tensor y = combine(send_back(made), sent.place);           // [R, D]
//
// Every function throws TraceUsageError as those of tensor_ops.h do.
#pragma once

#include <lockstep/worker/tensor/bounded/bounded.h>
#include <lockstep/worker/tensor/graph/group.h>

namespace lockstep::worker {

struct Dispatched {
  Tensor rows;    // [K, C, ..]: the rows of each expert, then zeros
  Tensor counts;  // i64 [K]
  Tensor place;   // i64 [R]: expert * C + place in it; K * C for a dropped row
};
/// Distributes the rows of x [R, ..] to K experts by `target`, i64 or i32 [R]; each expert gets its
/// rows in order. An expert keeps its first C rows, C the capacity; the others are dropped. A
/// target that is not at least 0 and less than K is an error when the graph runs.
[[nodiscard]] Dispatched dispatch(const Tensor& x, const Tensor& target, const SymInt& experts,
                                  const AtMost& capacity, Line where = Line::current());
/// The rows of `rows` [K, C, ..] at `place`: [R, ..], with zeros for dropped rows.
[[nodiscard]] Tensor combine(const Tensor& rows, const Tensor& place, Line where = Line::current());

struct Received {
  Tensor rows;    // [K/n, n * C, ..]: for each expert of this rank, C per rank in rank order
  Tensor counts;  // i64 [K/n, n]: number of rows present among these
};
/// Sends rows to the ranks that own the experts: the first K/n experts to the first rank of the
/// group, and so on; two all_to_alls of equal shares. K is a multiple of n; C is the same on all
/// ranks.
[[nodiscard]] Received send_to_owners(const Dispatched& sent, const Group& group = {},
                                      Line where = Line::current());
/// Sends [K/n, n * C, ..] back to the ranks where the rows came from: [K, C, ..]; one all_to_all.
[[nodiscard]] Tensor send_back(const Tensor& rows, const Group& group = {},
                               Line where = Line::current());

}  // namespace lockstep::worker
