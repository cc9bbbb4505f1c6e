// One side of a TCP connection between two processes of a job: the handshake of sealed_session.h,
// then messages. Used by the TCP backend only; with tcp_door.h the only header that includes Asio.
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

/// Shared by all connections of a process. The thread that waits runs it.
struct TcpLoop {
  boost::asio::io_context io{1};
  Secret secret;
  Encryption encryption = Encryption::Off;
  Duration handshake = std::chrono::seconds(5);  // time limit of a handshake
  std::array<std::byte, 64 * 1024> incoming{};   // buffer of the connection that is being read
};

/// One connection. Kept alive by its users and by operations under way. The loop must outlive it.
/// Used by one thread at a time.
class TcpLink : public std::enable_shared_from_this<TcpLink> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  struct Events {
    std::function<void()> established = [] {};
    std::function<void(TcpMessage)> message = [](TcpMessage) {};
    /// Called at most once; no event follows. Environment: the connection could not be made.
    /// Version: the other side does not prove the secret (in time), or sends something unreadable.
    /// RankLost: the other side closed the connection, or the connection broke.
    std::function<void(const Status& why)> ended = [](const Status&) {};
  };

  static std::shared_ptr<TcpLink> accept(TcpLoop& loop, Socket socket, Events events);
  /// `patient`: once the other side's system has answered, its process has no time limit.
  static std::shared_ptr<TcpLink> connect(TcpLoop& loop, const Endpoint& to, Events events,
                                          bool patient = false);
  TcpLink(TcpLoop& loop, Socket socket, SealedSession::Side side, Events events);

  /// Sets the handlers from the next event on; may be called within an event.
  void on(Events events) { events_ = std::make_shared<const Events>(std::move(events)); }
  /// Requires established().
  void send(const TcpMessage& message);
  /// Sends a message that encode() has made; `type` is the result of type_of().
  void send(std::uint8_t type, std::span<const std::byte> encoded);
  [[nodiscard]] bool established() const { return session_.established(); }
  /// Ends the connection if the other side's system leaves sent bytes unacknowledged for `time`.
  /// Keep-alive probes do not cover this case: they are sent only while no data is under way.
  void give_up_after(std::chrono::milliseconds time);
  /// Reads what has arrived, without waiting for the loop to report it.
  void read_now();
  /// Number of bytes that are queued here because the system has not taken them yet.
  [[nodiscard]] std::size_t queued() const { return queued_; }
  /// True after a failed write: ended() is about to follow.
  [[nodiscard]] bool broken() const { return broken_; }
  /// True if the connection was refused: no process listens at the address.
  [[nodiscard]] bool refused() const { return refused_; }
  /// True once the system of the other side has accepted the connection.
  [[nodiscard]] bool answered() const { return answered_; }
  /// Sends what is queued, then closes the connection once the other side has closed it, too, or
  /// after a second. No more events follow.
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
  std::size_t sent_ = 0;  // bytes of the first in the queue that are sent
  std::size_t queued_ = 0;
  bool writing_ = false, finishing_ = false, over_ = false, refused_ = false;
  bool answered_ = false, broken_ = false;
};
using TcpLinkPtr = std::shared_ptr<TcpLink>;

}  // namespace lockstep::collectives
