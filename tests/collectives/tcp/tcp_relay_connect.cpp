// What stands before the system's connect() in a process whose streams go through a relay: says to it
// where it is to go on to, and hears whether somebody listens there. Linked into a test, or loaded into
// programs with LD_PRELOAD, which take the relay's port from TCP_RELAY_PORT.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::uint16_t port_of_environment() {
  const char* said = std::getenv("TCP_RELAY_PORT");
  return static_cast<std::uint16_t>(said == nullptr ? 0 : std::atoi(said));
}

int system_connect(int file, const sockaddr* to, socklen_t length) {
  return static_cast<int>(::syscall(SYS_connect, file, to, length));
}

}  // namespace

/// Where the relay listens; 0: there is none.
std::atomic<std::uint16_t> tcp_relay_port{port_of_environment()};

extern "C" int connect(int file, const sockaddr* to, socklen_t length) {
  const std::uint16_t port = tcp_relay_port.load();
  int type = 0;
  socklen_t bytes = sizeof type;
  if (port == 0 || to->sa_family != AF_INET ||
      ::getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_STREAM)
    return system_connect(file, to, length);
  sockaddr_in wanted{}, relay{};
  std::memcpy(&wanted, to, sizeof wanted);
  relay.sin_family = AF_INET;
  relay.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  relay.sin_port = htons(port);
  const int flags = ::fcntl(file, F_GETFL);
  ::fcntl(file, F_SETFL, flags & ~O_NONBLOCK);
  char answer = 0;
  const bool through =
      system_connect(file, reinterpret_cast<const sockaddr*>(&relay), sizeof relay) == 0 &&
      ::send(file, &wanted.sin_port, sizeof wanted.sin_port, MSG_NOSIGNAL) == 2 &&
      ::recv(file, &answer, 1, 0) == 1 && answer == 1;
  ::fcntl(file, F_SETFL, flags);
  if (through) return 0;
  errno = ECONNREFUSED;
  return -1;
}
