#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/tensor/jagged/feature_exchange.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/index_places.h>
#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {
namespace {

using Numbers = std::vector<std::int64_t>;

/// Number of ranks, and the features on each.
struct Layout {
  std::int64_t ranks = 1, features = 0, slots = 0;
  Numbers feature_at;  // of each slot of each rank; `features` for an empty slot
};

Layout layout_of(std::string_view what, const Tensor& like, std::span<const Rank> owner,
                 const Group& group, const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of(what, std::vector{like}, where);
  const bool frames = group.name.empty() || group.name == trace->group().name;
  Layout out{.ranks = frames ? trace->group_size() : group.size(),
             .features = static_cast<std::int64_t>(owner.size()),
             .slots = feature_slots(owner)};
  out.feature_at.assign(static_cast<std::size_t>(out.ranks * out.slots), out.features);
  Numbers used(static_cast<std::size_t>(out.ranks), 0);
  for (std::size_t f = 0; f < owner.size(); ++f) {
    const std::int64_t rank = owner[f].value;
    if (rank < 0 || rank >= out.ranks)
      refuse(where, what,
             fmt::format("feature {} belongs to rank {}, but the group has {} ranks", f, rank,
                         out.ranks));
    const std::int64_t place = rank * out.slots + used[static_cast<std::size_t>(rank)]++;
    out.feature_at[static_cast<std::size_t>(place)] = static_cast<std::int64_t>(f);
  }
  return out;
}

/// The numbers as i64 [n], recorded by runs of equal steps.
Tensor constants(Trace& trace, const Numbers& numbers, const Line& where) {
  std::vector<Tensor> runs;
  for (std::size_t at = 0; at < numbers.size();) {
    std::size_t end = at + 1;
    const std::int64_t step = end < numbers.size() ? numbers[end] - numbers[at] : 0;
    while (end < numbers.size() && numbers[end] - numbers[end - 1] == step) ++end;
    const auto count = static_cast<std::int64_t>(end - at);
    const TensorOperand place(arange(trace, count, where), where);
    runs.push_back(TensorOperand(place * TensorOperand(step, where), where) +
                   TensorOperand(numbers[at], where));
    at = end;
  }
  return runs.empty() ? zeros(trace, {0}, DType::I64, where) : cat(runs, 0, where);
}

bool in_order(const Numbers& numbers, std::int64_t count) {
  if (static_cast<std::int64_t>(numbers.size()) != count) return false;
  for (std::int64_t i = 0; i < count; ++i)
    if (numbers[static_cast<std::size_t>(i)] != i) return false;
  return true;
}

/// Rows of x [features, B] by slot: [ranks * slots, B], zeros for empty slots.
Tensor by_slot(const Tensor& x, const Layout& layout, const Line& where) {
  if (in_order(layout.feature_at, layout.features)) return x;
  return index_select(pad(x, 0, 0, 1, where), constants(*x.trace(), layout.feature_at, where),
                      where);
}

/// Swaps two dims: [a * b, B, ..] to [b, a * B, ..], as [a, b, B, ..] to [b, a, B, ..].
Tensor swapped(const Tensor& x, std::int64_t a, std::int64_t b, const Line& where) {
  Sizes split = x.sizes(where), joined = split;
  split[0] = b;
  split.insert(split.begin(), a);
  joined[0] = b, joined[1] = joined[1] * a;
  return reshape(transpose(reshape(x, split, where), 0, 1, where), joined, where);
}

/// i64 [n]: for each length the sum of the lengths before it.
Tensor sums_before(const Tensor& lengths, const Line& where) {
  return emit(Op::Sub, {cumsum(lengths, where), lengths}, {}, where);
}

/// The rows of `values` with the segments in another order: segment i is the lengths[i] rows from
/// starts[i] on.
Tensor reordered_rows(const Tensor& values, const Tensor& starts, const Tensor& lengths,
                      const Line& where) {
  const Tensor flat = reshape(lengths, {-1}, where);
  const Jagged there{values, flat};
  const Tensor first = repeat_by_segment(reshape(starts, {-1}, where), there, where);
  return index_select(values, emit(Op::Add, {first, place_of_rows(there, where)}, {}, where),
                      where);
}

/// Number of rows to or from each rank, by lengths [ranks * slots, B].
Sizes rows_of_ranks(const Tensor& lengths, const Layout& layout, const Line& where) {
  const Tensor blocks =
      reshape(lengths, {layout.ranks, lengths.size(1, where) * layout.slots}, where);
  return tolist(sum(blocks, {1}, Keep::Drop, where), Values::NonNegative, where);
}

}  // namespace

std::vector<std::int64_t> features_of(std::span<const Rank> owner, Rank rank) {
  Numbers out;
  for (std::size_t f = 0; f < owner.size(); ++f)
    if (owner[f] == rank) out.push_back(static_cast<std::int64_t>(f));
  return out;
}

