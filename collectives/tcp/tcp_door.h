// Where a process listens for others of its job, and those that have not said who they are. Used by
// the rendezvous and by tcp_mesh.cpp.
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

using TcpLinkPtr = std::shared_ptr<TcpLink>;

/// One door. Outlived by its loop. One thread at a time.
class TcpDoor {
 public:
  static constexpr std::chrono::seconds kPatience{10};

  struct Events {
    /// The first word on a connection whose other side has proven the secret; from here on it is
    /// the taker's, to close or to keep.
    std::function<void(const TcpLinkPtr&, TcpMessage)> word;
    /// No connection could be taken for kPatience: this process has no descriptors left, for
    /// example. Until then those who come wait in the system's queue.
    std::function<void(const std::string& why)> failed;
  };
  /// Keeps `strangers` connections that have not proven the secret; the oldest goes for a new one.
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
  std::optional<Instant> fails_since_;  // again and again
  Instant failed_at_{0};                // last
  Events events_;
  std::deque<TcpLinkPtr> strangers_;  // by age
};

}  // namespace lockstep::collectives
