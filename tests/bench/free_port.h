// A port of loopback for a benchmark's ranks to meet at.
#pragma once

#include <cstdlib>

#include <netinet/in.h>
#include <sys/socket.h>

namespace lockstep::bench {

/// A socket that listens at a free port of loopback, which it says; to be closed by the caller.
[[nodiscard]] inline int listen_anywhere(int& port) {
  const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof any;
  if (::bind(file, reinterpret_cast<const sockaddr*>(&any), length) != 0 ||
      ::listen(file, 8) != 0 ||
      ::getsockname(file, reinterpret_cast<sockaddr*>(&any), &length) != 0)
    std::abort();
  port = ntohs(any.sin_port);
  return file;
}

}  // namespace lockstep::bench
