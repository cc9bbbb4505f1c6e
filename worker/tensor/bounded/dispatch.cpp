#include <fmt/format.h>

#include <lockstep/worker/tensor/bounded/dispatch.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/index_places.h>
#include <lockstep/worker/tensor/language/order_ops.h>

namespace lockstep::worker {
namespace {

std::int64_t ranks_of(const Tensor& x, const Group& group) {
  const Trace& trace = *x.trace();
  const bool of_frame = group.name.empty() || group.name == trace.group().name;
  return of_frame ? trace.group_size() : group.size();
}

/// Rows [n, ..] at `places`; place n gives zeros.
Tensor rows_or_zeros(const Tensor& rows, const Tensor& places, const Line& where) {
  return index_select(pad(rows, 0, 0, 1, where), places, where);
}

/// x [a * b, ..] as [a, b, ..], transposed to [b, a, ..].
Tensor swapped(const Tensor& x, const SymInt& a, const SymInt& b, const Line& where) {
  Sizes sizes = x.sizes(where);
  sizes[0] = b;
  sizes.insert(sizes.begin(), a);
  return transpose(reshape(x, sizes, where), 0, 1, where);
}

/// Exchanges [K, c, ..] of every rank so that each owner gets [K/n, n * c, ..].
Tensor by_owner(const Tensor& x, std::int64_t ranks, const Group& group, const Line& where) {
  const Tensor received = all_to_all_single(x, group, where);
  const SymInt mine = x.size(0, where) / SymInt(ranks);
  const Tensor apart = swapped(received, ranks, mine, where);
  Sizes sizes = x.sizes(where);
  sizes[0] = mine;
  sizes[1] = SymInt(ranks) * sizes[1];
  return reshape(apart, sizes, where);
}

}  // namespace

Dispatched dispatch(const Tensor& x, const Tensor& expert_of_row, const SymInt& experts,
                    const AtMost& capacity, Line where) {
  const std::shared_ptr<Trace> trace =
      trace_of("dispatch", std::vector{x, expert_of_row}, {experts, capacity.bound}, where);
  const DType dtype = expert_of_row.dtype();
  if (x.ndim() == 0 || expert_of_row.ndim() != 1 || (dtype != DType::I64 && dtype != DType::I32))
    refuse(where, "dispatch",
           fmt::format("takes rows [R, ..] and an i64 or i32 target for each, [R], not {} and {}",
                       meta_text(meta_of(x)), meta_text(meta_of(expert_of_row))));
  const Tensor target = wide_index("dispatch", expert_of_row, where);
  trace->env().check(shapes::equal(x.size(0).expr(), target.size(0).expr()), trace->here(where),
                     "dispatch needs a target for each row");
  const At at{where};
  const SymInt& room = capacity.bound;
  const Tensor wanted = bincount(target, experts, {}, where);
  const Tensor order = argsort(target, where);
  const Tensor sorted = index_select(target, order, where);
  const Tensor before = at(cumsum(wanted, where)) - at(wanted);
  const Tensor number = arange(*trace, x.size(0), where);
  const Tensor in_expert = at(number) - at(index_select(before, sorted, where));
  const Tensor slot = lockstep::worker::where(
      at(in_expert) < at(room), at(at(at(sorted) * at(room)) + at(in_expert)), at(experts * room));
  const Tensor place =
      put_rows(filled(*trace, meta_of(slot), 0, where), order, slot, Put::Set, where);
  // The row at each slot; the number of rows for an empty slot. Dropped rows go to a slot behind
  // all others.
  const Tensor nobody =
      expand(scalar(*trace, x.size(0), where), {experts * room + SymInt(1)}, where);
  const Tensor row_at =
      slice(put_rows(nobody, place, number, Put::Set, where), 0, 0, experts * room, where);
  Sizes sizes = x.sizes(where);
  sizes[0] = room;
  sizes.insert(sizes.begin(), experts);
  return {reshape(rows_or_zeros(x, row_at, where), sizes, where), minimum(at(wanted), at(room)),
          place};
}

Tensor combine(const Tensor& rows, const Tensor& place, Line where) {
  (void)trace_of("combine", std::vector{rows, place}, where);
  if (rows.ndim() < 2)
    refuse(where, "combine",
           fmt::format("takes rows [K, C, ..], not {}", meta_text(meta_of(rows))));
  return rows_or_zeros(flattened(rows, 2, where), place, where);
}

Received send_to_owners(const Dispatched& sent, const Group& group, Line where) {
  (void)trace_of("send_to_owners", std::vector{sent.rows, sent.counts}, where);
  const std::int64_t ranks = ranks_of(sent.rows, group);
  // Counts go first: their exchange reports earlier failures, so the rows need no vote.
  const Tensor counts = by_owner(unsqueeze(sent.counts, 1, where), ranks, group, where);
  return {by_owner(sent.rows, ranks, group, where), counts};
}

Tensor send_back(const Tensor& rows, const Group& group, Line where) {
  (void)trace_of("send_back", std::vector{rows}, where);
  if (rows.ndim() < 2)
    refuse(where, "send_back",
           fmt::format("takes rows [K/n, n * C, ..], not {}", meta_text(meta_of(rows))));
  const std::int64_t ranks = ranks_of(rows, group);
  Sizes sizes = rows.sizes(where);
  const SymInt mine = sizes[0], room = sizes[1] / SymInt(ranks);
  sizes[1] = room;
  sizes.insert(sizes.begin() + 1, SymInt(ranks));
  const Tensor by_rank = transpose(reshape(rows, sizes, where), 0, 1, where);
  sizes.erase(sizes.begin());
  sizes[0] = mine * SymInt(ranks);
  return all_to_all_single(reshape(by_rank, sizes, where), group, where);
}

}  // namespace lockstep::worker
