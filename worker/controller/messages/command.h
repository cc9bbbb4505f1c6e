// The commands of a controller to its workers. Every worker does all commands in the order in which
// the controller gave them; worker 0 passes them on. Decoding trusts nothing: it checks lengths,
// enumerators and sizes, and that no byte is left over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/rank.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/agree/exchange/observation.h>
#include <lockstep/worker/controller/messages/numbers.h>
#include <lockstep/worker/controller/messages/tensor_bytes.h>

namespace lockstep::worker {

/// Version of the messages between a controller and its workers. Another version is refused.
inline constexpr std::uint32_t kControllerVersion = 1;
/// First line of worker 0's address file. The file also holds the secret, unless the secret is
/// configured on both sides.
inline constexpr std::string_view kWorkersFile = "lockstep.workers/1";
/// Longest message, in either direction.
inline constexpr std::size_t kMostMessageBytes = std::size_t{1} << 29;
/// Most outputs of one call.
inline constexpr std::uint32_t kMostOutputs = 1U << 20;

/// The first message of a connection.
struct Hello {
  std::uint32_t version = kControllerVersion;
  bool operator==(const Hello&) const = default;
};
/// A tensor for all workers, or for worker `only`. In the second case there is one command per
/// worker.
struct PutTensor {
  Handle handle{};
  std::string label;  // shown to a later controller
  std::optional<Rank> only;
  TensorBytes tensor;
  bool operator==(const PutTensor&) const = default;
};
/// Tensors of a safetensors file; "{rank}" in the path is the worker's number.
struct ReadTensors {
  std::string path;
  std::vector<std::pair<std::string, Handle>> tensors;  // by name
  bool operator==(const ReadTensors&) const = default;
};
/// A saved program, kept under its digest for LoadFrame.
struct ShipProgram {
  std::string digest;
  std::string program;  // SavedProgram, encoded
  bool operator==(const ShipProgram&) const = default;
};
/// A frame of a program that was shipped. `from`: the path at which the controller read it, for
/// messages.
struct LoadFrame {
  FrameNumber frame{};
  std::string digest, from;
  bool operator==(const LoadFrame&) const = default;
};
/// A frame whose function the controller has and traces.
struct MakeFrame {
  FrameNumber frame{};
  std::string name;
  bool operator==(const MakeFrame&) const = default;
};
/// One input of a call: a tensor of the workers, or the bits of a number.
struct CallInput {
  std::string name;  // name of the source
  Kind kind = Kind::Tensor;
  Handle tensor{};
  bool moved = false;       // the workers drop it during the run
  std::int64_t number = 0;  // an int, a bool, the bits of a float
  std::vector<Mark> marks;  // marks of a tensor's dims; empty: none
  bool operator==(const CallInput&) const = default;
};
struct CallFrame {
  FrameNumber frame{};
  std::uint64_t call = 0;   // number among the controller's calls of all frames
  Handle first{};           // first handle of the outputs, in the order of the program
  std::uint32_t room = 0;   // number of handles reserved for outputs
  std::uint64_t names = 0;  // names_digest() of the outputs that the controller expects; 0: any
  bool tell = false;        // true: the controller waits for Called
  std::vector<CallInput> inputs;
  bool operator==(const CallFrame&) const = default;
};
struct DropHandles {
  std::vector<Handle> handles;
  bool operator==(const DropHandles&) const = default;
};
/// Asks for the tensor of one worker.
struct FetchTensor {
  std::uint64_t question = 0;
  Handle handle{};
  Rank worker{};
  bool operator==(const FetchTensor&) const = default;
};
/// Asks for dtype and sizes of a tensor on every worker.
struct AskSizes {
  std::uint64_t question = 0;
  Handle handle{};
  bool operator==(const AskSizes&) const = default;
};
/// Asks for the reply Done once all commands before it are done.
struct Settle {
  std::uint64_t question = 0;
  bool operator==(const Settle&) const = default;
};
/// Ends the job as planned.
struct Finish {
  std::uint64_t question = 0;
  bool operator==(const Finish&) const = default;
};
/// Ends the job with this error. Only worker 0 may send it, to the other workers.
struct EndJob {
  Status why;
  bool operator==(const EndJob&) const = default;
};
/// The answer to TraceRequest: one entry as a saved program, the reason why there is none, or the
/// trace's question to all workers, which then ask for the trace again. Not ordered with other
/// commands: the workers wait for it within a call.
struct TraceAnswer {
  std::uint64_t number = 0;  // TraceRequest::number
  std::optional<Status> failure;
  std::string program;
  std::string question;  // encode_question
  bool operator==(const TraceAnswer&) const = default;
};

using Command =
    std::variant<Hello, PutTensor, ReadTensors, ShipProgram, LoadFrame, MakeFrame, CallFrame,
                 DropHandles, FetchTensor, AskSizes, Settle, Finish, EndJob, TraceAnswer>;

/// The command as users see it: "the call of a frame".
[[nodiscard]] std::string_view command_name(const Command& command);
[[nodiscard]] Bytes encode(const Command& command);
/// Returns nullopt unless the bytes are a command of this version.
[[nodiscard]] std::optional<Command> decode_command(std::span<const std::byte> bytes);

/// Returns the version in a Hello of any version; nullopt if the bytes are not a Hello.
[[nodiscard]] std::optional<std::uint32_t> greeted_version(std::span<const std::byte> bytes);

/// Digest of the names of outputs in order; never 0.
[[nodiscard]] std::uint64_t names_digest(std::span<const std::string> names);

}  // namespace lockstep::worker
