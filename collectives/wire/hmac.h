// HMAC-SHA256 (RFC 2104, FIPS 180-4).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include <lockstep/collectives/base/bytes.h>

namespace lockstep::collectives {

using Mac = std::array<std::byte, 32>;

/// Requires a key that is not empty.
[[nodiscard]] Mac hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> text);
/// HMACs of many texts under one key. Used by one thread.
class HmacKey {
 public:
  /// Requires a key that is not empty.
  explicit HmacKey(std::span<const std::byte> key);
  [[nodiscard]] Mac of(std::span<const std::byte> text);

 private:
  struct Context;
  struct Free {
    void operator()(Context* context) const;
  };
  std::unique_ptr<Context, Free> context_;
};
/// True if the bytes are equal. The time taken does not depend on where they differ.
[[nodiscard]] bool same(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace lockstep::collectives
