// The connections of one process with all others of its job, and the messages that came over them.
// Used by the TCP backend only.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/collectives/tcp/tcp_link.h>

namespace lockstep::collectives {

/// The result of a rendezvous: the parts of a mesh.
struct TcpMeshParts {
  std::unique_ptr<TcpLoop> loop = std::make_unique<TcpLoop>();
  Rank self;
  std::vector<Peer> roster;                        // by rank
  std::vector<std::shared_ptr<TcpLink>> links;     // by rank; this rank's own is null
  std::vector<std::pair<Rank, TcpMessage>> early;  // what peers that were quicker have said
};

/// See tcp.h. What peers say ahead of its use is kept, whatever its length: who sends it has come
/// to the operation that this rank has not, and an operation ahead of that waits for this rank.
class TcpMesh {
 public:
  TcpMesh(TcpMeshParts parts, std::size_t longest_message);
  ~TcpMesh();
  TcpMesh(const TcpMesh&) = delete;
  TcpMesh& operator=(const TcpMesh&) = delete;

  [[nodiscard]] Rank rank() const { return self_; }
  [[nodiscard]] int size() const { return static_cast<int>(roster_.size()); }
  [[nodiscard]] const Peer& peer(Rank rank) const {
    return roster_[static_cast<std::size_t>(rank.value)];
  }

  struct Message {
    Part::Kind kind{};
    Bytes bytes;
  };
  /// Takes the message as a whole; it goes out as the system takes it.
  void send(Rank to, std::uint64_t group, Part::Kind kind, std::span<const std::byte> message);
  /// The next piece of a message of `total` bytes; at most Part::kMostBytes.
  void send_piece(Rank to, std::uint64_t group, Part::Kind kind, std::uint64_t total,
                  std::span<const std::byte> piece);
  /// Bytes for `to` that the system has not taken yet.
  [[nodiscard]] std::size_t queued(Rank to) const;
  /// The next message of that line; control messages of both kinds are one line.
  [[nodiscard]] std::optional<Message> take(Rank from, std::uint64_t group, Part::Kind line);
  /// It has announced a clean exit, and nothing more comes from it.
  [[nodiscard]] bool finished(Rank rank) const;

  /// Moves what can be moved; waits up to `most` for the first thing. Errors, of all later calls
  /// too: RankLost, the verdict of a peer, Internal (a peer that does not keep to the protocol).
  [[nodiscard]] Result<void> move(Duration most = Duration{0});
  /// The rank whose connection ended without a clean exit; that is then the error of move().
  [[nodiscard]] std::optional<Rank> lost() const;
  /// What ranks have told of themselves since the last call, the latest of each. Any thread.
  [[nodiscard]] std::map<std::int32_t, Progress> take_progress();
  /// As send(), and move() by another thread than the one that polls. Any thread.
  void say_progress(const std::vector<Rank>& to, const Progress& progress);
  /// See tcp_tell. Any thread.
  void tell(const Status& verdict);
  /// See tcp_leave. Any thread.
  void leave(Duration patience);

 private:
  using Line = std::tuple<std::int32_t, std::uint64_t, int>;
  struct Inbox {
    std::deque<Message> whole;
    std::optional<Message> begun;
    std::uint64_t total = 0;  // of the one begun
  };
  [[nodiscard]] static Line line(Rank from, std::uint64_t group, Part::Kind kind);
  void took(Rank from, TcpMessage message);
  void took(Rank from, Part part);
  void ended(Rank rank, const Status& why);
  void fail(Status status);

  std::unique_ptr<TcpLoop> loop_;
  Rank self_;
  std::vector<Peer> roster_;
  std::size_t longest_;
  std::atomic<int> telling_{0};  // threads that want the mutex before the one that polls
  mutable std::mutex mutex_;     // of all below, and of the loop
  std::vector<std::shared_ptr<TcpLink>> links_;
  std::map<Line, Inbox> inboxes_;
  std::map<std::int32_t, Progress> progress_;
  std::vector<bool> finished_;
  std::optional<Rank> lost_;
  std::optional<Status> failure_;
};

}  // namespace lockstep::collectives
