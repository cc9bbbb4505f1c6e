// Finds the user whose process is at the other end of a connection within this machine.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::coordinator {

/// The user id at the other end of this connected socket, from the kernel (sock_diag). nullopt: the
/// other end is not at a loopback address, has closed, or the kernel gives no answer.
[[nodiscard]] std::optional<std::uint32_t> peer_user(int socket);

}  // namespace lockstep::coordinator
