// Listens for other processes of the job, and holds connections whose other side has not proven the
// secret yet. Used by the rendezvous and by tcp_mesh.cpp.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <lockstep/collectives/tcp/tcp_link.h>

namespace lockstep::collectives {

/// One listening socket. The loop must outlive it. Used by one thread at a time.
class TcpDoor {
 public:
  static constexpr std::chrono::seconds kPatience{10};

  struct Events {
    /// Called with the first message on a connection whose other side has proven the secret. The
    /// handler owns the connection from here on.
    std::function<void(const TcpLinkPtr&, TcpMessage)> word;
    /// Called when no connection could be accepted for kPatience, for example because no descriptor
    /// was left. Meanwhile new connections wait in the system's queue.
    std::function<void(const std::string& why)> failed;
  };
  /// Keeps at most `strangers` connections whose other side has not proven the secret; a further
  /// one replaces the oldest.
  TcpDoor(TcpLoop& loop, std::size_t strangers);
  ~TcpDoor();
  TcpDoor(const TcpDoor&) = delete;
  TcpDoor& operator=(const TcpDoor&) = delete;

  /// Errors: Environment, with the system's reason.
  [[nodiscard]] Result<void> listen(const Endpoint& at);
  void on(Events events) { events_ = std::move(events); }
  [[nodiscard]] bool listens() const { return acceptor_.is_open(); }
  [[nodiscard]] std::uint16_t port() const;
  void close();

 private:
  void accept();
  void accept_later(const std::string& why);
  void welcome(TcpLink::Socket socket);

  TcpLoop& loop_;
  std::size_t most_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  SystemClock clock_;
  std::optional<Instant> fails_since_;  // time of the first of successive failures to accept
  Instant failed_at_{0};                // time of the last failure
  Events events_;
  std::deque<TcpLinkPtr> strangers_;  // by age
};

}  // namespace lockstep::collectives
