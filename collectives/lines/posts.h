// What a rank posts, and what it reads of its peers: the seam between the issuer and memory.
// Implemented by shared memory of a host (shared_posts.h), and by tests in which ranks take turns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/lines/operation.h>

namespace lockstep::lines {

/// Key of a group in all processes: equal on the group's members, and different from the keys of
/// all other groups.
struct LineKey {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const LineKey&) const = default;
};

/// A process group, or a directed pair of its members, as seen by a rank that issues on it.
struct Group {
  LineKey key;
  std::vector<Rank> members;  // ranks of the job, by their number in the group
  int self = 0;               // this rank's number in the group
  std::string name;           // "the group dp (ranks 0-3)", in messages
  /// Members with whose entries this rank compares its own, see Issuer::prepare(); nullopt: all.
  std::optional<std::vector<int>> compared{};
};

/// A line of a process: its index in that process's table.
struct LineId {
  std::uint32_t value = 0;
  auto operator<=>(const LineId&) const = default;
};

/// Whether a process still runs.
enum class PeerState : std::uint8_t {
  Unseen,  // on another host, or its memory cannot be read
  Running,
  Finished,  // it has declared its end and issues nothing more
  Gone,      // it has reported a failure; see gone_text()
  Lost,      // it has ended without a report
};

[[nodiscard]] constexpr bool has_ended(PeerState state) {
  return state == PeerState::Finished || state == PeerState::Gone || state == PeerState::Lost;
}

/// A wait of a process for entry `number` of a line.
struct Waiting {
  LineKey key;
  std::uint64_t number = 0;
  auto operator<=>(const Waiting&) const = default;
};

/// The posts of one process and of its peers. Ranks are those of the job. Methods that write are
/// called by one thread at a time for each line; those that read, by any thread.
class Posts {
 public:
  virtual ~Posts() = default;

  /// This process's line of a group, opened if needed. Errors: Environment (the table is full, or
  /// no memory is left).
  [[nodiscard]] virtual Result<LineId> open(const Group& group) = 0;
  /// Number of entries in this process's line.
  [[nodiscard]] virtual std::uint64_t count(LineId line) const = 0;
  /// Writes the next entry, raises the count, then executes a full fence. The texts of `entry` are
  /// from text(). Errors: Environment (no memory is left, or this rank is too far ahead of other
  /// members).
  [[nodiscard]] virtual Result<void> post(LineId line, const Entry& entry) = 0;
  /// Records that the last entry of the line has been handed to its transport: ranks that wait for
  /// the operation can rely on it.
  virtual void handed(LineId line) = 0;
  /// Frees entries of this process's line below `number`, which no rank needs.
  virtual void trim(LineId line, std::uint64_t number) = 0;
  /// The id of a text in this process's memory, added if needed; 0 if there is no room.
  [[nodiscard]] virtual TextId text(std::string_view text) = 0;

  /// Whether the peer is on this host: its posts are read without a lag.
  [[nodiscard]] virtual bool is_here(Rank peer) const = 0;
  [[nodiscard]] virtual PeerState state(Rank peer) const = 0;
  [[nodiscard]] virtual std::string gone_text(Rank peer) const = 0;
  /// Number of entries in the peer's line; 0 if it has not opened the line.
  [[nodiscard]] virtual std::uint64_t count(Rank peer, LineKey key) const = 0;
  /// The peer's entry `number`. Requires number < count(peer, key). nullopt: the entry cannot be
  /// read.
  [[nodiscard]] virtual std::optional<Entry> entry(Rank peer, LineKey key,
                                                   std::uint64_t number) const = 0;
  [[nodiscard]] virtual EntryTexts texts(Rank peer, const Posted& posted) const = 0;

  /// The refusal of a group, if the host has one.
  [[nodiscard]] virtual std::optional<Status> refusal(LineKey key) const = 0;
  /// Refuses a group. Returns the refusal that all ranks of the host report: `status`, or an
  /// earlier refusal of another rank.
  [[nodiscard]] virtual Status refuse(LineKey key, const Status& status) = 0;
};

}  // namespace lockstep::lines
