// What a rank posts, and what it reads of its peers: the seam between the issuer and memory. Shared
// memory of a host (shared_posts.h), or that of a test that lets ranks take turns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/lines/operation.h>

namespace lockstep::lines {

/// What two processes call one group by: equal on its members, and on nobody else.
struct LineKey {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const LineKey&) const = default;
};

/// A process group, or a directed pair of one, as a rank issues on it.
struct Group {
  LineKey key;
  std::vector<Rank> members;  // ranks of the job, by their number in the group
  int self = 0;               // this rank's number in it
  std::string name;           // "the group dp (ranks 0-3)", in messages
  /// See Issuer::prepare(); nullopt: all.
  std::optional<std::vector<int>> compared{};
};

/// A line of a process: its place in that process's table.
struct LineId {
  std::uint32_t value = 0;
  auto operator<=>(const LineId&) const = default;
};

/// Whether a process goes on.
enum class PeerState : std::uint8_t {
  Unseen,  // on another host, or its memory cannot be read
  Running,
  Finished,  // it has said that it ends, and issues nothing more
  Gone,      // it has said that it failed; see gone_text()
  Lost,      // it has ended and said nothing
};

[[nodiscard]] constexpr bool has_ended(PeerState state) {
  return state == PeerState::Finished || state == PeerState::Gone || state == PeerState::Lost;
}

/// A wait of a process: inside entry `number` of a line.
struct Waiting {
  LineKey key;
  std::uint64_t number = 0;
  auto operator<=>(const Waiting&) const = default;
};

/// Posts of one process and those of its peers. Ranks are those of the job. Methods that write are
/// called by one thread at a time for each line; those that read, from any.
class Posts {
 public:
  virtual ~Posts() = default;

  /// This process's line of a group, new where there is none.
  /// Errors: Environment (the table is full, no memory).
  [[nodiscard]] virtual Result<LineId> open(const Group& group) = 0;
  /// Entries of this process's line.
  [[nodiscard]] virtual std::uint64_t count(LineId line) const = 0;
  /// Writes the next entry, raises the count, and has a full fence. The texts of `entry` are of
  /// text(). Errors: Environment (no memory, or a lead that is too long).
  [[nodiscard]] virtual Result<void> post(LineId line, const Entry& entry) = 0;
  /// The last entry of the line has been issued: what waits for it need not fear that it never was.
  virtual void handed(LineId line) = 0;
  /// Entries of this process's line below `number` are needed by nobody any more.
  virtual void trim(LineId line, std::uint64_t number) = 0;
  /// The id of a text in this process's memory; 0 where there is no room.
  [[nodiscard]] virtual TextId text(std::string_view text) = 0;

  /// Of this host: its posts are read as they are, without a lag.
  [[nodiscard]] virtual bool is_here(Rank peer) const = 0;
  [[nodiscard]] virtual PeerState state(Rank peer) const = 0;
  [[nodiscard]] virtual std::string gone_text(Rank peer) const = 0;
  /// Its entries of a line; 0 where it has not opened it.
  [[nodiscard]] virtual std::uint64_t count(Rank peer, LineKey key) const = 0;
  /// Requires number < count. nullopt: it cannot be read.
  [[nodiscard]] virtual std::optional<Entry> entry(Rank peer, LineKey key,
                                                   std::uint64_t number) const = 0;
  [[nodiscard]] virtual EntryTexts texts(Rank peer, const Posted& posted) const = 0;

  /// The refusal of a group, where a rank of this host has refused; its code and message.
  [[nodiscard]] virtual std::optional<Status> refusal(LineKey key) const = 0;
  /// Claims it: what all say of this group, `status` or what the rank said that was first.
  [[nodiscard]] virtual Status refuse(LineKey key, const Status& status) = 0;
};

}  // namespace lockstep::lines
