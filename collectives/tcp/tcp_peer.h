// One peer of a process: its connections, which `association` has opened and closed, and what is
// known of it. Used by TcpMesh and its parts.
#pragma once

#include <map>
#include <optional>

#include <lockstep/collectives/tcp/tcp_association.h>
#include <lockstep/collectives/tcp/tcp_link.h>

namespace lockstep::collectives {

class TcpPeer final : public AssociationPort {
 public:
  /// The receiver of a peer's events.
  class Mesh {
   public:
    virtual ~Mesh() = default;
    virtual void on_message(TcpPeer& from, Link link, TcpMessage message) = 0;
    /// `of` is the connection that has ended; the peer no longer holds it.
    virtual void on_ended(TcpPeer& peer, Link link, const TcpLink& of, const Status& why) = 0;
    /// A Part has arrived through a shared ring.
    virtual void on_part(TcpPeer& from, Part part) = 0;
    /// The peer has written something into its ring that is no message.
    virtual void on_garbage(TcpPeer& from) = 0;
  };

  /// `self` introduces this process; the peer listens at `address`. `mesh` and `loop` must outlive
  /// the peer.
  TcpPeer(Mesh& mesh, TcpLoop& loop, Introduction self, Rank with, Endpoint address);
  ~TcpPeer() override { close_all(); }
  TcpPeer(const TcpPeer&) = delete;
  TcpPeer& operator=(const TcpPeer&) = delete;

  /// Takes a connection that the peer has opened, and its events.
  Link take(const TcpLinkPtr& link);
  void close_all();
  /// The open connection, or null.
  [[nodiscard]] TcpLink* up() const;
  /// Sends an acknowledgement, which also wakes a peer that sleeps on its connections.
  void acknowledge();

  Link open() override;
  void introduce(Link link, std::uint64_t attempt, std::uint64_t received) override;
  void write(Link link, std::span<const std::byte> message) override;
  void acknowledge(Link link, std::uint64_t received) override;
  void close(Link link) override;

  const Rank rank;
  boost::asio::steady_timer pause;      // until a retry to connect, or until the peer is lost
  std::optional<Instant> out_of_reach;  // when connections began to fail; nullopt: they can be made
  Instant connected_at{0};              // when the last connection was made
  int place = -1;                       // peer's place in the rings of this host; -1: it has none
  bool uses_ring = false;               // messages to the peer go through its ring
  bool finished = false;                // the peer has sent its farewell
  bool gone = false;                    // the peer's process has ended, or counts as lost
  bool has_verdict = false;             // the peer has sent a verdict, so it needs none
  Association association;

 private:
  [[nodiscard]] TcpLink::Events events(Link link);

  Mesh& mesh_;
  TcpLoop& loop_;
  Introduction self_;
  Endpoint address_;
  Link last_ = 0;
  std::map<Link, TcpLinkPtr> links_;
};

}  // namespace lockstep::collectives
