// The roll: what every rank says, as a table of distinct values with the ranks that say them.
// Unlike a census it is complete: an error about inputs lists every distinct value (formats,
// version 1), so its length grows with the number of distinct values. Taken on the way to an error
// only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// One rank's part; nullopt: it has nothing to say and is not listed. Values may hold any bytes.
[[nodiscard]] Bytes roll_payload(Rank self, const std::optional<std::string>& value);
/// The part of several ranks that say the same.
[[nodiscard]] Bytes roll_payload(const RankSet& ranks, const std::optional<std::string>& value);
/// For the tree. What cannot be read counts as an empty roll.
[[nodiscard]] Bytes join_rolls(std::span<const std::byte> lower, std::span<const std::byte> higher);
/// One entry per distinct value, by lowest rank.
[[nodiscard]] std::vector<RankValue> roll_values(std::span<const std::byte> payload);

}  // namespace lockstep::worker
