// Which rank has which compile unit and who builds the missing ones: the table that the ranks of a
// group join before and after each round of building. Pure; shared_build.cpp moves it.
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

/// A built object as its holder publishes it.
struct UnitArtifact {
  Rank holder;  // the lowest rank that has it
  std::uint64_t bytes = 0;
  std::string digest;  // coordinator::content_digest: what every rank checks before it loads
  bool operator==(const UnitArtifact&) const = default;
};

/// One unit, over the ranks that need it. Ranks are those of the group.
struct UnitRow {
  RankSet able;           // have a compiler
  RankSet failed;         // of those: where the environment did not let it be built
  bool rejected = false;  // a compiler complained about the text: it fails everywhere
  std::optional<UnitArtifact> artifact;
  bool operator==(const UnitRow&) const = default;
};

/// By the key of the unit, which covers what it is built for: ranks with another processor,
/// compiler or program have rows of their own.
using UnitTable = std::map<shapes::Fingerprint, UnitRow>;

[[nodiscard]] Bytes encode(const UnitTable& table);
/// nullopt: not such a table.
[[nodiscard]] std::optional<UnitTable> decode_units(std::span<const std::byte> bytes);
/// For the tree. A table that cannot be read makes the result empty, which cannot be read either.
[[nodiscard]] Bytes join_units(std::span<const std::byte> lower, std::span<const std::byte> higher);

/// The n-th of the ranks, from 0. Requires that there are more than n.
[[nodiscard]] Rank nth(const RankSet& ranks, std::int64_t n);

/// Who builds each unit that nobody has: dealt out evenly, and to ranks that have not failed yet
/// before others. nullopt: all that could have failed. Equal tables deal equally.
[[nodiscard]] std::map<shapes::Fingerprint, std::optional<Rank>> deal_units(const UnitTable& table);

}  // namespace lockstep::worker
