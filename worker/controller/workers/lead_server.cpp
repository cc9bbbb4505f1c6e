#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <fmt/format.h>

#include <lockstep/worker/controller/messages/message_pieces.h>
#include <lockstep/worker/controller/workers/lead_server.h>

namespace lockstep::worker {

namespace asio = boost::asio;
using asio::ip::tcp;
using collectives::Endpoint;
using Failure = boost::system::error_code;

namespace {

/// Interval of checks of the limits.
constexpr std::chrono::milliseconds kSweep{100};
/// Longest waits for queued bytes to be sent: in the destructor, and in last_word().
constexpr std::chrono::milliseconds kFlush{1000}, kLastWord{100};
/// Most bytes of a greeting.
constexpr std::size_t kMostGreeting = 256;
/// TCP keepalive, which finds a machine that is gone: seconds of silence before the first probe,
/// seconds between probes, number of probes.
constexpr int kKeepIdle = 10, kKeepInterval = 5, kKeepCount = 3;

void keep_alive(tcp::socket& socket) {
  Failure ignored;
  const int file = socket.native_handle();
  ::fcntl(file, F_SETFD, FD_CLOEXEC);
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  ::setsockopt(file, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepIdle, sizeof kKeepIdle);
  ::setsockopt(file, IPPROTO_TCP, TCP_KEEPINTVL, &kKeepInterval, sizeof kKeepInterval);
  ::setsockopt(file, IPPROTO_TCP, TCP_KEEPCNT, &kKeepCount, sizeof kKeepCount);
}

}  // namespace

/// While the server's thread runs, only it uses this object, except for members under the mutex.
struct LeadServer::Loop {
  struct Link {
    Link(tcp::socket its_socket, collectives::SealedSession its_session, std::string from,
         Instant at)
        : socket(std::move(its_socket)),
          session(std::move(its_session)),
          peer(std::move(from)),
          since(at) {}
    tcp::socket socket;
    collectives::SealedSession session;
    PieceJoiner pieces{kMostGreeting};
    std::string peer;
    Instant since;                 // when it connected, or was refused
    std::uint64_t controller = 0;  // number of the controller; 0: not one
    bool refused = false;          // the refusal is being sent, or was
    std::deque<Bytes> queue;       // the first one is being sent
    std::size_t queued = 0;
  };
  using LinkPtr = std::shared_ptr<Link>;

  explicit Loop(LeadServerOptions the_options)
      : options(std::move(the_options)), acceptor(io), sweeper(io) {}

  void accept();
  void welcome(tcp::socket socket);
  void read(const LinkPtr& link);
  void took(const LinkPtr& link, std::span<const std::byte> bytes);
  void heard(const LinkPtr& link, Bytes message);
  void greeted(const LinkPtr& link, const Bytes& message);
  void refuse(const LinkPtr& link, const Status& why);
  void send(const LinkPtr& link, Bytes bytes);
  void reply(const LinkPtr& link, const Reply& reply) {
    send(link, seal_message(link->session, encode(reply)));
  }
  void write(const LinkPtr& link);
  void drop(LinkPtr link, const std::string& why);
  void sweep();
  void put(Event event, std::size_t bytes);
  void flush();
  void close();
  void end_if_all_sent();

