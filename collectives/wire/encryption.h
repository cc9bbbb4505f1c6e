// Whether a connection is encrypted: where another machine can reach it, unless the user has said
// otherwise.
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
  AsTheClient  // a server's: on where the client begins with it
};

/// Whether LOCKSTEP_ENCRYPTION allows it: "on", and where nothing is said; "off". Errors: BadInput
/// (something else).
[[nodiscard]] Result<bool> encryption_wanted();
/// Of a client that connects to `server`, and of ranks that meet there: On, unless it is loopback or
/// LOCKSTEP_ENCRYPTION=off.
[[nodiscard]] Encryption encryption_to(const Endpoint& server);
/// Of a server towards a client at `address`: it has to encrypt if its address is not loopback, unless
/// LOCKSTEP_ENCRYPTION=off.
[[nodiscard]] Encryption encryption_from(std::string_view address);
/// What the log says where `what` could be reached from other machines and is not encrypted; empty
/// where it is, or cannot be.
[[nodiscard]] std::string encryption_warning(const Endpoint& at, std::string_view what);

}  // namespace lockstep::collectives
