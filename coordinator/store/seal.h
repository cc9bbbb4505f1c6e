// What stands before bytes that lockstep stores and reads again: what they are, in which version,
// how many there are, and their SHA-256. All of it is checked before anything else reads them.
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
  std::uint32_t version = 0;  // of the bytes behind the seal
};

/// "lockstep", kind, version, length, SHA-256 of these and of what follows.
inline constexpr std::size_t kSealBytes = 8 + 8 + 4 + 8 + 32;

/// `payload` behind its seal.
[[nodiscard]] Bytes seal(const StoredKind& kind, std::span<const std::byte> payload);
/// What is behind the seal, within `bytes`. Errors: Version (written by another version),
/// Environment (no such seal, another kind, cut, altered); the message goes on from "it is
/// damaged".
[[nodiscard]] Result<std::span<const std::byte>> unseal(const StoredKind& kind,
                                                        std::span<const std::byte> bytes);

/// SHA-256 of the bytes as 64 hexadecimal digits: what ranks compare before they load an artifact.
[[nodiscard]] std::string content_digest(std::span<const std::byte> bytes);

}  // namespace lockstep::coordinator
