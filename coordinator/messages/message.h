// The messages that are sent under a seal, and their bytes. Decoding trusts nothing. It checks
// lengths of texts and lists, ranges of enumerators and times, and that no byte is left over. It
// replaces control characters.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/wire/sealed_message.h>
#include <lockstep/coordinator/messages/call_event.h>
#include <lockstep/coordinator/messages/slot_report.h>

namespace lockstep::coordinator {

/// From a rank, once: says that this connection belongs to the rank.
struct Join {
  Identity identity;
  bool operator==(const Join&) const = default;
};
/// From an observer: a request for the status document.
struct StatusRequest {
  bool every_rank = false;  // true: the dump document instead
  bool operator==(const StatusRequest&) const = default;
};
/// To a rank: says that it is a member.
struct Joined {
  bool operator==(const Joined&) const = default;
};
/// To a rank: says why it is not a member. Then the connection is closed.
struct Refused {
  Code code = Code::Internal;
  std::string message;
  bool operator==(const Refused&) const = default;
};
/// To an observer: the next piece of the document.
struct StatusPart {
  static constexpr std::size_t kMostBytes = 60 * 1024;
  bool last = false;
  std::string text;
  bool operator==(const StatusPart&) const = default;
};

/// To a rank: a request for the text of a graph that it reported.
struct GraphWanted {
  shapes::Fingerprint graph{};
  bool operator==(const GraphWanted&) const = default;
};
/// To all ranks: the verdict that ends the job. It is repeated while it holds. A rank that has
/// waited in one operation for a second ends the job with it.
struct JobVerdict {
  Code code = Code::Internal;
  std::string message;
  bool operator==(const JobVerdict&) const = default;
};

/// From a rank: says that its watchdog ends the job with this error. The coordinator records the
/// error at once and answers Noted, because the rank's process, which may host the coordinator, is
/// about to exit.
struct Ending {
  Code code = Code::Internal;
  std::string message;
  bool operator==(const Ending&) const = default;
};
/// To a rank: says that its Ending is recorded.
struct Noted {
  bool operator==(const Noted&) const = default;
};

/// The type of a message on the wire.
enum class MessageType : std::uint8_t {
  // From a rank or an observer:
  Join = collectives::kFirstSealedType,
  Slot,
  StatusRequest,
  Call,
  GraphText,
  Configuration,
  Ending,
  // From the coordinator:
  Joined = 32,
  Refused,
  StatusPart,
  GraphWanted,
  Verdict,
  Noted,
};

using Message = std::variant<Join, SlotReport, CallEvent, GraphText, Configuration, StatusRequest,
                             Ending, Joined, Refused, StatusPart, GraphWanted, JobVerdict, Noted>;

[[nodiscard]] MessageType type_of(const Message& message);
/// Cuts texts that are too long.
[[nodiscard]] Bytes encode(const Message& message);
/// nullopt: an unknown type, or an invalid payload.
[[nodiscard]] std::optional<Message> decode(const collectives::SealedMessage& sealed);

}  // namespace lockstep::coordinator
