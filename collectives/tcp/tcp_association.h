// One side of the association of two peers: numbered messages over successive connections. A
// connection may break at any time, and both sides may open one at the same moment; each message
// arrives once and in order, as long as connections can be made. Pure: no socket, no clock. Used by
// TcpPeer, and by the simulation that tests it.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include <lockstep/collectives/base/bytes.h>

namespace lockstep::collectives {

/// What an association needs of its connections. A Link is a connection's number, which is never
/// used again.
class AssociationPort {
 public:
  using Link = std::uint64_t;
  virtual ~AssociationPort() = default;
  /// Begins to connect. Association::established() or broken() is called later, never within this
  /// call.
  virtual Link open() = 0;
  /// Sends this side's first message on a connection.
  virtual void introduce(Link link, std::uint64_t attempt, std::uint64_t received) = 0;
  virtual void write(Link link, std::span<const std::byte> message) = 0;
  virtual void acknowledge(Link link, std::uint64_t received) = 0;
  /// Closes the connection; the association gets no more events of it.
  virtual void close(Link link) = 0;
};

class Association {
 public:
  using Link = AssociationPort::Link;
  enum class State : std::uint8_t { Closed, Connecting, Introduced, Up };
  /// `yields`: if both sides open a connection at once, the other side's is kept. True on exactly
  /// one of the two sides. `port` must outlive the association.
  Association(bool yields, AssociationPort& port) : port_(port), yields_(yields) {}

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool up() const { return state_ == State::Up; }
  /// The connection in use or being opened; 0: none.
  [[nodiscard]] Link link() const { return link_; }
  /// Opens a connection, unless there is one.
  void open();
  /// Event: the connection of open() is made, and the peer has proven the secret.
  void established(Link link);
  /// Event: the connection is gone. False if the association no longer uses it.
  bool broken(Link link);
  /// Event: the peer has answered on a connection that this side opened, and says that it has
  /// received `received` messages.
  void answered(Link link, std::uint64_t received);
  /// Event: the peer has introduced itself on a connection that it opened; `attempt` counts these
  /// from 1.
  void introduced(Link link, std::uint64_t attempt, std::uint64_t received);

  /// Sent with each message: the number of the message, from 0, and how many messages of the peer
  /// this side has received.
  struct Stamp {
    std::uint64_t number = 0, received = 0;
  };
  /// Stamp of the message that send() takes next.
  [[nodiscard]] Stamp next();
  /// Sends the message, and keeps it until the peer has it. Opens a connection if needed.
  void send(Bytes message);
  /// Next: the message is the next to take. Again: it is a duplicate. Stale: its connection was
  /// given up. Wrong: it breaks the protocol.
  enum class Arrival : std::uint8_t { Next, Again, Stale, Wrong };
  [[nodiscard]] Arrival arrived(Link link, const Stamp& stamp, std::size_t bytes);
  /// Event: the peer has received `count` messages. False: these are more than were sent.
  [[nodiscard]] bool acknowledged(std::uint64_t count);

  [[nodiscard]] std::uint64_t received() const { return received_; }
  /// Bytes of messages that the peer has not acknowledged.
  [[nodiscard]] std::size_t kept_bytes() const { return kept_bytes_; }
  /// A separate acknowledgement is sent once this many received messages, or this many bytes, are
  /// not acknowledged.
  static constexpr std::uint64_t kAcknowledgeMessages = 64;
  static constexpr std::size_t kAcknowledgeBytes = 128 * 1024;

 private:
  void stand(std::uint64_t received);

  AssociationPort& port_;
  bool yields_;
  State state_ = State::Closed;
  Link link_ = 0;
  std::uint64_t attempt_ = 0, peer_attempt_ = 0;
  std::uint64_t sent_ = 0, received_ = 0;
  std::uint64_t told_ = 0;  // how many of received_ are acknowledged
  std::size_t untold_bytes_ = 0;
  std::deque<Bytes> kept_;  // the last sent messages, not acknowledged yet
  std::size_t kept_bytes_ = 0;
};

}  // namespace lockstep::collectives
