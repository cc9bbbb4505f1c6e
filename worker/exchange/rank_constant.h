// Whether what the ranks show differs in one number only, and whether that number follows the rank:
// the usual way in which programs of ranks come to differ (a rank number baked into a constant).
// Pure; called on the way to an error.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// A number that differs between ranks where all else is equal.
struct RankConstant {
  std::vector<RankValue> values;  // the number alone, by rank set
  /// "the rank's number", "4 * the rank's number + 1"; empty where no such law holds. Two ranks
  /// bear out a law without a constant term only: any two points lie on a line.
  std::string law;
};

/// `rank_table`: one text per distinct value. nullopt where the texts differ in more than one
/// number, or in any other part.
[[nodiscard]] std::optional<RankConstant> rank_constant(const std::vector<RankValue>& rank_table);

/// `text` with every such number replaced by '#': equal for texts that differ in numbers only.
[[nodiscard]] std::string without_numbers(std::string_view text);

}  // namespace lockstep::worker
