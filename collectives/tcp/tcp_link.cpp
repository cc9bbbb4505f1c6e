#include <utility>

#include <boost/asio/buffer.hpp>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <lockstep/collectives/tcp/tcp_link.h>

namespace lockstep::collectives {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failure = boost::system::error_code;

/// Time limit for the other side to read the last messages.
constexpr std::chrono::seconds kLinger{1};
/// Idle seconds before keep-alive probes begin; three seconds after these begin, a dead machine is
/// noticed.
constexpr int kQuietSeconds = 5;

}  // namespace

TcpLink::TcpLink(TcpLoop& loop, Socket socket, SealedSession::Side side, Events events)
    : loop_(loop),
      socket_(std::move(socket)),
      session_(side, loop.secret, random_nonce(), loop.encryption),
      events_(std::make_shared<const Events>(std::move(events))),
      limit_(loop.io) {}

std::shared_ptr<TcpLink> TcpLink::accept(TcpLoop& loop, Socket socket, Events events) {
  auto link = std::make_shared<TcpLink>(loop, std::move(socket), SealedSession::Side::Server,
                                        std::move(events));
  link->answered_ = true;
  link->prepare();
  link->limit(loop.handshake, "it has not proven the secret in time");
  link->read();
  return link;
}

std::shared_ptr<TcpLink> TcpLink::connect(TcpLoop& loop, const Endpoint& to, Events events,
                                          bool patient) {
  auto link = std::make_shared<TcpLink>(loop, Socket(loop.io), SealedSession::Side::Client,
                                        std::move(events));
  Failure failure;
  const tcp::endpoint where(asio::ip::make_address(to.address, failure), to.port);
  link->socket_.open(where.protocol(), failure);
  link->limit(loop.handshake, "it does not answer", patient ? Code::Environment : Code::Version);
  link->socket_.async_connect(where, [link, patient](const Failure& failed) {
    if (link->over_) return;
    link->refused_ = failed == asio::error::connection_refused;
    if (failed) return link->end(Code::Environment, failed.message());
    link->answered_ = true;
    if (patient) link->limit_.cancel();
    link->prepare();
    link->read();
    link->push(link->session_.open());
  });
  return link;
}

/// Sets FD_CLOEXEC: a program that a rank starts must not keep the rank's connections open.
void TcpLink::prepare() {
  Failure ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  const int file = socket_.native_handle(), probes = 3, second = 1;
  ::fcntl(file, F_SETFD, FD_CLOEXEC);
  ::setsockopt(file, IPPROTO_TCP, TCP_KEEPIDLE, &kQuietSeconds, sizeof kQuietSeconds);
  ::setsockopt(file, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second);
  ::setsockopt(file, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

void TcpLink::give_up_after(std::chrono::milliseconds time) {
  const auto most = static_cast<unsigned>(time.count());
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof most);
}

void TcpLink::limit(Duration time, const char* why, Code code) {
  limit_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
  limit_.async_wait([link = shared_from_this(), why, code](const Failure& stopped) {
    if (!stopped) link->end(code, why);
  });
}

void TcpLink::read() {
  socket_.async_wait(tcp::socket::wait_read, [link = shared_from_this()](const Failure& stopped) {
    if (stopped || link->over_) return;
    link->receive();
    if (!link->over_) link->read();
  });
}

void TcpLink::receive() {
  Failure failure;
  auto& buffer = loop_.incoming;
  const std::size_t n = socket_.read_some(asio::buffer(buffer), failure);
  if (failure == asio::error::would_block) return;
  if (failure == asio::error::eof) return end(Code::RankLost, "it has closed the connection");
  if (failure) return end(Code::RankLost, "the connection broke off (" + failure.message() + ")");
  if (!finishing_) took(std::span(buffer).first(n));
}

void TcpLink::read_now() {
  const auto self = shared_from_this();
  if (!over_) receive();
}

void TcpLink::took(std::span<const std::byte> bytes) {
  const bool before = session_.established();
  SealedSession::Taken taken = session_.take(bytes);
  push(std::move(taken.reply));
  if (!before && session_.established()) {
    limit_.cancel();
    const auto events = events_;
    events->established();
  }
  for (const SealedMessage& sealed : taken.messages) {
    if (over_ || finishing_) return;
    auto message = decode_tcp(sealed);
    if (!message) {
      taken.refusal = Refusal::Malformed;
      break;
    }
    const auto events = events_;
    events->message(*std::move(message));
  }
  if (!taken.refusal || over_ || finishing_) return;
  const auto events = events_;
  finish();
  events->ended({Code::Version, std::string(refusal_text(*taken.refusal))});
}

void TcpLink::send(const TcpMessage& message) { send(type_of(message), encode(message)); }

void TcpLink::send(std::uint8_t type, std::span<const std::byte> encoded) {
  if (!over_ && !finishing_) push(session_.seal(type, encoded));
}

void TcpLink::push(Bytes bytes) {
  if (bytes.empty() || over_) return;
  queued_ += bytes.size();
  queue_.push_back(std::move(bytes));
  if (!writing_) flush();
}

// After a failed write, read() reports the reason, because the other side's last messages may be
// unread.
void TcpLink::flush() {
  Failure failure;
  while (!queue_.empty() && !failure) {
    const auto rest = asio::buffer(queue_.front()) + sent_;
    const std::size_t n = socket_.write_some(rest, failure);
    queued_ -= n;
    sent_ += n;
    if (sent_ < queue_.front().size()) continue;
    queue_.pop_front();
    sent_ = 0;
  }
  if (failure == asio::error::would_block) {
    writing_ = true;
    return socket_.async_wait(tcp::socket::wait_write,
                              [link = shared_from_this()](const Failure& stopped) {
                                link->writing_ = false;
                                if (!stopped && !link->over_) link->flush();
                              });
  }
  if (failure) {
    broken_ = true;
    queue_.clear();
    queued_ = sent_ = 0;
  }
  if (finishing_) socket_.shutdown(tcp::socket::shutdown_send, failure);
}

void TcpLink::finish() {
  if (over_ || finishing_) return;
  on({});
  finishing_ = true;
  limit(kLinger, "");
  if (!writing_) flush();
}

void TcpLink::close() {
  on({});
  end(Code::RankLost, "");
}

void TcpLink::end(Code code, const std::string& why) {
  if (std::exchange(over_, true)) return;
  limit_.cancel();
  Failure ignored;
  socket_.close(ignored);
  queue_.clear();
  queued_ = 0;
  const auto events = events_;
  events->ended({code, why, "", {}});
  on({});
}

std::string TcpLink::peer_address() const {
  Failure failure;
  const auto at = socket_.remote_endpoint(failure);
  return failure ? "" : at.address().to_string();
}
std::string TcpLink::own_address() const {
  Failure failure;
  const auto at = socket_.local_endpoint(failure);
  return failure ? "" : at.address().to_string();
}

}  // namespace lockstep::collectives
