// The address at which a process of a job or its coordinator listens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// A numeric address and a port. Host names are not looked up, since a lookup may block for long.
struct Endpoint {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;

  /// "127.0.0.1:4711", "[::1]:0". Errors: BadInput.
  [[nodiscard]] static Result<Endpoint> parse(std::string_view text);
  [[nodiscard]] std::string text() const;
  /// True if no other machine can reach the address.
  [[nodiscard]] bool loopback() const;
  bool operator==(const Endpoint&) const = default;
};

}  // namespace lockstep::collectives
