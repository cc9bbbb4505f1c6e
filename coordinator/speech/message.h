// What is said under a key, and its bytes. Reading takes nothing on trust: texts and lists are
// capped, enumerators and spans of time in range, no byte left over; characters that could steer a
// terminal are replaced.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/wire/sealed_message.h>
#include <lockstep/coordinator/speech/call_event.h>
#include <lockstep/coordinator/speech/report.h>

namespace lockstep::coordinator {

/// A rank to the coordinator, once: this connection speaks for it.
struct Join {
  Identity identity;
  bool operator==(const Join&) const = default;
};
/// An observer asks for the status document.
struct StatusRequest {
  bool every_rank = false;  // the dump of all ranks instead
  bool operator==(const StatusRequest&) const = default;
};
/// The rank is a member.
struct Joined {
  bool operator==(const Joined&) const = default;
};
/// It is not, and this is why. The connection is closed.
struct Refused {
  Code code = Code::Internal;
  std::string message;
  bool operator==(const Refused&) const = default;
};
/// The next piece of the status document.
struct StatusPart {
  static constexpr std::size_t kMostBytes = 60 * 1024;
  bool last = false;
  std::string text;
  bool operator==(const StatusPart&) const = default;
};

/// The coordinator asks this rank for the text of a graph that it told of.
struct GraphWanted {
  shapes::Fingerprint graph{};
  bool operator==(const GraphWanted&) const = default;
};
/// What is wrong with the job, past the time to act on it. It is said again while it holds; a rank
/// that waits then ends the job with it.
struct Verdict {
  Code code = Code::Internal;
  std::string message;
  bool operator==(const Verdict&) const = default;
};

/// A rank to the coordinator: its watchdog ends the job with this. It is noted at once, and the
/// rank is told so: the process, which may host the coordinator, is about to be gone.
struct Ending {
  Code code = Code::Internal;
  std::string message;
  bool operator==(const Ending&) const = default;
};
struct Noted {
  bool operator==(const Noted&) const = default;
};

/// Their frames' types.
enum class MessageType : std::uint8_t {
  // A rank or an observer to the coordinator:
  Join = collectives::kFirstSealedType,
  Slot,
  StatusRequest,
  Call,
  GraphText,
  Configuration,
  Ending,
  // and the coordinator to them:
  Joined = 32,
  Refused,
  StatusPart,
  GraphWanted,
  Verdict,
  Noted,
};

using Message =
    std::variant<Join, Report, CallEvent, GraphText, Configuration, StatusRequest, Ending, Joined,
                 Refused, StatusPart, GraphWanted, Verdict, Noted>;

[[nodiscard]] MessageType type_of(const Message& message);
/// Texts that are too long are cut.
[[nodiscard]] Bytes encode(const Message& message);
/// nullopt: no such type, or no payload of it.
[[nodiscard]] std::optional<Message> decode(const collectives::SealedMessage& sealed);

}  // namespace lockstep::coordinator
