// What a process reads and writes: its connections, by the loop, and the rings of its host. Used by
// TcpMesh.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/tcp/host_rings.h>
#include <lockstep/collectives/tcp/tcp_peer.h>

namespace lockstep::collectives {

/// Used by one thread at a time.
class TcpTraffic {
 public:
  /// `peer` returns the peer of a rank. `mesh` must outlive the traffic.
  TcpTraffic(std::unique_ptr<TcpLoop> loop, TcpPeer::Mesh& mesh,
             std::function<TcpPeer&(Rank)> peer);

  [[nodiscard]] TcpLoop& loop() const { return *loop_; }
  /// From now on, the rings of `here`, the ranks of this host, are read and written, too.
  void share(std::unique_ptr<HostRings> rings, const std::vector<Rank>& here);
  /// The rank's place in the rings; -1: it has none.
  [[nodiscard]] int place(Rank rank) const;
  /// True if all of `ranks` ranks have a place.
  [[nodiscard]] bool reaches_all(int ranks) const {
    return rings_ != nullptr && here_.size() == static_cast<std::size_t>(ranks);
  }

  /// Sends a piece of a message of `total` bytes through the peer's ring. False: the peer has no
  /// ring.
  [[nodiscard]] bool send(TcpPeer& to, std::uint64_t group, Part::Kind kind, std::uint64_t total,
                          std::span<const std::byte> piece);
  /// For a peer with a ring: number of bytes for which the ring has no room yet. For others: number
  /// of bytes that the peer has not acknowledged.
  [[nodiscard]] std::size_t unacknowledged(const TcpPeer& peer) const {
    return peer.uses_ring ? rings_->waiting(peer.place) : peer.association.kept_bytes();
  }
  /// Reads the peer's ring, if it has one.
  void read(TcpPeer& from);

  /// Reads and writes rings and connections; waits up to `most` for the first event.
  void run(Duration most);
  /// Runs the loop alone, without waiting.
  void run_loop();
  /// Reads the rings and the connection of `awaited` (may be null), where the next message most
  /// likely arrives. Runs the loop only now and then.
  void poll_likely(TcpPeer* awaited);

 private:
  void run_loop(Duration most);
  void run_rings();

  std::unique_ptr<TcpLoop> loop_;
  TcpPeer::Mesh& mesh_;
  std::function<TcpPeer&(Rank)> peer_;
  std::unique_ptr<HostRings> rings_;  // null: everything goes over connections
  std::vector<Rank> here_;            // ranks of this host, by their place in the rings
  SystemClock clock_;
  Instant loop_ran_{0};  // last run of the loop by poll_likely()
};

}  // namespace lockstep::collectives
