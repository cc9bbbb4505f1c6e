#include <array>
#include <cstring>

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/coordinator/server/peer_user.h>

namespace lockstep::coordinator {
namespace {

/// One end of a connection in the form of sock_diag: port and address in network order.
struct End {
  std::uint8_t family = 0;
  std::uint16_t port = 0;
  std::array<std::uint32_t, 4> address{};
  bool loopback = false;
};

End end_of(const sockaddr_storage& from) {
  End end;
  if (from.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(from);
    end = {AF_INET, in.sin_port, {in.sin_addr.s_addr}, (ntohl(in.sin_addr.s_addr) >> 24) == 127};
  } else if (from.ss_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(from);
    end = {AF_INET6, in.sin6_port, {}, IN6_IS_ADDR_LOOPBACK(&in.sin6_addr)};
    std::memcpy(end.address.data(), &in.sin6_addr, sizeof in.sin6_addr);
    if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
      const std::uint32_t v4 = end.address[3];
      end = {AF_INET, in.sin6_port, {v4}, (ntohl(v4) >> 24) == 127};
    }
  }
  return end;
}

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 wanted;
};

Question question(const End& from, const End& to) {
  Question q{};
  q.header.nlmsg_len = sizeof q;
  q.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  q.header.nlmsg_flags = NLM_F_REQUEST;
  q.wanted.sdiag_family = from.family;
  q.wanted.sdiag_protocol = IPPROTO_TCP;
  q.wanted.idiag_states = ~0U;
  q.wanted.id.idiag_sport = from.port;
  q.wanted.id.idiag_dport = to.port;
  std::memcpy(q.wanted.id.idiag_src, from.address.data(), sizeof from.address);
  std::memcpy(q.wanted.id.idiag_dst, to.address.data(), sizeof to.address);
  q.wanted.id.idiag_cookie[0] = q.wanted.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return q;
}

}  // namespace

std::optional<std::uint32_t> peer_user(int socket) {
  sockaddr_storage ours{}, theirs{};
  socklen_t ours_length = sizeof ours, theirs_length = sizeof theirs;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&ours), &ours_length) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &theirs_length) != 0)
    return std::nullopt;
  const End to = end_of(ours), from = end_of(theirs);
  if (!from.loopback) return std::nullopt;
  const int kernel = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (kernel < 0) return std::nullopt;
  const Question q = question(from, to);
  alignas(nlmsghdr) std::array<char, 1024> reply{};
  // The kernel has answered by the time send() returns.
  const bool asked = ::send(kernel, &q, sizeof q, MSG_DONTWAIT) == sizeof q;
  const ssize_t n = asked ? ::recv(kernel, reply.data(), reply.size(), MSG_DONTWAIT) : -1;
  ::close(kernel);
  nlmsghdr header{};
  inet_diag_msg found{};
  if (n < static_cast<ssize_t>(sizeof header + sizeof found)) return std::nullopt;
  std::memcpy(&header, reply.data(), sizeof header);
  std::memcpy(&found, reply.data() + NLMSG_HDRLEN, sizeof found);
  // For a socket that its process has closed, the kernel reports user 0.
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || found.idiag_state != TCP_ESTABLISHED)
    return std::nullopt;
  return found.idiag_uid;
}

}  // namespace lockstep::coordinator
