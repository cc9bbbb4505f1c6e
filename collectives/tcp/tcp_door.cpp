#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <fcntl.h>

#include <lockstep/collectives/tcp/tcp_door.h>

namespace lockstep::collectives {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failure = boost::system::error_code;

/// Pause before accepting again after a failure.
constexpr std::chrono::milliseconds kPause{20};

}  // namespace

TcpDoor::TcpDoor(TcpLoop& loop, std::size_t strangers)
    : loop_(loop), most_(strangers), acceptor_(loop.io), pause_(loop.io) {}

TcpDoor::~TcpDoor() { close(); }

void TcpDoor::close() {
  Failure ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  for (const TcpLinkPtr& link : std::exchange(strangers_, {})) link->close();
}

std::uint16_t TcpDoor::port() const {
  Failure ignored;
  return acceptor_.local_endpoint(ignored).port();
}

Result<void> TcpDoor::listen(const Endpoint& at) {
  Failure failure;
  const auto address = asio::ip::make_address(at.address, failure);
  const tcp::endpoint where(address, at.port);
  acceptor_.open(where.protocol(), failure);
  if (!failure) acceptor_.set_option(asio::socket_base::reuse_address(true), failure);
  if (!failure) ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
  if (!failure) acceptor_.bind(where, failure);
  if (!failure) acceptor_.listen(asio::socket_base::max_listen_connections, failure);
  if (failure) return environment_error(failure.message());
  accept();
  return {};
}

void TcpDoor::accept() {
  acceptor_.async_accept([this](const Failure& failure, tcp::socket socket) {
    if (failure == asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (failure) return accept_later(failure.message());
    fails_since_.reset();
    welcome(std::move(socket));
    accept();
  });
}

void TcpDoor::accept_later(const std::string& why) {
  const Instant now = clock_.now();
  if (!fails_since_ || now - failed_at_ > 10 * Duration{kPause}) fails_since_ = now;
  failed_at_ = now;
  if (now - *fails_since_ > Duration{kPatience}) {
    if (events_.failed) events_.failed(why);
    return;
  }
  pause_.expires_after(kPause);
  pause_.async_wait([this](const Failure& stopped) {
    if (!stopped && acceptor_.is_open()) accept();
  });
}

void TcpDoor::welcome(tcp::socket socket) {
  if (strangers_.size() >= most_) {
    strangers_.front()->close();
    strangers_.pop_front();
  }
  const TcpLinkPtr link = TcpLink::accept(loop_, std::move(socket), {});
  strangers_.push_back(link);
  const std::weak_ptr<TcpLink> weak = link;
  const auto forget = [this](const TcpLinkPtr& gone) { std::erase(strangers_, gone); };
  link->on({.message =
                [this, weak, forget](TcpMessage message) {
                  const TcpLinkPtr self = weak.lock();
                  forget(self);
                  if (!events_.word) return self->close();
                  events_.word(self, std::move(message));
                },
            .ended = [weak, forget](const Status&) { forget(weak.lock()); }});
}

}  // namespace lockstep::collectives
