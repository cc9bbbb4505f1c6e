#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <fmt/format.h>

#include <lockstep/collectives/wire/encryption.h>
#include <lockstep/worker/controller/controller_link.h>
#include <lockstep/worker/controller/messages/message_pieces.h>

namespace lockstep::worker {

namespace asio = boost::asio;
using asio::ip::tcp;
using collectives::Endpoint;
using collectives::SealedSession;
using Failure = boost::system::error_code;

struct ControllerLink::Socket {
  Socket(const Endpoint& at, const collectives::Secret& secret)
      : endpoint(at),
        session(SealedSession::Side::Client, secret_of_controllers(secret),
                collectives::random_nonce(), collectives::encryption_to(at)) {}

  void connect();
  void read();
  void took(std::span<const std::byte> bytes);
  void send(Bytes bytes);
  void write();
  void end(Code code, std::string_view why);
  void run_for(Duration time) {
    io.restart();
    io.run_one_for(std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
    io.poll();
  }

  Endpoint endpoint;
  SealedSession session;
  PieceJoiner pieces{kMostMessageBytes};
  SystemClock clock;
  asio::io_context io{1};
  tcp::socket socket{io};
  std::array<std::byte, 256 * 1024> incoming{};
  std::deque<Bytes> queue;  // the first one is being sent
  std::vector<Reply> replies;
  std::optional<Status> ended;
  Instant heard{0};
};

void ControllerLink::Socket::end(Code code, std::string_view why) {
  if (ended) return;
  Failure ignored;
  socket.close(ignored);
  ended = Status{code, fmt::format("the workers at {}: {}", endpoint.text(), why)};
}

void ControllerLink::Socket::connect() {
  Failure failure;
  const tcp::endpoint where(asio::ip::make_address(endpoint.address, failure), endpoint.port);
  if (!failure) socket.open(where.protocol(), failure);
  if (failure) return end(Code::Environment, failure.message());
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  socket.async_connect(where, [this](const Failure& failed) {
    if (failed) return end(Code::Environment, "nobody listens there (" + failed.message() + ")");
    Failure ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    read();
    send(session.open());
  });
}

void ControllerLink::Socket::read() {
  socket.async_read_some(asio::buffer(incoming), [this](const Failure& failure, std::size_t n) {
    if (ended) return;
    if (failure)
      return end(Code::RankLost,
                 failure == asio::error::eof
                     ? std::string("worker 0 has closed the connection; its output says why")
                     : "the connection to worker 0 broke off (" + failure.message() +
                           "); it has ended, or its machine is gone");
    took(std::span(incoming).first(n));
    if (!ended) read();
  });
}

void ControllerLink::Socket::took(std::span<const std::byte> bytes) {
  heard = clock.now();
  SealedSession::Taken taken = session.take(bytes);
  send(std::move(taken.reply));
  for (const collectives::SealedMessage& piece : taken.messages) {
    auto [message, refusal] = pieces.take(piece);
    if (refusal) taken.refusal = refusal;
    if (!message) continue;
    auto reply = decode_reply(*message);
    if (!reply) return end(Code::Version, "worker 0 says what this version does not know");
    replies.push_back(*std::move(reply));
  }
  if (taken.refusal) end(Code::Version, collectives::refusal_text(*taken.refusal));
}

void ControllerLink::Socket::send(Bytes bytes) {
  if (bytes.empty() || ended) return;
  queue.push_back(std::move(bytes));
  if (queue.size() == 1) write();
}

void ControllerLink::Socket::write() {
  asio::async_write(socket, asio::buffer(queue.front()), [this](const Failure& failure, auto) {
    if (ended) return;
    // Keeps reading: replies that worker 0 sent before it went may still arrive.
    if (failure) return queue.clear();
    queue.pop_front();
    if (!queue.empty()) write();
  });
}

Result<std::unique_ptr<ControllerLink>> ControllerLink::open(
    const Endpoint& to, collectives::Secret secret, Duration patience,
    const std::function<bool()>& interrupted) {
  auto socket = std::make_unique<Socket>(to, secret);
  socket->connect();
  const Instant until = socket->clock.now() + patience;
  while (!socket->ended && !socket->session.established() && socket->clock.now() < until) {
    const Duration left = until - socket->clock.now();
    socket->run_for(interrupted ? std::min(left, kInterruptPollInterval) : left);
    if (interrupted && interrupted())
      return Status{Code::Gone,
                    fmt::format("the workers at {}: the wait for them was interrupted", to.text())};
  }
  if (socket->ended) return *socket->ended;
  if (!socket->session.established())
    return Status{Code::Stuck,
                  fmt::format("the workers at {} did not answer within {:g} s; worker 0 may be "
                              "suspended, or something else listens there",
                              to.text(), std::chrono::duration<double>(patience).count())};
  return std::unique_ptr<ControllerLink>(new ControllerLink(std::move(socket)));
}

ControllerLink::ControllerLink(std::unique_ptr<Socket> socket) : socket_(std::move(socket)) {}
ControllerLink::~ControllerLink() = default;

void ControllerLink::send(std::span<const std::byte> message) {
  socket_->send(seal_message(socket_->session, message));
}

void ControllerLink::poll() {
  socket_->io.restart();
  socket_->io.poll();
}

void ControllerLink::wait(Duration patience) {
  const Instant until = socket_->clock.now() + patience;
  while (!socket_->ended && socket_->replies.empty() && socket_->clock.now() < until)
    socket_->run_for(until - socket_->clock.now());
}

std::vector<Reply> ControllerLink::take() { return std::exchange(socket_->replies, {}); }
const std::optional<Status>& ControllerLink::ended() const { return socket_->ended; }
Instant ControllerLink::heard() const { return socket_->heard; }
const Endpoint& ControllerLink::endpoint() const { return socket_->endpoint; }

}  // namespace lockstep::worker
