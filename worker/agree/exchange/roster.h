// The roster: the round before an exchange, if ranks may see different sources or hold different
// states. It finds out what differs, and spreads the names that some rank does not know yet.
#pragma once

#include <optional>
#include <span>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/agree/exchange/dictionary.h>

namespace lockstep::worker {

/// For a range of ranks: the digests of its lowest rank, and whether other ranks' digests differ.
struct Roster {
  struct Part {
    shapes::Fingerprint digest;
    bool differs = false;  // some rank has another digest
    bool operator==(const Part&) const = default;
  };
  Part dictionary, list, state, entries;
  KnownNames names;  // the names that the sender's dictionary lacks
  /// AND of CodeCache::alike. All ranks send it if DecisionConfig::settle is set under
  /// shared_sizes; else no rank does.
  std::optional<std::uint64_t> alike{};
  bool operator==(const Roster&) const = default;
};

[[nodiscard]] Bytes encode(const Roster& roster);
/// nullopt: an invalid payload.
[[nodiscard]] std::optional<Roster> decode_roster(std::span<const std::byte> bytes);
/// The join for the tree; associative. An unreadable payload makes the result empty.
[[nodiscard]] Bytes join_rosters(std::span<const std::byte> lower,
                                 std::span<const std::byte> higher);

}  // namespace lockstep::worker
