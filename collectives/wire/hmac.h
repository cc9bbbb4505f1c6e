// HMAC-SHA256 (RFC 2104, FIPS 180-4) and what is made with it.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <lockstep/collectives/base/bytes.h>

namespace lockstep::collectives {

using Mac = std::array<std::byte, 32>;

/// Requires a key that is not empty.
[[nodiscard]] Mac hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> text);
/// Takes the same time wherever they differ.
[[nodiscard]] bool same(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace lockstep::collectives
