// Whose process is at the other end of a connection within this machine.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::coordinator {

/// The user at the other end of this connected socket, as the kernel says (sock_diag). nullopt: the
/// other end is not at a loopback address, has closed, or the kernel does not say.
[[nodiscard]] std::optional<std::uint32_t> peer_user(int socket);

}  // namespace lockstep::coordinator
