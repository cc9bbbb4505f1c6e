// The messages of worker 0 to the controller. Decoded as commands are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/controller/messages/command.h>

namespace lockstep::worker {

/// A tensor of the workers, as listed for a new controller.
struct HeldTensor {
  Handle handle{};
  std::string label;
  DType dtype = DType::F32;  // on all workers
  bool operator==(const HeldTensor&) const = default;
};
struct HeldFrame {
  std::string name;
  std::string digest;  // digest of its program; empty: the controller traces its function
  bool operator==(const HeldFrame&) const = default;
};
/// The answer to Hello: what the workers hold.
struct Held {
  std::uint32_t workers = 1;
  std::uint64_t calls = 0;          // made so far
  Handle next{};                    // lowest handle never assigned
  std::vector<HeldFrame> frames;    // by number
  std::vector<HeldTensor> tensors;  // by handle
  bool operator==(const Held&) const = default;
};
/// Answer to Hello instead of Held: there is another controller, or this one speaks another
/// version.
struct Refused {
  Status why;
  bool operator==(const Refused&) const = default;
};
/// Sent at intervals: worker 0 is alive, even if it is busy.
struct Alive {
  bool operator==(const Alive&) const = default;
};
/// Number of this controller's commands that are done, not counting Hello.
struct CommandsDone {
  std::uint64_t done = 0;
  bool operator==(const CommandsDone&) const = default;
};
/// A command has failed on all workers. Its results do not exist.
struct Failed {
  Status why;
  bool operator==(const Failed&) const = default;
};
/// No entry of the frame serves a call: the controller must trace the function under this decision.
struct TraceRequest {
  std::uint64_t number = 0;  // number of the request
  FrameNumber frame{};
  std::string decision;       // an entry without guards, as records keep it (encode_starts)
  Observation seen;           // worker 0's observation, with the floats for branches
  std::vector<bool> answers;  // results of votes on the trace's questions so far
  std::uint32_t workers = 1;
  bool specialize_float = false;
  DType low_precision = DType::BF16;
};
/// A call that the controller waits for has run, or has failed (Failed was sent before).
struct Called {
  std::uint64_t call = 0;
  std::optional<int> entry;          // number in its frame; nullopt: interpreted, or failed
  std::vector<std::string> outputs;  // names, in order
  /// How the entry was traced, and its graph's fingerprint, for a controller that did not trace it.
  std::optional<TraceRequest> traced;
  shapes::Fingerprint graph;
};
struct TensorAnswer {
  std::uint64_t question = 0;
  std::optional<Status> failure;
  TensorBytes tensor;
  bool operator==(const TensorAnswer&) const = default;
};
struct SizesAnswer {
  std::uint64_t question = 0;
  std::optional<Status> failure;
  DType dtype = DType::F32;
  std::vector<std::vector<std::int64_t>> sizes;  // by worker
  bool operator==(const SizesAnswer&) const = default;
};
/// Answer to Settle and Finish.
struct Done {
  std::uint64_t question = 0;
  bool operator==(const Done&) const = default;
};
/// The job of the workers ends with this error.
struct Verdict {
  Status why;
  bool operator==(const Verdict&) const = default;
};

using Reply = std::variant<Held, Refused, Alive, CommandsDone, Failed, Called, TraceRequest,
                           TensorAnswer, SizesAnswer, Done, Verdict>;

[[nodiscard]] Bytes encode(const Reply& reply);
/// Returns nullopt unless the bytes are a reply of this version.
[[nodiscard]] std::optional<Reply> decode_reply(std::span<const std::byte> bytes);

}  // namespace lockstep::worker
