#include <limits>
#include <utility>

#include <lockstep/worker/controller/speech/field_bytes.h>
#include <lockstep/worker/controller/speech/reply.h>

namespace lockstep::worker {
namespace {

void write(ByteWriter& out, const Held& x) {
  out.u32(x.workers);
  out.u64(x.calls);
  put(out, x.next);
  out.u32(static_cast<std::uint32_t>(x.frames.size()));
  for (const HeldFrame& frame : x.frames) out.text(frame.name), out.text(frame.digest);
  out.u32(static_cast<std::uint32_t>(x.tensors.size()));
  for (const HeldTensor& tensor : x.tensors) {
    put(out, tensor.handle);
    out.text(tensor.label);
    out.u8(static_cast<std::uint8_t>(tensor.dtype));
  }
}
void write(ByteWriter& out, const Refused& x) { put(out, x.why); }
void write(ByteWriter&, const Alive&) {}
void write(ByteWriter& out, const Progress& x) { out.u64(x.done); }
void write(ByteWriter& out, const Failed& x) { put(out, x.why); }
void write(ByteWriter& out, const TraceAsked& x) {
  out.u64(x.number);
  put(out, x.frame);
  out.text(x.decision);
  put(out, x.seen);
  out.u32(static_cast<std::uint32_t>(x.answers.size()));
  for (const bool answer : x.answers) out.u8(answer ? 1 : 0);
  out.u32(x.workers);
  out.u8(x.specialize_float ? 1 : 0);
  out.u8(static_cast<std::uint8_t>(x.low_precision));
}
void write(ByteWriter& out, const Called& x) {
  out.u64(x.call);
  out.i64(x.entry.value_or(-1));
  out.u32(static_cast<std::uint32_t>(x.outputs.size()));
  for (const std::string& name : x.outputs) out.text(name);
  out.u8(x.traced ? 1 : 0);
  if (x.traced) write(out, *x.traced);
  out.u64(x.graph.high);
  out.u64(x.graph.low);
}
void write(ByteWriter& out, const TensorAnswer& x) {
  out.u64(x.question);
  put(out, x.failure);
  if (!x.failure) put(out, x.tensor);
}
void write(ByteWriter& out, const SizesAnswer& x) {
  out.u64(x.question);
  put(out, x.failure);
  out.u8(static_cast<std::uint8_t>(x.dtype));
  out.u32(static_cast<std::uint32_t>(x.sizes.size()));
  for (const auto& sizes : x.sizes) put(out, sizes);
}
void write(ByteWriter& out, const Done& x) { out.u64(x.question); }
void write(ByteWriter& out, const Verdict& x) { put(out, x.why); }

void read(FieldReader& in, Held& x) {
  x.workers = static_cast<std::uint32_t>(in.rank().value);
  x.calls = in.u64();
  x.next = in.handle();
  for (std::uint32_t left = in.count(8); left > 0 && in.sound(); --left) {
    HeldFrame& frame = x.frames.emplace_back();
    frame.name = in.text(), frame.digest = in.text();
  }
  for (std::uint32_t left = in.count(13); left > 0 && in.sound(); --left) {
    HeldTensor& tensor = x.tensors.emplace_back();
    tensor.handle = in.handle(), tensor.label = in.text(), tensor.dtype = in.dtype();
  }
}
void read(FieldReader& in, Refused& x) { x.why = in.status(); }
void read(FieldReader&, Alive&) {}
void read(FieldReader& in, Progress& x) { x.done = in.u64(); }
void read(FieldReader& in, Failed& x) { x.why = in.status(); }
void read(FieldReader& in, TraceAsked& x) {
  x.number = in.u64();
  x.frame = in.frame();
  x.decision = in.text();
  x.seen = in.seen();
  for (std::uint32_t left = in.count(1); left > 0 && in.sound(); --left)
    x.answers.push_back(in.flag());
  x.workers = static_cast<std::uint32_t>(in.rank().value);
  x.specialize_float = in.flag();
  x.low_precision = in.dtype();
}
void read(FieldReader& in, Called& x) {
  x.call = in.u64();
  const std::int64_t entry = in.i64();
  if (entry >= 0 && entry <= std::numeric_limits<int>::max()) x.entry = static_cast<int>(entry);
  for (std::uint32_t left = in.count(4); left > 0 && in.sound(); --left)
    x.outputs.push_back(in.text());
  if (in.flag()) read(in, x.traced.emplace());
  x.graph.high = in.u64();
  x.graph.low = in.u64();
}
void read(FieldReader& in, TensorAnswer& x) {
  x.question = in.u64(), x.failure = in.status_if_any();
  if (!x.failure) x.tensor = in.tensor();
}
void read(FieldReader& in, SizesAnswer& x) {
  x.question = in.u64(), x.failure = in.status_if_any(), x.dtype = in.dtype();
  for (std::uint32_t left = in.count(4); left > 0 && in.sound(); --left)
    x.sizes.push_back(in.numbers());
}
void read(FieldReader& in, Done& x) { x.question = in.u64(); }
void read(FieldReader& in, Verdict& x) { x.why = in.status(); }

/// The reply with this number of a type.
template <std::size_t kType = 0>
std::optional<Reply> reply_of(std::size_t type, FieldReader& in) {
  if constexpr (kType < std::variant_size_v<Reply>) {
    if (type != kType) return reply_of<kType + 1>(type, in);
    std::variant_alternative_t<kType, Reply> out;
    read(in, out);
    return Reply(std::move(out));
  } else {
    return std::nullopt;
  }
}

}  // namespace

Bytes encode(const Reply& reply) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(reply.index()));
  std::visit([&out](const auto& x) { write(out, x); }, reply);
  return std::move(out).take();
}

std::optional<Reply> decode_reply(std::span<const std::byte> bytes) {
  FieldReader in(bytes);
  const std::uint8_t type = in.u8();
  auto out = reply_of(type, in);
  return in.whole() ? std::move(out) : std::nullopt;
}

}  // namespace lockstep::worker
