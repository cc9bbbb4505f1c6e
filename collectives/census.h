// The census: which ranks hold which value, for the per-rank table of an error. It travels up the
// ordered tree, and the result back down, so every rank ends with the same table.
#pragma once

#include <string_view>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// Distinct values and the ranks that hold them, ordered by lowest rank. Texts of more than
/// kMaxText bytes are cut, and end in the length and a digest of the whole text, so different texts
/// stay different. At most kMaxValues values are kept; ranks with other values share a last entry,
/// kOthers.
class Census {
 public:
  static constexpr std::size_t kMaxText = 4096;
  static constexpr std::size_t kMaxValues = 64;
  static constexpr std::string_view kOthers = "(other values)";

  Census() = default;
  [[nodiscard]] static Census of(Rank rank, std::string_view value);
  /// Adds the ranks of `higher`, which are all above the ranks of this census.
  void join(const Census& higher);
  /// Adds `ranks`, which are all above the ranks so far, as holders of `value`.
  void add(const RankSet& ranks, std::string_view value);

  [[nodiscard]] const std::vector<RankValue>& values() const { return values_; }
  [[nodiscard]] bool unanimous() const { return values_.size() <= 1; }

  void encode(ByteWriter& out) const;
  /// Returns an empty census if the bytes do not decode.
  [[nodiscard]] static Census decode(ByteReader& in);

  bool operator==(const Census&) const = default;

 private:
  std::vector<RankValue> values_;
};

}  // namespace lockstep::collectives
