// A connection of somebody who is no rank: bytes as they are, for tests of what listens.
#pragma once

#include <chrono>
#include <span>
#include <thread>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/tcp/tcp.h>

namespace lockstep::collectives {

/// To an address of loopback; tried for five seconds until somebody listens there.
class RawSocket {
 public:
  explicit RawSocket(const Endpoint& to) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(to.port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int tries = 0; tries < 500; ++tries) {
      file_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(file_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0) return;
      ::close(file_);
      file_ = -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~RawSocket() { ::close(file_); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;
  [[nodiscard]] bool write(std::span<const std::byte> bytes) const {
    return ::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  /// Empty: closed, or nothing for `patience`.
  [[nodiscard]] Bytes read(std::chrono::milliseconds patience = std::chrono::seconds(10)) const {
    Bytes out(4096);
    pollfd waited{file_, POLLIN, 0};
    const ssize_t n = ::poll(&waited, 1, static_cast<int>(patience.count())) == 1
                          ? ::recv(file_, out.data(), out.size(), 0)
                          : 0;
    out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return out;
  }
  [[nodiscard]] bool closed_within(std::chrono::milliseconds patience) const {
    pollfd waited{file_, POLLIN, 0};
    std::byte some[256];
    while (::poll(&waited, 1, static_cast<int>(patience.count())) == 1)
      if (::recv(file_, some, sizeof some, 0) <= 0) return true;
    return false;
  }

 private:
  int file_ = -1;
};

}  // namespace lockstep::collectives
