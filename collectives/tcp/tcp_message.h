// Messages between the processes of a job over TCP, under a key of sealed_session.h, and their
// bytes. Decoding trusts nothing: texts and lists are capped, values in range, no byte left over.
// Used by the TCP backend and its tests.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <lockstep/collectives/base/board.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/sealed_message.h>

namespace lockstep::collectives {

/// Version of these messages. A JoinRequest with another version is refused.
inline constexpr std::uint32_t kTcpVersion = 5;
inline constexpr std::size_t kMostRanks = 65'536;
/// Random; differs between any two starts of a job.
using RendezvousId = std::array<std::byte, 16>;

/// A process asks to join the rendezvous.
struct JoinRequest {
  std::uint32_t version = kTcpVersion;
  std::string job;
  Rank rank;
  int size = 0;
  std::string build;
  std::string host;
  std::uint64_t host_id = 0;
  std::int32_t pid = 0;
  std::uint16_t port = 0;  // where it listens for its peers
  bool operator==(const JoinRequest&) const = default;
};
/// "rank 3 (process 4711 on n1)"
[[nodiscard]] std::string who(const JoinRequest& request);

/// The ranks that have not joined yet.
struct Waiting {
  RankSet missing;
  bool operator==(const Waiting&) const = default;
};
/// The rank is refused, or the rendezvous has failed for all, and this is why.
struct TurnedAway {
  Code code = Code::Internal;
  std::string message;
  bool operator==(const TurnedAway&) const = default;
};
/// Where to find a rank of the job.
struct Peer {
  Endpoint listens;
  std::string host;
  std::uint64_t host_id = 0;
  std::int32_t pid = 0;
  bool operator==(const Peer&) const = default;
};
/// A part of the roster, sent once all have joined: peers from rank `first` on. The last part ends
/// with rank `size - 1`.
struct RosterPart {
  static constexpr std::size_t kMostPeers = 256;
  RendezvousId id{};
  std::uint32_t first = 0;
  std::vector<Peer> peers;
  bool operator==(const RosterPart&) const = default;
};
/// First message of each side on a connection between two peers.
struct Introduction {
  RendezvousId id{};
  Rank rank;
  std::uint64_t attempt = 0;   // connections that this side has begun to open to the other
  std::uint64_t received = 0;  // messages that this side has received from the other
  bool operator==(const Introduction&) const = default;
};
/// A piece of a message of a group. Parts are numbered, and sent again after a connection breaks.
struct Part {
  static constexpr std::size_t kMostBytes = 60 * 1024;
  /// Control messages of one fixed length and of any other, data, the opening of a host's board,
  /// the round in which all leave. Each kind is a line of its own and holds up no other; Bare and
  /// Payload share one. Farewell: the rank is done, the end of its process is no loss.
  enum class Kind : std::uint8_t { Bare, Payload, Data, Board, Leave, Farewell };
  std::uint64_t group = 0;
  Kind kind = Kind::Bare;
  std::uint64_t total = 0;   // bytes in the whole message
  std::uint64_t number = 0;  // see Association::Stamp
  std::uint64_t received = 0;
  Bytes bytes;
  bool operator==(const Part&) const = default;
};
/// Acknowledges received messages when nothing else is going out. In the rendezvous: acknowledges
/// the roster.
struct Acknowledgement {
  std::uint64_t received = 0;
  bool operator==(const Acknowledgement&) const = default;
};
/// The job is over, and this is why. A rank that receives it ends with it.
struct Verdict {
  Status status;
  bool operator==(const Verdict&) const = default;
};

/// A rank's slot of the progress board, for hosts that do not share it. Sent by that rank or passed
/// on; times are durations.
struct RankProgress {
  Rank rank{};
  RankState state;  // progress, beat: time since then; lease: time left
  std::vector<Board::Begun> begun;
  bool operator==(const RankProgress& other) const;
};

/// From rank 0 to a rank that has joined: the parent from which it gets the roster.
struct WaitAt {
  Endpoint parent;
  bool operator==(const WaitAt&) const = default;
};
/// From a rank to its parent, and on to rank 0: `rank` waits with the sender or below it, or
/// (not `here`) has waited there and is gone.
struct Presence {
  Rank rank;
  bool here = true;
  bool operator==(const Presence&) const = default;
};

/// In the order of their wire types, from kFirstSealedType on.
using TcpMessage = std::variant<JoinRequest, Waiting, TurnedAway, RosterPart, Introduction, Part,
                                Acknowledgement, Verdict, RankProgress, WaitAt, Presence>;

[[nodiscard]] std::uint8_t type_of(const TcpMessage& message);
/// Texts that are too long are cut, and so is the table of a verdict.
[[nodiscard]] Bytes encode(const TcpMessage& message);
/// nullopt: an unknown type, or a payload that does not fit it.
[[nodiscard]] std::optional<TcpMessage> decode_tcp(const SealedMessage& sealed);

}  // namespace lockstep::collectives
