// Messages that are received from peers and not taken yet, assembled from their pieces. Pure. Used
// by tcp_mesh.cpp.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives {

/// Keeps messages that peers send ahead, of any length. These are few: a peer that is one operation
/// ahead cannot complete the next without this rank.
class TcpInbox {
 public:
  /// Messages of more than `longest` bytes are errors.
  explicit TcpInbox(std::size_t longest) : longest_(longest) {}

  struct Message {
    Part::Kind kind{};
    Bytes bytes;
  };
  /// Errors: Internal (a message that is too long, or pieces that do not fit together).
  [[nodiscard]] Result<void> put(Rank from, Part part);
  /// The next message of `line`; the kinds Bare and Payload share a line.
  [[nodiscard]] std::optional<Message> take(Rank from, std::uint64_t group, Part::Kind line);

 private:
  using Line = std::tuple<std::int32_t, std::uint64_t, int>;
  struct Queue {
    std::deque<Message> whole;
    std::optional<Message> begun;
    std::uint64_t total = 0;  // bytes of `begun` when complete
  };
  [[nodiscard]] static Line line(Rank from, std::uint64_t group, Part::Kind kind);

  std::size_t longest_;
  std::map<Line, Queue> queues_;
};

}  // namespace lockstep::collectives
