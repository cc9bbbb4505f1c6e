// How a process leaves its peers: the verdict it ends with, its farewells, and for how long it
// stays for peers that lack either. Pure, except that it reads the state of peers. Used by TcpMesh.
#pragma once

#include <optional>
#include <utility>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/tcp/tcp_peer.h>

namespace lockstep::collectives {

class TcpDeparture {
 public:
  /// The verdict, which is sent to every peer that connects; nullopt: no verdict.
  [[nodiscard]] const std::optional<Status>& verdict() const { return verdict_; }
  void set(const Status& verdict, Instant now);
  /// True once this rank has sent its farewells.
  [[nodiscard]] bool leaving() const { return leaving_; }
  /// Notes that this rank sends its farewells now. False: they were sent already.
  [[nodiscard]] bool leave() { return !std::exchange(leaving_, true); }

  /// True while a process with a verdict stays for peers that are about to connect.
  [[nodiscard]] bool stays(Instant now) const;
  /// With a verdict: true while the process stays because `peer` lacks it; such a peer would see
  /// this process gone and report this rank as lost. Without: true while the process stays because
  /// messages to `peer` are queued, `in_ring` bytes of them for its ring. `since`: when the wait
  /// began.
  [[nodiscard]] bool flushes(const TcpPeer& peer, std::size_t in_ring, Instant since,
                             Instant now) const;
  /// True while the process stays for `peer` to acknowledge what it was sent, because an ended
  /// process cannot send it again if a connection breaks. For a peer that has sent its farewell, it
  /// stays only if `to_the_last`.
  [[nodiscard]] bool lingers(const TcpPeer& peer, std::size_t unacknowledged, bool to_the_last,
                             Instant since, Instant now) const;

 private:
  std::optional<Status> verdict_;
  Instant verdict_at_{0};  // when verdict_ was first set
  bool leaving_ = false;
};

}  // namespace lockstep::collectives
