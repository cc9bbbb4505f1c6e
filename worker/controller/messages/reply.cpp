#include <limits>

#include <lockstep/worker/controller/messages/field_bytes.h>
#include <lockstep/worker/controller/messages/reply.h>

namespace lockstep::worker {

void fields(auto& visit, Of<HeldFrame> auto& frame) {
  visit.bytes(frame.name);
  visit.bytes(frame.digest);
}

void fields(auto& visit, Of<HeldTensor> auto& tensor) {
  visit.number(tensor.handle);
  visit.bytes(tensor.label);
  visit.kind(tensor.dtype, DType::F64);
}

void fields(auto& visit, Of<Held> auto& x) {
  visit.below(x.workers, kAnyRank);
  visit.number(x.calls);
  visit.number(x.next);
  visit.list(x.frames, kAnyLength, 8, kStruct);
  visit.list(x.tensors, kAnyLength, 13, kStruct);
}

void fields(auto& visit, Of<Refused> auto& x) { kStatus(visit, x.why); }
void fields(auto& /*visit*/, Of<Alive> auto& /*x*/) {}
void fields(auto& visit, Of<CommandsDone> auto& x) { visit.number(x.done); }
void fields(auto& visit, Of<Failed> auto& x) { kStatus(visit, x.why); }

void fields(auto& visit, Of<TraceRequest> auto& x) {
  visit.number(x.number);
  visit.number(x.frame);
  visit.bytes(x.decision);
  fields(visit, x.seen);
  visit.list(x.answers, kAnyLength, 1,
             [](auto& flag_visit, auto& answer) { flag_visit.flag(answer); });
  visit.below(x.workers, kAnyRank);
  visit.flag(x.specialize_float);
  visit.kind(x.low_precision, DType::F64);
}

void fields(auto& visit, Of<Called> auto& x) {
  visit.number(x.call);
  std::int64_t entry = x.entry.value_or(-1);
  visit.number(entry);
  if constexpr (collectives::Reads<decltype(visit)>)
    if (entry >= 0 && entry <= std::numeric_limits<int>::max()) x.entry = static_cast<int>(entry);
  visit.list(x.outputs, kAnyLength, 4, kText);
  visit.optional(x.traced, kStruct);
  visit.number(x.graph.high);
  visit.number(x.graph.low);
}

void fields(auto& visit, Of<TensorAnswer> auto& x) {
  visit.number(x.question);
  visit.optional(x.failure, kStatus);
  if (!x.failure) fields(visit, x.tensor);
}

void fields(auto& visit, Of<SizesAnswer> auto& x) {
  visit.number(x.question);
  visit.optional(x.failure, kStatus);
  visit.kind(x.dtype, DType::F64);
  visit.list(x.sizes, kAnyLength, 4, kNumbers);
}

void fields(auto& visit, Of<Done> auto& x) { visit.number(x.question); }
void fields(auto& visit, Of<Verdict> auto& x) { kStatus(visit, x.why); }

Bytes encode(const Reply& reply) { return encode_message(reply); }

std::optional<Reply> decode_reply(std::span<const std::byte> bytes) {
  return decode_message<Reply>(bytes);
}

}  // namespace lockstep::worker
