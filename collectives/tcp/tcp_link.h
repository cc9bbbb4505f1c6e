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

/// Shared by all connections of a process. Driven by the thread that waits.
struct TcpLoop {
  boost::asio::io_context io{1};
  Secret secret;
  Encryption encryption = Encryption::Off;
  Duration handshake = std::chrono::seconds(5);  // time limit of one
  std::array<std::byte, 64 * 1024> incoming{};   // buffer of the connection that is being read
};

/// One connection. Kept alive by its users and by operations under way; the loop outlives it. One
/// thread at a time.
class TcpLink : public std::enable_shared_from_this<TcpLink> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  struct Events {
    std::function<void()> established = [] {};
    std::function<void(TcpMessage)> message = [](TcpMessage) {};
    /// Called at most once; no event follows. Environment: the connection could not be made.
    /// Version: the other side does not prove the secret (in time), or sends what cannot be read.
    /// RankLost: it closed the connection, or the connection broke.
    std::function<void(const Status& why)> ended = [](const Status&) {};
  };

  static std::shared_ptr<TcpLink> accept(TcpLoop& loop, Socket socket, Events events);
  /// `patient`: no time limit for the other process once its system has answered.
  static std::shared_ptr<TcpLink> connect(TcpLoop& loop, const Endpoint& to, Events events,
                                          bool patient = false);
  TcpLink(TcpLoop& loop, Socket socket, SealedSession::Side side, Events events);

  /// Sets the handlers from the next event on; may be called within one.
  void on(Events events) { events_ = std::make_shared<const Events>(std::move(events)); }
  /// Requires established().
  void send(const TcpMessage& message);
  /// Sends a message that encode() has made; `type` as type_of() returns.
  void send(std::uint8_t type, std::span<const std::byte> encoded);
  [[nodiscard]] bool established() const { return session_.established(); }
  /// Ends the connection if the other side's system leaves sent bytes unacknowledged for `time`:
  /// keep-alive probes go out only while nothing is under way.
  void give_up_after(std::chrono::milliseconds time);
  /// Reads what has arrived, without waiting for the loop to report it.
  void read_now();
  /// Bytes that the system has not taken yet.
  [[nodiscard]] std::size_t queued() const { return queued_; }
  /// True after a failed write: ended() is about to follow.
  [[nodiscard]] bool broken() const { return broken_; }
  /// True if nobody listens there.
  [[nodiscard]] bool refused() const { return refused_; }
  /// True once the system of the other side has taken the connection.
  [[nodiscard]] bool answered() const { return answered_; }
  /// Sends what is queued, then closes the connection once the other side has too, or after a
  /// second. No events.
  void finish();
  void close();
  /// Addresses of the other side and of this side; empty if the connection is closed.
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
  std::size_t sent_ = 0;  // bytes of the first in the queue
  std::size_t queued_ = 0;
  bool writing_ = false, deaf_ = false, over_ = false, refused_ = false;
  bool answered_ = false, broken_ = false;
};

}  // namespace lockstep::collectives
