// What one process of a job has with all others: connections that are opened where something is to
// be said or heard, opened again where they break, and the messages that came over them. Used by
// the TCP backend only.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include <lockstep/collectives/round.h>
#include <lockstep/collectives/tcp/host_rings.h>
#include <lockstep/collectives/tcp/tcp_association.h>
#include <lockstep/collectives/tcp/tcp_door.h>
#include <lockstep/collectives/tcp/tcp_inbox.h>
#include <lockstep/collectives/tcp/tcp_roster.h>
#include <lockstep/collectives/tree.h>

namespace lockstep::collectives {

/// The result of a rendezvous: the parts of a mesh.
struct TcpMeshParts {
  std::unique_ptr<TcpLoop> loop = std::make_unique<TcpLoop>();
  std::unique_ptr<TcpDoor> door;  // at which this process listens for its peers
  Rank self;
  RendezvousId id{};
  std::vector<Peer> roster;         // by rank
  std::unique_ptr<TcpRoster> list;  // the same, for those who have it from this process
};

/// See tcp.h.
class TcpMesh {
 public:
  /// `out_of_reach`: how long a peer may be so; see TcpOptions.
  TcpMesh(TcpMeshParts parts, std::size_t longest_message, Duration out_of_reach);
  ~TcpMesh();
  TcpMesh(const TcpMesh&) = delete;
  TcpMesh& operator=(const TcpMesh&) = delete;

  [[nodiscard]] Rank rank() const { return self_; }
  [[nodiscard]] int size() const { return static_cast<int>(roster_.size()); }
  [[nodiscard]] const Peer& peer(Rank rank) const {
    return roster_[static_cast<std::size_t>(rank.value)];
  }
  /// Of `ranks`, in their order.
  [[nodiscard]] HostRuns hosts(const std::vector<Rank>& ranks) const;

  /// From here on what goes to `here`, the ranks of this host, goes by its rings, where there is
  /// memory for one. Called on all of them, before anything but Part::Kind::Board is said.
  void share(std::unique_ptr<HostRings> rings, const std::vector<Rank>& here);

  using Message = TcpInbox::Message;
  /// Takes the message as a whole; it goes out as the system takes it, once up().
  void send(Rank to, std::uint64_t group, Part::Kind kind, std::span<const std::byte> message);
  /// The next piece of a message of `total` bytes; at most Part::kMostBytes.
  void send_piece(Rank to, std::uint64_t group, Part::Kind kind, std::uint64_t total,
                  std::span<const std::byte> piece);
  /// A connection to it stands, or its ring has taken everything: what was sent is on its way,
  /// whatever this process does next.
  [[nodiscard]] bool up(Rank to) const;
  /// Bytes for `to` that it has not acknowledged yet, or that its ring has no room for.
  [[nodiscard]] std::size_t queued(Rank to) const;
  /// The next message of that line; control messages of both kinds are one line. Where there is
  /// none, a connection is opened, so that the end of the peer is noticed.
  [[nodiscard]] std::optional<Message> take(Rank from, std::uint64_t group, Part::Kind line);
  /// It has announced a clean exit, and nothing more comes from it.
  [[nodiscard]] bool finished(Rank rank) const;
  /// And its process is no more.
  [[nodiscard]] bool gone(Rank rank) const;
  /// Connections that stand.
  [[nodiscard]] int connections() const;

  /// Moves what can be moved; waits up to `most` for the first thing. Errors, of all later calls
  /// too: RankLost, the verdict of a peer, Internal (a peer that does not keep to the protocol).
  [[nodiscard]] Result<void> move(Duration most = Duration{0});
  /// As move(), for one who has waited for so long: spins at first, then lets others have the core,
  /// and sleeps for up to 5 ms once nothing is expected soon.
  [[nodiscard]] Result<void> wait(Duration waited);
  /// See tcp_failure. Any thread.
  [[nodiscard]] std::optional<Status> failure() const;
  /// Moves, and gives what has been told of ranks since the last call, the latest of each: called
  /// every now and then while this process computes, so that connections that break are opened
  /// again. Any thread.
  [[nodiscard]] std::map<std::int32_t, Progress> take_progress();
  /// Tells one peer, if a connection to it stands and it reads, and moves; by another thread than
  /// the one that polls. Any thread.
  void say_progress(Rank to, const std::vector<Progress>& progress);
  /// See tcp_tell. Any thread.
  void tell(const Status& verdict);
  /// See tcp_finish. Any thread.
  void finish();
  /// See tcp_leave. Any thread.
  void leave(Duration patience);

 private:
  struct Pair;
  [[nodiscard]] Pair& pair(Rank peer);
  [[nodiscard]] const Pair* known(Rank peer) const;
  [[nodiscard]] std::size_t unheard(const Pair& pair) const;
  /// Moves what rings and connections hold; waits up to `most` for the first thing.
  void run(Duration most);
  void glance();
  [[nodiscard]] Result<void> move_by(bool glancing, Duration most);
  void hear_host();
  void move_rings();
  void hear_ring(Pair& pair);
  void acknowledge(Pair& pair);
  void take_part(Pair& pair, Part part);
  void came(const TcpLinkPtr& link, const TcpMessage& message);
  void stands(Pair& pair);
  void heard(Pair& pair, Association::Link link, TcpMessage message);
  void ended(Pair& pair, Association::Link link, const TcpLink& of, const Status& why);
  void put(Pair& pair, std::uint64_t group, Part::Kind kind, std::uint64_t total,
           std::span<const std::byte> piece);
  void lose(Pair& pair, const std::string& why);
  void fail(Status status);
  void will_tell(const Status& verdict);
  [[nodiscard]] bool may_hear(const Pair& pair, Instant since) const;
  void flush();
  bool say_farewell();
  void stay(bool leaving);

  std::unique_ptr<TcpLoop> loop_;
  std::unique_ptr<TcpDoor> door_;
  Rank self_;
  RendezvousId id_;
  std::vector<Peer> roster_;
  HostRuns hosts_;
  TreePlace tree_;  // by which all ranks are connected, so that the end of one, or a verdict, comes
                    // to all
  std::unique_ptr<TcpRoster> list_;
  Duration out_of_reach_;
  SystemClock clock_;
  mutable std::atomic<int> telling_{0};  // threads that want the mutex before the one that polls
  mutable std::mutex mutex_;             // of all below, and of the loop
  std::map<std::int32_t, std::unique_ptr<Pair>> pairs_;  // with whom there has been something
  Pair* awaited_ = nullptr;                              // of whom take() had nothing, last
  TcpInbox inbox_;
  std::unique_ptr<HostRings> rings_;  // null: all goes by connections
  std::vector<Rank> here_;            // by their place in the rings
  bool crowded_ = false;              // more ranks are here than cores
  Instant ran_{0};                    // the loop, for one who spins
  std::map<std::int32_t, Progress> progress_;
  std::optional<Status> failure_;
  std::optional<Status> told_;  // the verdict that whoever connects is told
  Instant told_at_{0};          // first
  bool leaving_ = false;        // it has said farewell
};

/// One round of `members`, who are numbered by their place; this rank is one. Errors: as
/// TcpMesh::move(), and Stuck (naming who does not come until then).
[[nodiscard]] Result<void> run_round(TcpMesh& mesh, const std::vector<Rank>& members,
                                     Part::Kind line, Round& round, Instant until);

}  // namespace lockstep::collectives
