// One TCP connection between two processes of a job, either side of it: the handshake of
// sealed_session.h, then messages. Used by the TCP backend only; the one header with Asio in it.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/tcp/tcp_message.h>
#include <lockstep/collectives/wire/sealed_session.h>

namespace lockstep::collectives {

/// What all connections of a process have in common. Whoever waits drives it.
struct TcpLoop {
  boost::asio::io_context io{1};
  Secret secret;
  Encryption encryption = Encryption::Off;
  Duration handshake = std::chrono::seconds(5);  // how long one may take
  std::array<std::byte, 64 * 1024> incoming{};   // of whichever connection is being read
};

/// One connection. Held by what is under way on it, and by who uses it; outlived by the loop. One
/// thread at a time.
class TcpLink : public std::enable_shared_from_this<TcpLink> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  struct Events {
    std::function<void()> established = [] {};
    std::function<void(TcpMessage)> message = [](TcpMessage) {};
    /// At most once, and nothing after it. Environment: nobody listens there. Version: it does not
    /// know the secret, speaks something else, or is not believed. RankLost: it closed the
    /// connection, or that broke off.
    std::function<void(const Status& why)> ended = [](const Status&) {};
  };

  static std::shared_ptr<TcpLink> accept(TcpLoop& loop, Socket socket, Events events);
  /// Patient: once the system of the other side has answered, its process may take its time.
  static std::shared_ptr<TcpLink> connect(TcpLoop& loop, const Endpoint& to, Events events,
                                          bool patient = false);
  TcpLink(TcpLoop& loop, Socket socket, SealedSession::Side side, Events events);

  /// From the next event on; may be called within one.
  void on(Events events) { events_ = std::make_shared<const Events>(std::move(events)); }
  /// Requires established().
  void send(const TcpMessage& message);
  /// One that encode() has made; `type` as type_of() says.
  void send(std::uint8_t type, std::span<const std::byte> encoded);
  [[nodiscard]] bool established() const { return session_.established(); }
  /// Ends it where the other side's system has not acknowledged for so long what was sent;
  /// keep-alive probes go out only where nothing was.
  void give_up_after(std::chrono::milliseconds time);
  /// Takes what has come, for who does not wait for the loop to say so.
  void read_now();
  /// Bytes that the system has not taken yet.
  [[nodiscard]] std::size_t queued() const { return queued_; }
  /// It takes nothing any more: that it has ended is about to be heard.
  [[nodiscard]] bool broken() const { return broken_; }
  /// It has ended since nobody listens there.
  [[nodiscard]] bool refused() const { return refused_; }
  /// The system of the other side has taken it.
  [[nodiscard]] bool answered() const { return answered_; }
  /// Closes it once all is sent and the other side has read it, or after a second; no events.
  void finish();
  void close();
  /// The other side's address, and this side's; empty where it is closed.
  [[nodiscard]] std::string peer_address() const;
  [[nodiscard]] std::string own_address() const;

 private:
  void prepare();
  void limit(Duration time, const char* why, Code code = Code::Version);
  void read();
  void receive();
  void took(std::span<const std::byte> bytes);
  void push(Bytes bytes);
  void flush();
  void end(Code code, const std::string& why);

  TcpLoop& loop_;
  Socket socket_;
  SealedSession session_;
  std::shared_ptr<const Events> events_;
  boost::asio::steady_timer limit_;
  std::deque<Bytes> queue_;
  std::size_t sent_ = 0;  // of the first in the queue
  std::size_t queued_ = 0;
  bool writing_ = false, deaf_ = false, over_ = false, refused_ = false;
  bool answered_ = false, broken_ = false;
};

}  // namespace lockstep::collectives
