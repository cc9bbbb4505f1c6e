// Messages between the processes of a job over TCP, under a key of sealed_session.h, and their
// encoding. Decoding trusts nothing: it limits texts and lists, and checks that values are in range
// and no byte is left over. Used by the TCP backend and its tests.
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
  std::uint16_t port = 0;  // port at which it listens for its peers
  bool operator==(const JoinRequest&) const = default;
};
/// "rank 3 (process 4711 on n1)"
[[nodiscard]] std::string who(const JoinRequest& request);

/// The ranks that have not joined yet.
struct Waiting {
  RankSet missing;
  bool operator==(const Waiting&) const = default;
};
/// Says why the rank is refused, or why the rendezvous has failed for all.
struct JoinRefused {
  Code code = Code::Internal;
  std::string message;
  bool operator==(const JoinRefused&) const = default;
};
/// Where to find a rank of the job.
struct Peer {
  Endpoint listens;
  std::string host;
  std::uint64_t host_id = 0;
  std::int32_t pid = 0;
  bool operator==(const Peer&) const = default;
};
/// A part of the roster, sent once all have joined: the peers from rank `first` on. The last part
/// ends with rank size-1.
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
  std::uint64_t attempt = 0;   // number of connections to the other side that this side has tried
  std::uint64_t received = 0;  // number of messages that this side has received from the other
  bool operator==(const Introduction&) const = default;
};
/// A piece of a message of a group. Parts are numbered, and sent again after a connection breaks.
struct Part {
  static constexpr std::size_t kMostBytes = 60 * 1024;
  /// Bare: a control message of one fixed length. Payload: any other control message. Data: rows of
  /// a collective. Board: sent while a host's board is opened. Leave: sent in the round in which
  /// all ranks leave. Farewell: the rank is done, and the end of its process is not a loss. Each
  /// kind is a line of its own and does not hold up the others; only Bare and Payload share a line.
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
/// Ends the job, and says why. A rank that receives it ends with this status.
struct Verdict {
  Status status;
  bool operator==(const Verdict&) const = default;
};

/// A rank's slot of the progress board, for hosts that do not share it. Sent by a host's speaker
/// (tcp_carrier.h) or passed on by others. Times are durations.
struct RankProgress {
  Rank rank{};
  RankState state;  // progress, beat: time since these; lease: time left
  std::vector<Board::Begun> begun;
  bool operator==(const RankProgress& other) const;
};

/// From rank 0 to a rank that has joined: the parent with which the rank is to wait for the roster.
struct WaitAt {
  Endpoint parent;
  bool operator==(const WaitAt&) const = default;
};
/// From a rank to its parent, and on to rank 0: `rank` waits with the sender or below it. If `here`
/// is false: `rank` waited there and is gone.
struct Presence {
  Rank rank;
  bool here = true;
  bool operator==(const Presence&) const = default;
};

/// All messages, in the order of their wire types, which begin with kFirstSealedType.
using TcpMessage = std::variant<JoinRequest, Waiting, JoinRefused, RosterPart, Introduction, Part,
                                Acknowledgement, Verdict, RankProgress, WaitAt, Presence>;

[[nodiscard]] std::uint8_t type_of(const TcpMessage& message);
/// Cuts texts and tables of verdicts that are too long.
[[nodiscard]] Bytes encode(const TcpMessage& message);
/// nullopt: an unknown type, or a payload that does not fit it.
[[nodiscard]] std::optional<TcpMessage> decode_tcp(const SealedMessage& sealed);

}  // namespace lockstep::collectives
