// Finds whether the texts of ranks differ in one number only, and whether that number follows from
// the rank. This is the usual difference between programs of ranks (a rank number in a constant).
// Pure; called on the way to an error.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// A number that is the only difference between ranks.
struct RankConstant {
  std::vector<RankValue> values;  // the number alone, by rank set
  /// "the rank's number", "4 * the rank's number + 1"; empty if no such law holds. With two ranks
  /// only a law without a constant term counts, since any two points lie on a line.
  std::string law;
};

/// `rank_table`: one text per distinct value. nullopt if the texts differ in more than one number,
/// or in any other part.
[[nodiscard]] std::optional<RankConstant> rank_constant(const std::vector<RankValue>& rank_table);

/// `text` with every number replaced by '#': equal for texts that differ in numbers only.
[[nodiscard]] std::string without_numbers(std::string_view text);

}  // namespace lockstep::worker
