// The connections of one process of a job to all others, opened at first use and reopened when they
// break, and the messages received over them. Used by the TCP backend only.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include <lockstep/collectives/round.h>
#include <lockstep/collectives/tcp/tcp_departure.h>
#include <lockstep/collectives/tcp/tcp_door.h>
#include <lockstep/collectives/tcp/tcp_inbox.h>
#include <lockstep/collectives/tcp/tcp_roster.h>
#include <lockstep/collectives/tcp/tcp_traffic.h>
#include <lockstep/collectives/tree.h>

namespace lockstep::collectives {

/// The result of a rendezvous: the parts of a mesh.
struct TcpMeshParts {
  std::unique_ptr<TcpLoop> loop = std::make_unique<TcpLoop>();
  std::unique_ptr<TcpDoor> door;  // where this process listens for its peers
  Rank self;
  RendezvousId id{};
  std::vector<Peer> roster;         // by rank
  std::unique_ptr<TcpRoster> list;  // gives the roster to ranks that join this process
};

/// See tcp.h.
class TcpMesh final : TcpPeer::Mesh {
 public:
  /// `out_of_reach`: see TcpOptions.
  TcpMesh(TcpMeshParts parts, std::size_t longest_message, Duration out_of_reach);
  ~TcpMesh() override;
  TcpMesh(const TcpMesh&) = delete;
  TcpMesh& operator=(const TcpMesh&) = delete;

  [[nodiscard]] Rank rank() const { return self_; }
  [[nodiscard]] int size() const { return static_cast<int>(roster_.size()); }
  [[nodiscard]] const Peer& peer(Rank rank) const {
    return roster_[static_cast<std::size_t>(rank.value)];
  }
  /// Which of `ranks` share a host; ranks are numbered by their place in `ranks`.
  [[nodiscard]] HostRuns hosts(const std::vector<Rank>& ranks) const;

  /// From now on, messages to `here`, the ranks of this host, go through rings, if there is memory
  /// for a ring. To be called on all ranks of the host, before they send any message but
  /// Part::Kind::Board.
  void share(std::unique_ptr<HostRings> rings, const std::vector<Rank>& here);

  using Message = TcpInbox::Message;
  /// Queues the whole message. It is sent once up(), as fast as the system takes it.
  void send(Rank to, std::uint64_t group, Part::Kind kind, std::span<const std::byte> message);
  /// Queues the next piece of a message of `total` bytes; the piece has at most Part::kMostBytes.
  void send_piece(Rank to, std::uint64_t group, Part::Kind kind, std::uint64_t total,
                  std::span<const std::byte> piece);
  /// True if a connection to `to` is open, or its ring has taken everything: then all messages sent
  /// so far are on their way, whatever this process does next.
  [[nodiscard]] bool up(Rank to) const;
  /// Number of bytes that `to` has not acknowledged yet, or for which its ring has no room.
  [[nodiscard]] std::size_t queued(Rank to) const;
  /// Returns the next message of `line`; the kinds Bare and Payload share a line. If no message is
  /// queued, opens a connection, so that the end of the peer is noticed.
  [[nodiscard]] std::optional<Message> take(Rank from, std::uint64_t group, Part::Kind line);
  /// True if the peer has announced a clean exit: nothing more arrives from it.
  [[nodiscard]] bool finished(Rank rank) const;
  /// True if the peer's process has ended, or counts as lost.
  [[nodiscard]] bool gone(Rank rank) const;
  /// Number of open connections.
  [[nodiscard]] int connections() const;

  /// Reads and writes rings and connections; waits up to `most` for the first event. Errors, which
  /// all later calls return, too: RankLost, a peer's verdict, Internal (a peer breaks the
  /// protocol).
  [[nodiscard]] Result<void> move(Duration most = Duration{0});
  /// As move(), for a caller that has waited for `waited`: spins at first, then yields the core,
  /// and after 2 ms sleeps for up to 5 ms.
  [[nodiscard]] Result<void> wait(Duration waited);
  /// See tcp_failure. Any thread.
  [[nodiscard]] std::optional<Status> failure() const;
  /// Polls the connections and returns the progress received since the last call, the latest of
  /// each rank. Called now and then while this process computes, so that broken connections are
  /// reopened. Any thread.
  [[nodiscard]] std::map<std::int32_t, RankProgress> take_progress();
  /// Sends `progress` to one peer, if a connection to it is open and the peer reads; then polls the
  /// connections. Any thread.
  void send_progress(Rank to, const std::vector<RankProgress>& progress);
  /// See tcp_tell. Any thread.
  void tell(const Status& verdict);
  /// See tcp_finish. Any thread.
  void finish();
  /// See tcp_leave. Any thread.
  void leave(Duration patience);

 private:
  using Link = TcpPeer::Link;
  [[nodiscard]] TcpPeer& peer_for(Rank peer);
  [[nodiscard]] const TcpPeer* known(Rank peer) const;
  [[nodiscard]] Result<void> move_by(bool glancing, Duration most);
  void on_first_message(const TcpLinkPtr& link, const TcpMessage& message);
  void on_connected(TcpPeer& one);
  void on_part(TcpPeer& one, Part part) override;
  void on_message(TcpPeer& one, Link link, TcpMessage message) override;
  void on_ended(TcpPeer& one, Link link, const TcpLink& of, const Status& why) override;
  void on_garbage(TcpPeer& one) override;
  void enqueue(TcpPeer& one, std::uint64_t group, Part::Kind kind, std::uint64_t total,
               std::span<const std::byte> piece);
  void lose(TcpPeer& one, const std::string& why);
  void fail(Status status);
  void set_verdict(const Status& verdict);
  void flush();
  bool send_farewells();
  void linger(bool to_the_last);

  Rank self_;
  RendezvousId id_;
  std::vector<Peer> roster_;
  HostRuns hosts_;
  TreePlace tree_;  // connects all ranks, so that a verdict, or the end of a rank, reaches all
  Duration out_of_reach_;
  bool crowded_;  // this host has more ranks than cores
  SystemClock clock_;
  mutable std::atomic<int> urgent_{0};  // threads that get the mutex before the polling thread
  mutable std::mutex mutex_;            // guards all below
  TcpTraffic traffic_;
  std::unique_ptr<TcpDoor> door_;
  std::unique_ptr<TcpRoster> list_;
  std::map<std::int32_t, std::unique_ptr<TcpPeer>> peers_;  // peers in use, by rank
  TcpPeer* awaited_ = nullptr;                              // peer of the last empty take()
  TcpInbox inbox_;
  std::map<std::int32_t, RankProgress> progress_;
  std::optional<Status> failure_;
  TcpDeparture departure_;
};

/// Runs one round of `members`, which include this rank. The round numbers ranks by their place in
/// `members`. Errors: those of TcpMesh::move(), and Stuck (names the peer that has left, or does
/// not answer by `until`).
[[nodiscard]] Result<void> run_round(TcpMesh& mesh, const std::vector<Rank>& members,
                                     Part::Kind line, Round& round, Instant until);

}  // namespace lockstep::collectives