  LeadServerOptions options;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::steady_timer sweeper;
  SystemClock clock;
  Endpoint endpoint;
  std::set<LinkPtr> links;
  LinkPtr controller;  // null: none is connected
  std::uint64_t controllers = 0;
  Instant said_alive{0};
  bool paused = false;   // the controller's connection is not read
  bool closing = false;  // queues are being sent, then the thread ends
  std::array<std::byte, 256 * 1024> incoming{};
  std::thread thread;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Event> events;  // under mutex
  std::size_t waiting = 0;    // under mutex: total bytes of events
  std::uint64_t flushes = 0;  // under mutex: how often the controller's queue has become empty
};

void LeadServer::Loop::accept() {
  acceptor.async_accept([this](const Failure& failure, tcp::socket socket) {
    if (failure == asio::error::operation_aborted) return;
    if (!failure) {
      welcome(std::move(socket));
      return accept();
    }
    auto pause = std::make_shared<asio::steady_timer>(io, kSweep);  // out of descriptors
    pause->async_wait([this, pause](const Failure& stopped) {
      if (!stopped) accept();
    });
  });
}

void LeadServer::Loop::welcome(tcp::socket socket) {
  Failure failure;
  const auto peer = socket.remote_endpoint(failure);
  if (failure) return;  // gone already
  const std::string from = Endpoint{peer.address().to_string(), peer.port()}.text();
  if (links.size() >= options.most_strangers + 1)
    return options.say(fmt::format("{} was refused: {} connections are open", from, links.size()));
  keep_alive(socket);
  auto link = std::make_shared<Link>(
      std::move(socket),
      collectives::SealedSession(collectives::SealedSession::Side::Server, options.secret,
                                 collectives::random_nonce(),
                                 collectives::encryption_from(peer.address().to_string())),
      from, clock.now());
  links.insert(link);
  read(link);
}

void LeadServer::Loop::read(const LinkPtr& link) {
  link->socket.async_wait(tcp::socket::wait_read, [this, link](const Failure& stopped) {
    if (stopped || !links.contains(link)) return;
    Failure failure;
    const std::size_t n = link->socket.read_some(asio::buffer(incoming), failure);
    if (failure == asio::error::would_block) return read(link);
    if (failure) return drop(link, link->controller != 0 ? "" : "it closed the connection");
    if (!link->refused) took(link, std::span(incoming).first(n));
    if (!links.contains(link)) return;
    if (link == controller) {
      const std::lock_guard lock(mutex);
      paused = waiting > options.most_waiting;
      if (paused) return;
    }
    read(link);
  });
}

void LeadServer::Loop::took(const LinkPtr& link, std::span<const std::byte> bytes) {
  collectives::SealedSession::Taken taken = link->session.take(bytes);
  send(link, std::move(taken.reply));
  for (const collectives::SealedMessage& piece : taken.messages) {
    auto [message, refusal] = link->pieces.take(piece);
    if (refusal) taken.refusal = refusal;
    if (taken.refusal) break;
    if (message) heard(link, *std::move(message));
    if (!links.contains(link) || link->refused) return;
  }
  if (!taken.refusal) return;
  options.say(
      fmt::format("{} was refused: {}", link->peer, collectives::refusal_text(*taken.refusal)));
  if (link == controller) return drop(link, std::string(collectives::refusal_text(*taken.refusal)));
  link->refused = true;
  link->since = clock.now();
}

void LeadServer::Loop::heard(const LinkPtr& link, Bytes message) {
  if (link->controller == 0) return greeted(link, message);
  auto command = decode_command(message);
  if (!command || std::holds_alternative<Hello>(*command) ||
      std::holds_alternative<EndJob>(*command)) {
    options.say(
        fmt::format("{} was dropped: it sent a message that has no place here", link->peer));
    return drop(link, "it sent a message that has no place here");
  }
  const std::size_t bytes = message.size();
  put(Given{*std::move(command), std::move(message)}, bytes);
}

void LeadServer::Loop::greeted(const LinkPtr& link, const Bytes& message) {
  const auto version = greeted_version(message);
  if (!version) return refuse(link, bad_input("the first message of a controller is a greeting"));
  if (*version != kControllerVersion)
    return refuse(link, {Code::Version,
                         fmt::format("the workers speak version {} of a controller's messages, and "
                                     "this controller speaks version {}; start both with one build",
                                     kControllerVersion, *version)});
  if (controller)
    return refuse(
        link, bad_input(fmt::format("the workers have a controller, at {}; another one can come "
                                    "once it has left",
                                    controller->peer)));
  controller = link;
  link->controller = ++controllers;
  link->pieces = PieceJoiner(kMostMessageBytes);
  said_alive = clock.now();
  put(Came{link->controller}, 0);
}

void LeadServer::Loop::refuse(const LinkPtr& link, const Status& why) {
  options.say(fmt::format("{} was refused: {}", link->peer, why.message));
  reply(link, Refused{why});
  link->refused = true;
  link->since = clock.now();
}

void LeadServer::Loop::send(const LinkPtr& link, Bytes bytes) {
  if (bytes.empty() || !links.contains(link)) return;
  link->queued += bytes.size();
  link->queue.push_back(std::move(bytes));
  if (link->queued > 2 * kMostMessageBytes) return drop(link, "it does not read");
  if (link->queue.size() == 1) write(link);
}

void LeadServer::Loop::write(const LinkPtr& link) {
  asio::async_write(link->socket, asio::buffer(link->queue.front()),
                    [this, link](const Failure& failure, std::size_t) {
                      if (!links.contains(link)) return;
                      if (failure) return drop(link, failure.message());
                      link->queued -= link->queue.front().size();
                      link->queue.pop_front();
                      if (!link->queue.empty()) return write(link);
                      if (link == controller) flush();
                      if (closing) end_if_all_sent();
                    });
}

/// By value: the argument may be `controller`, which is reset here.
void LeadServer::Loop::drop(LinkPtr link, const std::string& why) {
  if (links.erase(link) == 0) return;
  Failure ignored;
  link->socket.close(ignored);
  if (link != controller) return;
  controller.reset();
  flush();
  put(Left{why.empty() ? "its connection ended" : why}, 0);
}

void LeadServer::Loop::sweep() {
  const Instant now = clock.now();
  std::vector<LinkPtr> over;
  for (const LinkPtr& link : links)
    if (link->controller == 0 &&
        now - link->since > (link->refused ? options.linger : options.handshake))
      over.push_back(link);
  for (const LinkPtr& link : over) {
    if (!link->refused)
      options.say(fmt::format("{} was dropped: it has not shown in time that it is a controller",
                              link->peer));
    drop(link, "");
  }
  if (controller && controller->queue.empty() && now - said_alive >= options.alive) {
    said_alive = now;
    reply(controller, Alive{});
  }
  sweeper.expires_after(kSweep);
  sweeper.async_wait([this](const Failure& stopped) {
    if (!stopped) sweep();
  });
}

void LeadServer::Loop::put(Event event, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  events.push_back(std::move(event));
  waiting += bytes;
  changed.notify_all();
}

void LeadServer::Loop::flush() {
  const std::lock_guard lock(mutex);
  ++flushes;
  changed.notify_all();
}

void LeadServer::Loop::close() {
  Failure ignored;
  closing = true;
  acceptor.close(ignored);
  sweeper.expires_after(kFlush);
  sweeper.async_wait([this](const Failure&) { io.stop(); });
  end_if_all_sent();
}

void LeadServer::Loop::end_if_all_sent() {
  const std::set<LinkPtr> all = links;
  for (const LinkPtr& link : all)
    if (link->queue.empty()) drop(link, "");
  if (links.empty()) io.stop();
}

Result<std::unique_ptr<LeadServer>> LeadServer::listen(LeadServerOptions options) {
  options.secret = secret_of_controllers(options.secret);
  auto loop = std::make_unique<Loop>(std::move(options));
  const Endpoint wanted = loop->options.listen;
  Failure failure;
  const tcp::endpoint where(asio::ip::make_address(wanted.address, failure), wanted.port);
  const auto attempt = [&](auto&& step) {
    if (!failure) step();
  };
  attempt([&] { loop->acceptor.open(where.protocol(), failure); });
  attempt([&] { ::fcntl(loop->acceptor.native_handle(), F_SETFD, FD_CLOEXEC); });
  attempt([&] { loop->acceptor.set_option(tcp::acceptor::reuse_address(true), failure); });
  attempt([&] { loop->acceptor.bind(where, failure); });
  attempt([&] { loop->acceptor.listen(asio::socket_base::max_listen_connections, failure); });
  if (failure)
    return environment_error(
        fmt::format("worker 0 cannot listen at {}: {}", wanted.text(), failure.message()));
  loop->endpoint = {wanted.address, loop->acceptor.local_endpoint().port()};
  loop->accept();
  loop->sweep();
  try {
    loop->thread = std::thread([&io = loop->io] { io.run(); });
  } catch (const std::system_error& error) {
    return environment_error(fmt::format("worker 0 cannot start a thread: {}", error.what()));
  }
  return std::unique_ptr<LeadServer>(new LeadServer(std::move(loop)));
}

LeadServer::LeadServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

LeadServer::~LeadServer() {
  asio::post(loop_->io, [loop = loop_.get()] { loop->close(); });
  loop_->thread.join();
}

const Endpoint& LeadServer::endpoint() const { return loop_->endpoint; }

std::vector<LeadServer::Event> LeadServer::take(Duration patience) {
  std::unique_lock lock(loop_->mutex);
  loop_->changed.wait_for(lock, patience, [this] { return !loop_->events.empty(); });
  const bool was_full = loop_->waiting > loop_->options.most_waiting;
  loop_->waiting = 0;
  std::vector<Event> out = std::exchange(loop_->events, {});
  lock.unlock();
  if (was_full)
    asio::post(loop_->io, [loop = loop_.get()] {
      if (std::exchange(loop->paused, false) && loop->controller) loop->read(loop->controller);
    });
  return out;
}

void LeadServer::send(std::uint64_t controller, const Reply& reply) {
  asio::post(loop_->io, [loop = loop_.get(), controller, message = encode(reply)] {
    if (loop->controller && loop->controller->controller == controller)
      loop->send(loop->controller, seal_message(loop->controller->session, message));
  });
}

void LeadServer::last_word(const Status& verdict) {
  std::unique_lock lock(loop_->mutex);
  const std::uint64_t before = loop_->flushes;
  lock.unlock();
  asio::post(loop_->io, [loop = loop_.get(), verdict] {
    if (loop->controller)
      loop->reply(loop->controller, Verdict{verdict});
    else
      loop->flush();
  });
  lock.lock();
  loop_->changed.wait_for(lock, kLastWord, [&] { return loop_->flushes != before; });
}

}  // namespace lockstep::worker
