// The round before an exchange of ranks that may see different sources or hold different states:
// what differs, and the names that some rank does not know yet.
#pragma once

#include <optional>
#include <span>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/exchange/dictionary.h>

namespace lockstep::worker {

/// What a range of ranks hold; digests are those of the lowest.
struct Roster {
  struct Part {
    shapes::Fingerprint digest;
    bool differs = false;  // some rank has another
    bool operator==(const Part&) const = default;
  };
  Part dictionary, list, state, entries;
  KnownNames names;  // not in the dictionary of the rank that has them
  /// CodeCache::alike, of those entries that are so on every rank. Only where the frame settles and
  /// ranks may have different inputs: then each of them has it.
  std::optional<std::uint64_t> alike{};
  bool operator==(const Roster&) const = default;
};

[[nodiscard]] Bytes encode(const Roster& roster);
/// nullopt: not such a payload.
[[nodiscard]] std::optional<Roster> decode_roster(std::span<const std::byte> bytes);
/// For the tree; associative. A payload that cannot be read makes the result empty.
[[nodiscard]] Bytes join_rosters(std::span<const std::byte> lower,
                                 std::span<const std::byte> higher);

}  // namespace lockstep::worker
