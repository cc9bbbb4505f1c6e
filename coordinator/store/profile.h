// The profile of a frame: what earlier runs of a job saw of its sources, so that a restarted job
// decides at its first call what took the first run several compiles. Neutral as to ranks and their
// number. Pure; profile_store keeps it.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <span>
#include <string>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
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

/// A frame across runs: its name and, where the caller has one, a fingerprint of its content (the
/// text of the function), so that another function of the same name starts with nothing.
struct FrameKey {
  std::string name;
  shapes::Fingerprint content;
  auto operator<=>(const FrameKey&) const = default;
};

/// A profile and whose it is.
struct KeptProfile {
  std::string job;
  FrameKey frame;
  Profile profile;
  bool operator==(const KeptProfile&) const = default;
};

/// Version 2, sealed (seal.h).
[[nodiscard]] Bytes encode(const KeptProfile& kept);
/// Errors: Version (another one), Environment (not a profile, or one with a source that is not
/// plausible); the message goes on from "it is damaged".
[[nodiscard]] Result<KeptProfile> decode_profile(std::span<const std::byte> bytes);
/// Version 1, which old records hold: sources alone, without a seal. nullopt: as the errors above.
[[nodiscard]] std::optional<Profile> decode_first_profile(std::span<const std::byte> bytes);

}  // namespace lockstep::coordinator
