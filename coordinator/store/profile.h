// The profile of a frame: what earlier runs of a job saw of its sources, so that a restarted job
// decides at its first call what took the first run several compiles. Neutral as to ranks and their
// number. Pure; profile_store keeps it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/shapes/expr/dynamism.h>
#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::coordinator {

/// One source. A source of that name is the same one only if its key is the same: it covers what
/// else says what the source is (kind, dtype, number of dims).
struct ProfiledSource {
  shapes::Fingerprint key;
  shapes::Dynamism seen;
  bool operator==(const ProfiledSource&) const = default;
};

/// By name.
using Profile = std::map<std::string, ProfiledSource>;

/// What a lattice value read from elsewhere must be before anything relies on it: at most 16 dims,
/// no negative size, each cell in its canonical form.
[[nodiscard]] bool plausible(const shapes::Dynamism& seen);

/// Version 2: number of sources, and per source name, key and lattice value, little-endian.
[[nodiscard]] Bytes encode(const Profile& profile);
/// nullopt: not a profile of this version, or one with a source that is not plausible.
[[nodiscard]] std::optional<Profile> decode_profile(std::span<const std::byte> bytes);
/// The same, and version 1, which has strides: nothing asks for them.
[[nodiscard]] std::optional<Profile> decode_recorded_profile(std::span<const std::byte> bytes);

}  // namespace lockstep::coordinator
