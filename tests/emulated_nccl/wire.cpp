#include "wire.h"

#include <algorithm>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace lockstep::emulated {
namespace {

bool write_all(int socket, const void* from, std::size_t bytes) {
  const auto* p = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const ssize_t n = ::send(socket, p, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool read_all(int socket, void* to, std::size_t bytes) {
  auto* p = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const ssize_t n = ::recv(socket, p, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

/// A length in elements, then they.
template <class List>
bool write_list(int socket, const List& list) {
  const std::uint64_t length = list.size();
  return write_all(socket, &length, sizeof length) &&
         write_all(socket, list.data(), list.size() * sizeof list[0]);
}
template <class List>
bool read_list(int socket, List& list) {
  std::uint64_t length = 0;
  if (!read_all(socket, &length, sizeof length)) return false;
  list.resize(length);
  return read_all(socket, list.data(), list.size() * sizeof list[0]);
}

bool write_blocks(int socket, const std::vector<Block>& blocks) {
  const std::uint64_t length = blocks.size();
  return write_all(socket, &length, sizeof length) &&
         std::all_of(blocks.begin(), blocks.end(),
                     [&](const Block& block) { return write_list(socket, block); });
}
bool read_blocks(int socket, std::vector<Block>& blocks) {
  std::uint64_t length = 0;
  if (!read_all(socket, &length, sizeof length)) return false;
  blocks.resize(length);
  return std::all_of(blocks.begin(), blocks.end(),
                     [&](Block& block) { return read_list(socket, block); });
}

sockaddr_un address(const SocketName& name, socklen_t& length) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  // A leading zero byte makes the name abstract.
  std::memcpy(out.sun_path + 1, name.data(), name.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return out;
}

}  // namespace

std::string Operation::text() const {
  static constexpr const char* kNames[] = {"ncclSend",        "ncclRecv",          "ncclAllReduce",
                                           "ncclAllGather",   "ncclReduceScatter", "ncclBroadcast",
                                           "ncclCommFinalize"};
  return fmt::format("{} of {} elements of type {}, operation {}, peer or root {}",
                     kNames[static_cast<int>(kind)], count, type, reduce, peer);
}

std::size_t type_size(std::int32_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

bool write(int socket, const Greeting& greeting) {
  return write_all(socket, &greeting, sizeof greeting);
}
bool write(int socket, const Launched& launched) {
  return write_list(socket, launched.operations) && write_blocks(socket, launched.blocks);
}
bool write(int socket, const Answered& answered) {
  return write_all(socket, &answered.result, sizeof answered.result) &&
         write_list(socket, answered.text) && write_blocks(socket, answered.blocks);
}

std::optional<Greeting> read_greeting(int socket) {
  Greeting greeting;
  if (!read_all(socket, &greeting, sizeof greeting)) return std::nullopt;
  return greeting;
}
std::optional<Launched> read_launched(int socket) {
  Launched launched;
  if (!read_list(socket, launched.operations) || !read_blocks(socket, launched.blocks))
    return std::nullopt;
  return launched;
}
std::optional<Answered> read_answered(int socket) {
  Answered answered;
  if (!read_all(socket, &answered.result, sizeof answered.result) ||
      !read_list(socket, answered.text) || !read_blocks(socket, answered.blocks))
    return std::nullopt;
  return answered;
}

int listen_at_new_name(SocketName& name) {
  std::random_device random;
  const std::string text =
      fmt::format("emulated nccl {} {:08x}{:08x}", ::getpid(), random(), random());
  name = {};
  std::copy(text.begin(), text.end(), name.begin());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t length = 0;
  const sockaddr_un at = address(name, length);
  if (socket >= 0 && ::bind(socket, reinterpret_cast<const sockaddr*>(&at), length) == 0 &&
      ::listen(socket, 64) == 0)
    return socket;
  ::close(socket);
  return -1;
}

int connect_to(const SocketName& name) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t length = 0;
  const sockaddr_un at = address(name, length);
  if (socket >= 0 && ::connect(socket, reinterpret_cast<const sockaddr*>(&at), length) == 0)
    return socket;
  ::close(socket);
  return -1;
}

}  // namespace lockstep::emulated
