#include <array>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <fmt/format.h>

#include <lockstep/coordinator/client/client.h>

namespace lockstep::coordinator {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failure = boost::system::error_code;

struct Client::Link {
  Link(const Endpoint& to, Secret secret, Events the_events)
      : endpoint(to),
        session(Session::Side::Client, std::move(secret), collectives::random_nonce(),
                collectives::encryption_to(to)),
        events(std::move(the_events)) {}

  void connect();
  void connected(const Failure& failure);
  void read();
  void took(std::span<const std::byte> bytes);
  void write(const Bytes& bytes);
  void end(Code code, std::string_view why);

  Endpoint endpoint;
  Session session;
  Events events;
  asio::io_context io{1};
  tcp::socket socket{io};
  std::array<std::byte, 16 * 1024> incoming{};
  Bytes outgoing, waiting;  // the bytes being sent, and those to send next
  bool writing = false, over = false;
};

void Client::Link::end(Code code, std::string_view why) {
  if (std::exchange(over, true)) return;
  Failure ignored;
  socket.close(ignored);
  events.ended({code, fmt::format("The coordinator at {}: {}.", endpoint.text(), why)});
}

void Client::Link::connect() {
  Failure failure;
  const tcp::endpoint where(asio::ip::make_address(endpoint.address, failure), endpoint.port);
  socket.open(where.protocol(), failure);
  // A compiler that the rank starts must not inherit the socket, or the connection would outlive
  // the rank.
  if (!failure) ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  socket.async_connect(where, [this](const Failure& failed) { connected(failed); });
}

void Client::Link::connected(const Failure& failure) {
  if (failure) return end(Code::Environment, "nobody listens there (" + failure.message() + ")");
  Failure ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  read();
  write(session.open());
}

void Client::Link::read() {
  socket.async_read_some(asio::buffer(incoming), [this](const Failure& failure, std::size_t n) {
    if (over) return;
    if (failure == asio::error::eof) return end(Code::RankLost, "it has closed the connection");
    if (failure) return end(Code::RankLost, "the connection broke off (" + failure.message() + ")");
    took(std::span(incoming).first(n));
    if (!over) read();
  });
}

void Client::Link::took(std::span<const std::byte> bytes) {
  const bool before = session.established();
  const Session::Taken taken = session.take(bytes);
  write(taken.reply);
  if (taken.refusal) return end(Code::Version, refusal_text(*taken.refusal));
  if (!before && session.established()) events.established();
  for (const Message& message : taken.messages) {
    if (over) return;
    events.message(message);
  }
}

void Client::Link::write(const Bytes& bytes) {
  waiting.insert(waiting.end(), bytes.begin(), bytes.end());
  if (writing || waiting.empty()) return;
  outgoing = std::exchange(waiting, {});
  writing = true;
  asio::async_write(socket, asio::buffer(outgoing), [this](const Failure& failure, std::size_t) {
    writing = false;
    if (over) return;
    if (failure) return end(Code::RankLost, "the connection broke off (" + failure.message() + ")");
    write({});
  });
}

Client::Client(const Endpoint& to, Secret secret, Events events)
    : link_(std::make_unique<Link>(to, std::move(secret), std::move(events))) {
  link_->connect();
}
Client::~Client() = default;

void Client::send(const Message& message) { link_->write(link_->session.seal(message)); }

bool Client::idle() const { return !link_->writing; }

void Client::run_for(Duration time) {
  link_->io.run_for(std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
  link_->io.restart();
}

void Client::interrupt() { link_->io.stop(); }

}  // namespace lockstep::coordinator
