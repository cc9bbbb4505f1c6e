// The table of compile units: which ranks have them, and which rank builds each missing one. The
// tables of a group's ranks are joined before and after each round of building. Pure;
// shared_build.cpp sends the tables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/rank.h>
#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::worker {

/// A built object, as announced by its holder.
struct UnitArtifact {
  Rank holder;  // the lowest rank that has it
  std::uint64_t bytes = 0;
  std::string digest;  // coordinator::content_digest; every rank checks it before it loads
  bool operator==(const UnitArtifact&) const = default;
};

/// What is known of one unit. Ranks are numbered as in the group.
struct UnitRow {
  RankSet able;           // ranks with a compiler
  RankSet failed;         // ranks that could not build the unit
  bool rejected = false;  // a compiler rejected the text: it fails everywhere
  std::optional<UnitArtifact> artifact;
  bool operator==(const UnitRow&) const = default;
};

/// Rows by the key of their unit. The key covers what the unit is built for: ranks with another
/// processor, compiler or program have rows of their own.
using UnitTable = std::map<shapes::Fingerprint, UnitRow>;

[[nodiscard]] Bytes encode(const UnitTable& table);
/// Returns nullopt if the bytes are not such a table.
[[nodiscard]] std::optional<UnitTable> decode_units(std::span<const std::byte> bytes);
/// Joins two tables, for the tree. If one of them cannot be read, returns no bytes, which cannot be
/// read either.
[[nodiscard]] Bytes join_units(std::span<const std::byte> lower, std::span<const std::byte> higher);

/// Returns the n-th of the ranks, from 0. Requires more than n ranks.
[[nodiscard]] Rank nth(const RankSet& ranks, std::int64_t n);

/// Returns the builder of each unit without a holder. The units are dealt out evenly, first to
/// ranks that have not failed yet. nullopt: all ranks that could build the unit have failed. Equal
/// tables give equal results.
[[nodiscard]] std::map<shapes::Fingerprint, std::optional<Rank>> deal_units(const UnitTable& table);

}  // namespace lockstep::worker