std::int64_t feature_slots(std::span<const Rank> owner) {
  std::size_t most = 0;
  for (const Rank rank : owner) most = std::max(most, features_of(owner, rank).size());
  return static_cast<std::int64_t>(most);
}

KeyedJagged exchange_features(const KeyedJagged& x, std::span<const Rank> owner, const Group& group,
                              Line where) {
  constexpr std::string_view kWhat = "exchange_features";
  (void)trace_of(kWhat, std::vector{x.values, x.lengths}, where);
  const Layout layout = layout_of(kWhat, x.lengths, owner, group, where);
  Jagged all = all_features(x, where);
  // Each length is checked to be at least 0 and at most the number of rows.
  all.lengths = checked_lengths(kWhat, all.lengths, x.values.size(0, where).expr(), where);
  check(x.lengths.size(0, where) == layout.features,
        "exchange_features needs one owner for each feature", where);
  const SymInt batch = x.lengths.size(1, where);
  check_same(batch, group, where);
  const auto like_features = [&](const Tensor& flat) {
    return reshape(flat, {layout.features, batch}, where);
  };
  const Tensor sent = by_slot(like_features(all.lengths), layout, where);
  // One more column, so that the rows of the collective are not empty even if the batch is.
  const Tensor sending = pad(sent, 1, 0, 1, where);
  const Tensor coming = all_to_all_single(sending, group, where);
  const Sizes to = rows_of_ranks(sending, layout, where);
  const Sizes from = rows_of_ranks(coming, layout, where);
  const Tensor received = slice(coming, 1, 0, batch, where);
  Tensor values = x.values;
  if (!in_order(layout.feature_at, layout.features))
    values = reordered_rows(values,
                            by_slot(like_features(sums_before(all.lengths, where)), layout, where),
                            sent, where);
  values = all_to_all_single(values, from, to, group, where);
  // Values are received by rank, then by slot.
  const Tensor lengths = swapped(received, layout.ranks, layout.slots, where);
  if (layout.ranks == 1 || layout.slots == 1) return {values, lengths};
  const Tensor starts = sums_before(reshape(received, {-1}, where), where);
  const Tensor of_slots =
      swapped(reshape(starts, received.sizes(where), where), layout.ranks, layout.slots, where);
  return {reordered_rows(values, of_slots, lengths, where), lengths};
}

Tensor exchange_back(const Tensor& pooled, std::span<const Rank> owner, const Group& group,
                     Line where) {
  constexpr std::string_view kWhat = "exchange_back";
  const Layout layout = layout_of(kWhat, pooled, owner, group, where);
  if (pooled.ndim(where) < 2)
    refuse(where, kWhat,
           fmt::format("takes a tensor [slots, samples of all ranks, ..], not {}",
                       meta_text(meta_of(pooled))));
  check(pooled.size(0, where) == layout.slots, "exchange_back needs a row for each slot", where);
  Sizes sizes = pooled.sizes(where);
  const SymInt batch = sizes[1] / layout.ranks;
  check(batch * layout.ranks == sizes[1], "exchange_back needs as many samples of each rank",
        where);
  check_same(batch, group, where);
  sizes[0] = layout.ranks, sizes[1] = batch;
  Sizes split = sizes, rows = sizes;
  split.insert(split.begin(), layout.slots);
  rows.erase(rows.begin());
  rows[0] = batch * (layout.ranks * layout.slots);
  sizes[0] = layout.ranks * layout.slots;
  const Tensor by_rank =
      reshape(transpose(reshape(pooled, split, where), 0, 1, where), rows, where);
  const Tensor back = reshape(all_to_all_single(by_rank, group, where), sizes, where);
  if (in_order(layout.feature_at, layout.features)) return back;
  // The place of each feature among the slots; empty slots sort behind all.
  const Tensor places = argsort(constants(*back.trace(), layout.feature_at, where), where);
  return index_select(back, slice(places, 0, 0, layout.features, where), where);
}

KeyedJagged same_batch(const KeyedJagged& x, const Group& group, Line where) {
  const std::shared_ptr<Trace> trace =
      trace_of("same_batch", std::vector{x.values, x.lengths}, where);
  if (x.lengths.ndim(where) != 2)
    refuse(where, "same_batch",
           fmt::format("takes lengths [features, batch], not {}", meta_text(meta_of(x.lengths))));
  const SymInt batch = x.lengths.size(1, where);
  const Tensor most =
      all_reduce(scalar(*trace, batch, where), collectives::Reduce::Max, group, where);
  const SymInt all = item(most, Values::NonNegative, where);
  // Rows are in order of features, and empty samples have no rows, so no row moves.
  return {x.values, pad(x.lengths, 1, 0, all - batch, where)};
}

}  // namespace lockstep::worker
