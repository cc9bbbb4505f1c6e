#include "running_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::coordinator {
namespace {

constexpr int kPatience = 10'000;  // milliseconds

/// False after kPatience.
bool readable(int file, int milliseconds = kPatience) {
  pollfd waited{file, POLLIN, 0};
  return ::poll(&waited, 1, milliseconds) == 1;
}

}  // namespace

Secret test_secret() { return Secret(32, std::byte{'s'}); }

RunningServer::RunningServer(ServerOptions options) {
  options.secret = test_secret();
  options.signals = false;
  options.say = [this](const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    more_.notify_all();
  };
  server_ = Server::listen(std::move(options)).value();
  thread_ = std::thread([this] { server_->run(); });
}

RunningServer::~RunningServer() {
  server_->stop();
  thread_.join();
}

bool RunningServer::says(const std::string& part) {
  std::unique_lock lock(mutex_);
  return more_.wait_for(lock, std::chrono::milliseconds(kPatience), [&] {
    for (const std::string& line : lines_)
      if (line.find(part) != std::string::npos) return true;
    return false;
  });
}

std::vector<std::string> RunningServer::lines() {
  const std::lock_guard lock(mutex_);
  return lines_;
}

RawSocket::RawSocket(const Endpoint& to, int receive_buffer) {
  file_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer > 0)
    ::setsockopt(file_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(to.port);
  ::inet_pton(AF_INET, to.address.c_str(), &where.sin_addr);
  if (::connect(file_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0) return;
  ::close(file_);
  file_ = -1;
}

RawSocket::~RawSocket() {
  if (file_ >= 0) ::close(file_);
}

bool RawSocket::write(std::span<const std::byte> bytes) const {
  return ::send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

Bytes RawSocket::read_some() const {
  Bytes out(4096);
  const ssize_t n = readable(file_) ? ::recv(file_, out.data(), out.size(), 0) : 0;
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return out;
}

Bytes RawSocket::read_to_end() const {
  Bytes out;
  for (Bytes part = read_some(); !part.empty(); part = read_some())
    out.insert(out.end(), part.begin(), part.end());
  return out;
}

bool RawSocket::closed_within(Duration time) const {
  const SystemClock clock;
  const Instant until = clock.now() + time;
  std::byte byte{};
  while (clock.now() < until)
    if (readable(file_, 10) && ::recv(file_, &byte, 1, 0) <= 0) return true;
  return false;
}

bool shake_hands(const RawSocket& socket, Session& client) {
  if (!socket.connected() || !socket.write(client.open())) return false;
  while (!client.established()) {
    const Bytes came = socket.read_some();
    const auto taken = client.take(came);
    if (came.empty() || taken.refusal) return false;
    if (!taken.reply.empty() && !socket.write(taken.reply)) return false;
  }
  return true;
}

}  // namespace lockstep::coordinator
