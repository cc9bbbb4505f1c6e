// What worker 0 tells the controller. Decoded as commands are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/controller/speech/command.h>

namespace lockstep::worker {

/// A tensor of the workers as a new controller finds it.
struct HeldTensor {
  Handle handle{};
  std::string label;
  DType dtype = DType::F32;  // of all workers
  bool operator==(const HeldTensor&) const = default;
};
struct HeldFrame {
  std::string name;
  std::string digest;  // of the program that it was loaded from; empty: its function is traced
  bool operator==(const HeldFrame&) const = default;
};
/// The answer to Hello: what the workers have.
struct Held {
  std::uint32_t workers = 1;
  std::uint64_t calls = 0;          // made so far
  Handle next{};                    // the lowest handle that was never given out
  std::vector<HeldFrame> frames;    // by number
  std::vector<HeldTensor> tensors;  // by handle
  bool operator==(const Held&) const = default;
};
/// In place of it: there is another controller, or this one speaks another version.
struct Refused {
  Status why;
  bool operator==(const Refused&) const = default;
};
/// Worker 0 is there, whatever it does.
struct Alive {
  bool operator==(const Alive&) const = default;
};
/// So many commands of this controller are done, Hello not counted.
struct Progress {
  std::uint64_t done = 0;
  bool operator==(const Progress&) const = default;
};
/// A command has failed on all workers. What it was to make does not exist.
struct Failed {
  Status why;
  bool operator==(const Failed&) const = default;
};
/// No entry of the frame serves a call: the controller is to trace the function under this
/// decision.
struct TraceAsked {
  std::uint64_t number = 0;  // of the question
  FrameNumber frame{};
  std::string decision;       // an entry without guards, as records keep it (encode_starts)
  Observation seen;           // of worker 0: what branches on floats go by
  std::vector<bool> answers;  // of all workers, to what the trace has asked them so far
  std::uint32_t workers = 1;
  bool specialize_float = false;
  DType low_precision = DType::BF16;
};
/// A call that the controller waits for has run, or has failed (which Failed said before).
struct Called {
  std::uint64_t call = 0;
  std::optional<int> entry;          // of its frame; nullopt: it was interpreted, or failed
  std::vector<std::string> outputs;  // names, in order
  /// How the entry was traced, and what came of it, for a controller that did not trace it itself.
  std::optional<TraceAsked> traced;
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
/// To Settle and Finish.
struct Done {
  std::uint64_t question = 0;
  bool operator==(const Done&) const = default;
};
/// The job of the workers ends with this error.
struct Verdict {
  Status why;
  bool operator==(const Verdict&) const = default;
};

using Reply = std::variant<Held, Refused, Alive, Progress, Failed, Called, TraceAsked, TensorAnswer,
                           SizesAnswer, Done, Verdict>;

[[nodiscard]] Bytes encode(const Reply& reply);
/// nullopt: no reply of this version.
[[nodiscard]] std::optional<Reply> decode_reply(std::span<const std::byte> bytes);

}  // namespace lockstep::worker
