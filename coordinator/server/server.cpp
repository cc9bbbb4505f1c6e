#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/coordinator/documents/finding_log.h>
#include <lockstep/coordinator/documents/history_collector.h>
#include <lockstep/coordinator/server/connection.h>
#include <lockstep/coordinator/server/http_connection.h>
#include <lockstep/coordinator/server/peer_user.h>
#include <lockstep/coordinator/server/server.h>
#include <lockstep/coordinator/server/website.h>
#include <lockstep/coordinator/store/history_writer.h>

namespace lockstep::coordinator {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failure = boost::system::error_code;

namespace {

/// How often limits are checked.
constexpr std::chrono::milliseconds kSweep{250};
/// Time between two diagnoses of the jobs, and time until the diagnosis after a connection was
/// closed.
constexpr std::chrono::milliseconds kLook{1000}, kLookAfterClose{50};
/// Period at which answers to ranks that end their job are tried, and the longest time for which
/// such a rank waits.
constexpr std::chrono::milliseconds kLookAtEnding{5}, kEndingKept{2'000};
/// Send buffer of the system for each connection, in bytes.
constexpr int kSendBuffer = 64 * 1024;
/// Time for the other side to read the reason of its refusal.
constexpr std::chrono::seconds kLinger{1};
/// Maximum number of events that run() handles after stop(), so that a flood does not keep it
/// running.
constexpr int kLastHandled = 10'000;
/// Longest time for which run(), at its end, waits for a write of the history: kLastWrite if the
/// last write succeeded, kLastTry if it failed. run() waits at most twice.
constexpr std::chrono::seconds kLastWrite{3}, kLastTry{1};
/// Maximum number of HTTP connections with an accepted request, and maximum number of these that
/// follow updates.
constexpr std::size_t kMostViewers = 64, kMostFollowers = 48;

/// A random id of this start of the coordinator, for the history.
std::string random_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

struct Server::Loop {
  /// A socket with its connection. The server's table keeps it alive while it is open, and so do
  /// pending operations.
  struct Link {
    Link(tcp::socket the_socket, Connection the_connection, std::string from, Instant now)
        : socket(std::move(the_socket)),
          connection(std::move(the_connection)),
          peer(std::move(from)),
          came(now),
          heard(now),
          moved(now) {}
    tcp::socket socket;
    Connection connection;
    std::optional<HttpConnection> http;  // set if the first byte shows that the connection is HTTP
    std::string peer;
    Instant came, heard;
    Instant moved;  // when the other side last took bytes, or no bytes waited for it
    std::deque<Bytes> queue;
    std::size_t queued = 0;
    bool fresh = true;  // no byte has been received yet
    bool writing = false, last_words = false;

    [[nodiscard]] Bytes more() { return http ? http->more() : connection.more(); }
  };
  using LinkPtr = std::shared_ptr<Link>;

  explicit Loop(ServerOptions the_options)
      : options(std::move(the_options)),
        acceptor(io),
        signals(io),
        sweeper(io),
        looker(io),
        ender(io),
        service(options.rules),
        finding_log(options.say, options.silenced_kinds) {
    if (!options.store.empty()) history = std::make_unique<HistoryWriter>(options.store);
  }

  void accept();
  void welcome(tcp::socket socket);
  void make_room();
  void read(const LinkPtr& link);
  void took(const LinkPtr& link, std::span<const std::byte> bytes);
  void took_http(const LinkPtr& link, std::span<const std::byte> bytes);
  [[nodiscard]] HttpAccess door(const LinkPtr& link);
  [[nodiscard]] HttpAnswer content(Resource resource);
  [[nodiscard]] ServerView sight() const;
  void update_viewers();
  void record_events();
  void send(const LinkPtr& link, Bytes bytes);
  void write(const LinkPtr& link);
  void drop(LinkPtr link, const std::string& why);
  void sweep();
  void look(Duration in);
  void send_verdicts();
  void keep_history();
  void answer_endings();
  void finish_history();
  void refused(const std::string& line) { finding_log.refused(line); }

  ServerOptions options;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::signal_set signals;
  asio::steady_timer sweeper, looker, ender;
  Service service;
  FindingLog finding_log;
  std::unique_ptr<HistoryWriter> history;  // null: the coordinator keeps no history
  HistoryCollector news{random_name()};
  EventLog event_log;
  RejectedFrames rejected{};
  SystemClock clock;
  About about;
  Endpoint endpoint;
  std::map<ConnectionId, LinkPtr> links;
  std::set<ConnectionId> strangers;  // oldest first
  std::set<ConnectionId> viewers;
  std::uint64_t last_connection = 0;
  std::map<ConnectionId, Instant> endings;      // since when each connection waits for Noted
  bool endings_given = false;                   // the history writer has the news of all endings
  std::atomic<std::size_t> speakers{0};         // Service::speakers()
  std::array<std::byte, 64 * 1024> incoming{};  // buffer of the connection being read
};

void Server::Loop::accept() {
  acceptor.async_accept([this](const Failure& failure, tcp::socket socket) {
    if (failure == asio::error::operation_aborted) return;
    if (!failure) {
      welcome(std::move(socket));
      return accept();
    }
    // Most likely no descriptors are left; try again later.
    refused(fmt::format("a connection could not be accepted: {}", failure.message()));
    auto pause = std::make_shared<asio::steady_timer>(io, kSweep);
    pause->async_wait([this, pause](const Failure& stopped) {
      if (!stopped) accept();
    });
  });
}

void Server::Loop::make_room() {
  if (strangers.size() < options.most_strangers) return;
  const auto oldest = links.find(*strangers.begin());
  drop(oldest->second, "more came before it had proven the secret");
}

void Server::Loop::welcome(tcp::socket socket) {
  Failure failure;
  const auto peer = socket.remote_endpoint(failure);
  if (failure) return;  // the other side is gone already
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  socket.non_blocking(true, failure);
  socket.set_option(tcp::no_delay(true), failure);
  socket.set_option(asio::socket_base::send_buffer_size(kSendBuffer), failure);
  if (links.size() >= options.most_connections)
    return refused(fmt::format("{} connections are open; one more was refused", links.size()));
  make_room();
  const ConnectionId id{++last_connection};
  auto link =
      std::make_shared<Link>(std::move(socket),
                             Connection(id, options.secret, collectives::random_nonce(),
                                        collectives::encryption_from(peer.address().to_string())),
                             Endpoint{peer.address().to_string(), peer.port()}.text(), clock.now());
  links.emplace(id, link);
  strangers.insert(id);
  read(link);
}

void Server::Loop::read(const LinkPtr& link) {
  link->socket.async_wait(tcp::socket::wait_read, [this, link](const Failure& stopped) {
    if (stopped || !links.contains(link->connection.id())) return;
    Failure failure;
    const std::size_t n = link->socket.read_some(asio::buffer(incoming), failure);
    if (failure == asio::error::would_block) return read(link);
    if (failure) return drop(link, "");
    // Reads and drops further bytes: if the socket were closed at once, the other side could not
    // read the last answer.
    if (!link->last_words) took(link, std::span(incoming).first(n));
    if (links.contains(link->connection.id())) read(link);
  });
}

void Server::Loop::took(const LinkPtr& link, std::span<const std::byte> bytes) {
  if (std::exchange(link->fresh, false) && HttpReader::begins(bytes)) link->http.emplace();
  link->heard = clock.now();
  if (link->http) return took_http(link, bytes);
  Connection::Outcome outcome = link->connection.take(bytes, service, about, link->heard);
  speakers.store(service.speakers());
  if (link->connection.established()) strangers.erase(link->connection.id());
  if (outcome.replaced)
    if (const auto earlier = links.find(*outcome.replaced); earlier != links.end())
      drop(earlier->second, "");
  if (!outcome.why_closed.empty())
    refused(fmt::format("{} was refused: {}", link->peer, outcome.why_closed));
  if (outcome.refusal) ++rejected[static_cast<std::size_t>(*outcome.refusal)];
  if (outcome.ending) {
    endings.emplace(link->connection.id(), link->heard);
    endings_given = false;
    look(Duration{0});
  }
  link->last_words = outcome.close;
  send(link, std::move(outcome.send));
}

HttpAccess Server::Loop::door(const LinkPtr& link) {
  const auto user = peer_user(link->socket.native_handle());
  return {endpoint.address, page_password(options.secret),
          user && (*user == ::geteuid() || *user == 0)};
}

HttpAnswer Server::Loop::content(Resource resource) {
  if (viewers.size() >= (resource == Resource::Updates ? kMostFollowers : kMostViewers))
    return unavailable(fmt::format("{} others look at this now.", viewers.size()));
  return website(resource, sight());
}

ServerView Server::Loop::sight() const {
  return {service, event_log, rejected, about, clock.now(), std::chrono::system_clock::now()};
}

void Server::Loop::took_http(const LinkPtr& link, std::span<const std::byte> bytes) {
  if (link->http->answered()) return;
  const std::string refusal = link->http->take(
      bytes, {[&] { return door(link); }, [&](Resource resource) { return content(resource); }});
  if (!refusal.empty()) refused(fmt::format("{} was refused: {}", link->peer, refusal));
  if (!link->http->answered()) return;
  if (link->http->admitted()) {
    strangers.erase(link->connection.id());
    viewers.insert(link->connection.id());
  }
  if (!link->writing) write(link);
}

/// Makes one document for all connections that follow updates. A slow connection skips documents.
void Server::Loop::update_viewers() {
  std::shared_ptr<const std::string> event;
  const std::set<ConnectionId> all = viewers;
  for (const ConnectionId id : all) {
    const auto found = links.find(id);
    if (found == links.end() || !found->second->http->streams()) continue;
    const LinkPtr link = found->second;
    if (!event)
      event = std::make_shared<const std::string>(website(Resource::Updates, sight()).body);
    link->http->update(event);
    if (!link->writing) write(link);
  }
}

void Server::Loop::send(const LinkPtr& link, Bytes bytes) {
  link->queued += bytes.size();
  if (!bytes.empty()) link->queue.push_back(std::move(bytes));
  if (link->queued > options.most_queued_bytes) return drop(link, "it does not read");
  if (!link->writing) write(link);
}

void Server::Loop::write(const LinkPtr& link) {
  if (link->queue.empty()) {
    Bytes part = link->last_words ? Bytes{} : link->more();
    if (part.empty()) {
      if (link->http && link->http->over()) link->last_words = true;
      link->moved = clock.now();
      Failure ignored;
      if (link->last_words) link->socket.shutdown(tcp::socket::shutdown_send, ignored);
      return;
    }
    link->queued += part.size();
    link->queue.push_back(std::move(part));
  }
  if (!link->writing) link->moved = clock.now();
  link->writing = true;
  asio::async_write(link->socket, asio::buffer(link->queue.front()),
                    [this, link](const Failure& failure, std::size_t) {
                      link->writing = false;
                      if (!links.contains(link->connection.id())) return;
                      if (failure) return drop(link, "");
                      link->queued -= link->queue.front().size();
                      link->queue.pop_front();
                      link->moved = clock.now();
                      write(link);
                    });
}

/// `link` is a copy, because the argument may be the table's own pointer.
void Server::Loop::drop(LinkPtr link, const std::string& why) {
  const ConnectionId id = link->connection.id();
  if (links.erase(id) == 0) return;
  strangers.erase(id);
  viewers.erase(id);
  if (!why.empty()) refused(fmt::format("{} was dropped: {}", link->peer, why));
  Failure ignored;
  link->socket.close(ignored);
  if (link->http) return;
  service.closed(id, clock.now());
  speakers.store(service.speakers());
  look(kLookAfterClose);
}

void Server::Loop::sweep() {
  const Instant now = clock.now();
  std::vector<std::pair<LinkPtr, const char*>> over;
  for (const auto& [id, link] : links) {
    if (strangers.contains(id) && now - link->came > options.handshake)
      over.emplace_back(link, "it has not proven the secret in time");
    else if (link->last_words && now - link->moved > kLinger)
      over.emplace_back(link, "");
    else if (link->writing && now - link->moved > options.slow_reader)
      over.emplace_back(link, "it does not read");
    else if (now - link->heard > options.idle && !(link->http && link->http->streams()))
      over.emplace_back(link, "it has said nothing");
  }
  for (const auto& [link, why] : over) drop(link, why);
  sweeper.expires_after(kSweep);
  sweeper.async_wait([this](const Failure& stopped) {
    if (!stopped) sweep();
  });
}

/// Schedules the next look, unless an earlier look is scheduled.
void Server::Loop::look(Duration in) {
  const auto at = asio::steady_timer::clock_type::now() +
                  std::chrono::duration_cast<asio::steady_timer::duration>(in);
  if (looker.expiry() > asio::steady_timer::clock_type::now() && looker.expiry() <= at) return;
  looker.expires_at(at);
  looker.async_wait([this](const Failure& stopped) {
    if (stopped) return;
    for (const auto& [job, ranks] : finding_log.look(service, clock.now()))
      service.follow(job, ranks);
    send_verdicts();
    record_events();
    update_viewers();
    answer_endings();
    keep_history();
    look(kLook);
  });
}

void Server::Loop::record_events() {
  std::string lines;
  for (const std::string& line : event_log.look(service, clock.now(), sight().wall)) lines += line;
  if (options.record && !lines.empty()) options.record(lines);
}

/// Sends verdicts again at every look, because a rank obeys only while it waits.
void Server::Loop::send_verdicts() {
  for (const auto& [id, job] : service.jobs()) {
    const auto verdict = service.verdict(job, clock.now());
    if (!verdict) continue;
    for (const ConnectionId connection : service.connections(id))
      if (const auto link = links.find(connection); link != links.end())
        send(LinkPtr(link->second), link->second->connection.tell(*verdict));
  }
}

/// Gives the news to the history writer. If the last batch is still being written, the news stays
/// in the service.
void Server::Loop::keep_history() {
  if (history == nullptr) return;
  for (const std::string& line : history->errors()) options.say(line);
  if (!history->idle()) return;
  const auto wall =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  if (auto batch = news.collect(service, clock.now(), wall); !batch.empty())
    history->give(std::move(batch));
  endings_given = true;
}

/// Answers ranks that end their job once the history is written, or when they have waited long
/// enough.
void Server::Loop::answer_endings() {
  const bool written =
      history == nullptr || !history->writes() || (endings_given && history->idle());
  std::erase_if(endings, [&](const auto& ending) {
    const bool answered = written || clock.now() - ending.second > kEndingKept;
    const auto link = links.find(ending.first);
    if (answered && link != links.end())
      send(LinkPtr(link->second), link->second->connection.tell(Noted{}));
    return answered;
  });
  if (endings.empty()) return;
  ender.expires_after(kLookAtEnding);
  ender.async_wait([this](const Failure& stopped) {
    if (stopped) return;
    answer_endings();
    keep_history();
  });
}

void Server::Loop::finish_history() {
  if (history == nullptr) return;
  const auto idle = [this] {
    return history->wait_idle(kLastTry) ||
           (history->writes() && history->wait_idle(kLastWrite - kLastTry));
  };
  (void)idle();
  keep_history();
  const bool written = idle();
  for (const std::string& line : history->errors()) options.say(line);
  if (!written) options.say("the last of the history was not written in time; it is lost");
}

Server::Server(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::listen(ServerOptions options) {
  auto loop = std::make_unique<Loop>(std::move(options));
  const Endpoint& wanted = loop->options.listen;
  Failure failure;
  const tcp::endpoint where(asio::ip::make_address(wanted.address, failure), wanted.port);
  if (!failure) loop->acceptor.open(where.protocol(), failure);
  // A compiler that a rank starts must not inherit the sockets of the coordinator in its process.
  if (!failure) ::fcntl(loop->acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  if (!failure) loop->acceptor.set_option(tcp::acceptor::reuse_address(true), failure);
  if (!failure) loop->acceptor.bind(where, failure);
  if (!failure) loop->acceptor.listen(asio::socket_base::max_listen_connections, failure);
  if (failure)
    return environment_error(
        fmt::format("The coordinator cannot listen at {}: {}.", wanted.text(), failure.message()));
  if (loop->options.signals) {  // from now on signals are kept for run()
    loop->signals.add(SIGINT);
    loop->signals.add(SIGTERM);
  }
  loop->endpoint = {wanted.address, loop->acceptor.local_endpoint().port()};
  loop->about = {loop->options.version, loop->endpoint.text(), ::getpid(), loop->clock.now()};
  return std::unique_ptr<Server>(new Server(std::move(loop)));
}

const Endpoint& Server::endpoint() const { return loop_->endpoint; }

void Server::run() {
  if (loop_->options.signals)
    loop_->signals.async_wait([this](const Failure& stopped, int) {
      if (!stopped) loop_->io.stop();
    });
  loop_->accept();
  loop_->sweep();
  loop_->look(kLook);
  loop_->io.run();
  // Reads what is in the sockets: the last reports of ranks that ended before run() was stopped.
  loop_->io.restart();
  for (int handled = 0; handled < kLastHandled && loop_->io.poll_one() != 0; ++handled) {
  }
  Failure ignored;
  for (const auto& [id, link] : loop_->links)
    if (!loop_->endings.contains(id)) link->socket.close(ignored);
  loop_->finish_history();
}

void Server::stop() { loop_->io.stop(); }
std::size_t Server::speakers() const { return loop_->speakers.load(); }

}  // namespace lockstep::coordinator
