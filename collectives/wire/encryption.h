// Decides whether a connection is encrypted: it is if another machine can reach it, unless the user
// turns encryption off.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/wire/endpoint.h>

namespace lockstep::collectives {

enum class Encryption : std::uint8_t {
  Off,
  On,
  AsTheClient  // for a server: on if the client begins with encryption
};

/// True if LOCKSTEP_ENCRYPTION is "on" or not set, false if "off". Errors: BadInput (another
/// value).
[[nodiscard]] Result<bool> encryption_wanted();
/// For a client that connects to `server`, and for ranks that meet there: On, unless `server` is
/// loopback or LOCKSTEP_ENCRYPTION=off.
[[nodiscard]] Encryption encryption_to(const Endpoint& server);
/// For a server towards a client at `address`: On if `address` is not loopback, unless
/// LOCKSTEP_ENCRYPTION=off; else AsTheClient.
[[nodiscard]] Encryption encryption_from(std::string_view address);
/// A line for the log if other machines can reach `what` at `at` without encryption; else empty.
[[nodiscard]] std::string encryption_warning(const Endpoint& at, std::string_view what);

}  // namespace lockstep::collectives
