// The seal: a header before stored bytes with their kind, version, length and SHA-256. All of these
// are checked before other code reads the bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::coordinator {

struct StoredKind {
  std::string_view name;      // "profile": at most 8 letters
  std::uint32_t version = 0;  // version of the bytes after the seal
};

/// Size of a seal: "lockstep", kind, version, length, and the SHA-256 of these fields and of the
/// payload.
inline constexpr std::size_t kSealBytes = 8 + 8 + 4 + 8 + 32;

/// The seal followed by `payload`.
[[nodiscard]] Bytes seal(const StoredKind& kind, std::span<const std::byte> payload);
/// The payload, as a part of `bytes`. Errors: Version (written by another version), Environment (no
/// seal, another kind, cut short, altered). The message says what is damaged; callers put it after
/// "it is damaged".
[[nodiscard]] Result<std::span<const std::byte>> unseal(const StoredKind& kind,
                                                        std::span<const std::byte> bytes);

/// SHA-256 of the bytes as 64 hexadecimal digits; ranks compare it before they load an artifact.
[[nodiscard]] std::string content_digest(std::span<const std::byte> bytes);

}  // namespace lockstep::coordinator
