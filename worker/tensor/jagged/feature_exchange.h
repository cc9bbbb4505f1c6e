// Sends features to the ranks that own them, as recommenders do whose tables are spread by feature.
// Every rank has all features of its own samples, and receives its own features of all samples; its
// results go back the same way.
//
//   const std::vector<Rank> owner = ..;  // of each feature, on every rank alike
//   const KeyedJagged mine = exchange_features(in.features, owner);  // [slots, samples of all]
//   const Tensor pooled = ..;                                        // [slots, samples of all, D]
//   const Tensor all = exchange_back(pooled, owner);                 // [features, my samples, D]
//
// Every rank has as many slots as the rank with most features; slots without a feature hold absent
// features, so that the sizes are the same on all ranks.
#pragma once

#include <span>
#include <vector>

#include <lockstep/collectives/base/rank.h>
#include <lockstep/worker/tensor/graph/group.h>
#include <lockstep/worker/tensor/jagged/jagged.h>

namespace lockstep::worker {

/// The features of a rank in order: one per slot, without empty slots at the end.
[[nodiscard]] std::vector<std::int64_t> features_of(std::span<const Rank> owner, Rank rank);
/// The largest number of features of one rank.
[[nodiscard]] std::int64_t feature_slots(std::span<const Rank> owner);

/// Sends lengths [F, B] of every rank to [slots, ranks * B], samples in order of the ranks: one
/// all_to_all of all lengths and one of all values, whose gradient is the exchange in reverse. F is
/// the number of owners, which are places in the group. B must be the same on all ranks, as a
/// collective needs it; if it is not, use exchange_features(same_batch(x), owner). Lengths that do
/// not fit the values are an error of all ranks before any value moves.
[[nodiscard]] KeyedJagged exchange_features(const KeyedJagged& x, std::span<const Rank> owner,
                                            const Group& group = {}, Line where = Line::current());
/// [slots, ranks * B, ..] of every rank to [F, B, ..]: one all_to_all.
[[nodiscard]] Tensor exchange_back(const Tensor& pooled, std::span<const Rank> owner,
                                   const Group& group = {}, Line where = Line::current());
/// x with empty samples behind its own, until every rank has as many as the rank with most: an
/// all_reduce of one number.
[[nodiscard]] KeyedJagged same_batch(const KeyedJagged& x, const Group& group = {},
                                     Line where = Line::current());

}  // namespace lockstep::worker
