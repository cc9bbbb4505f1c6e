// The rank table: the distinct values of all ranks, each with the ranks that have the value. Unlike
// a census the table is complete, because an error about inputs lists every distinct value
// (exchange/rules.md). So the table's length grows with the number of distinct values. Collected on
// the way to an error only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// Payload with one rank's row. `value` may hold any bytes; nullopt: the rank is not listed.
[[nodiscard]] Bytes rank_table_payload(Rank self, const std::optional<std::string>& value);
/// Payload with the row of several ranks that have the same value.
[[nodiscard]] Bytes rank_table_payload(const RankSet& ranks,
                                       const std::optional<std::string>& value);
/// The join for the ordered tree (collectives/tree.h). An unreadable payload counts as an empty
/// table.
[[nodiscard]] Bytes join_rank_tables(std::span<const std::byte> lower,
                                     std::span<const std::byte> higher);
/// One row per distinct value, sorted by lowest rank.
[[nodiscard]] std::vector<RankValue> rank_table_values(std::span<const std::byte> payload);

}  // namespace lockstep::worker
