// What has come from peers and has not been taken yet, put together from its pieces. Pure. Used by
// tcp_mesh.cpp.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives {

/// What peers say ahead of its use is kept, whatever its length: who sends it has come to the
/// operation that this rank has not, and an operation ahead of that waits for this rank.
class TcpInbox {
 public:
  /// Longer messages are not believed.
  explicit TcpInbox(std::size_t longest) : longest_(longest) {}

  struct Message {
    Part::Kind kind{};
    Bytes bytes;
  };
  /// Errors: Internal (a message that is too long, or pieces that do not fit together).
  [[nodiscard]] Result<void> put(Rank from, Part part);
  /// The next message of that line; control messages of both kinds are one line.
  [[nodiscard]] std::optional<Message> take(Rank from, std::uint64_t group, Part::Kind line);

 private:
  using Line = std::tuple<std::int32_t, std::uint64_t, int>;
  struct Queue {
    std::deque<Message> whole;
    std::optional<Message> begun;
    std::uint64_t total = 0;  // of the one begun
  };
  [[nodiscard]] static Line line(Rank from, std::uint64_t group, Part::Kind kind);

  std::size_t longest_;
  std::map<Line, Queue> queues_;
};

}  // namespace lockstep::collectives
