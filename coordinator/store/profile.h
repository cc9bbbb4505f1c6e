// The profile of a frame: the lattice values of its sources in earlier runs of a job, so that a
// restarted job makes at its first call the decisions for which the first run needed several
// compiles. It does not depend on ranks or their number. Pure; profile_store stores it.
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

/// One source. Sources with equal names count as one source only if their keys are equal too. A key
/// covers kind, dtype and number of dims.
struct ProfiledSource {
  shapes::Fingerprint key;
  shapes::Dynamism seen;
  bool operator==(const ProfiledSource&) const = default;
};

/// Sources by name.
using Profile = std::map<std::string, ProfiledSource>;

/// Whether a lattice value that was read or received is valid: at most 16 dims, no negative size,
/// each cell in canonical form.
[[nodiscard]] bool plausible(const shapes::Dynamism& seen);

/// Identifies a frame across runs: its name and, if the caller has it, a fingerprint of its content
/// (the text of the function), so that another function of the same name starts without a profile.
struct FrameKey {
  std::string name;
  shapes::Fingerprint content;
  auto operator<=>(const FrameKey&) const = default;
};

/// A profile with its job and frame.
struct KeptProfile {
  std::string job;
  FrameKey frame;
  Profile profile;
  bool operator==(const KeptProfile&) const = default;
};

/// The profile as bytes of version 2, sealed (seal.h).
[[nodiscard]] Bytes encode(const KeptProfile& kept);
/// Reads the result of encode(). Errors: Version (another version), Environment (not a profile, or
/// a source is not plausible). The message says what is damaged; callers put it after "it is
/// damaged".
[[nodiscard]] Result<KeptProfile> decode_profile(std::span<const std::byte> bytes);
/// Reads bytes of version 1, which old records hold: only sources, without a seal. nullopt: not a
/// valid profile.
[[nodiscard]] std::optional<Profile> decode_first_profile(std::span<const std::byte> bytes);

}  // namespace lockstep::coordinator
