#include <utility>

#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/controller/messages/command.h>
#include <lockstep/worker/controller/messages/field_bytes.h>

namespace lockstep::worker {

void fields(auto& visit, Of<Hello> auto& x) { visit.number(x.version); }

void fields(auto& visit, Of<PutTensor> auto& x) {
  visit.number(x.handle);
  visit.bytes(x.label);
  visit.optional(x.only, [](auto& only_visit, auto& rank) { only_visit.rank(rank); });
  fields(visit, x.tensor);
}

void fields(auto& visit, Of<ReadTensors> auto& x) {
  visit.bytes(x.path);
  visit.list(x.tensors, kAnyLength, 12, [](auto& pair_visit, auto& named) {
    pair_visit.bytes(named.first);
    pair_visit.number(named.second);
  });
}

void fields(auto& visit, Of<ShipProgram> auto& x) {
  visit.bytes(x.digest);
  visit.bytes(x.program);
}

void fields(auto& visit, Of<LoadFrame> auto& x) {
  visit.number(x.frame);
  visit.bytes(x.digest);
  visit.bytes(x.from);
}

void fields(auto& visit, Of<MakeFrame> auto& x) {
  visit.number(x.frame);
  visit.bytes(x.name);
}

void fields(auto& visit, Of<CallInput> auto& x) {
  visit.bytes(x.name);
  visit.kind(x.kind, Kind::Bool);
  if (x.kind != Kind::Tensor) {
    visit.number(x.number);
    if constexpr (collectives::Reads<decltype(visit)>)
      if (x.kind == Kind::Bool) x.number = x.number != 0;
    return;
  }
  visit.number(x.tensor);
  visit.flag(x.moved);
  visit.list(x.marks, kAnyLength, 1, [](auto& mark_visit, auto& mark) {
    mark_visit.kind(mark, static_cast<Mark>(kMarkCount - 1));
  });
}

void fields(auto& visit, Of<CallFrame> auto& x) {
  visit.number(x.frame);
  visit.number(x.call);
  visit.number(x.first);
  visit.number(x.room);
  visit.number(x.names);
  visit.flag(x.tell);
  visit.list(x.inputs, kAnyLength, 13, kStruct);
}

void fields(auto& visit, Of<DropHandles> auto& x) { visit.list(x.handles, kAnyLength, 8, kNumber); }

void fields(auto& visit, Of<FetchTensor> auto& x) {
  visit.number(x.question);
  visit.number(x.handle);
  visit.rank(x.worker);
}

void fields(auto& visit, Of<AskSizes> auto& x) {
  visit.number(x.question);
  visit.number(x.handle);
}

void fields(auto& visit, Of<Settle> auto& x) { visit.number(x.question); }
void fields(auto& visit, Of<Finish> auto& x) { visit.number(x.question); }
void fields(auto& visit, Of<EndJob> auto& x) { kStatus(visit, x.why); }

void fields(auto& visit, Of<TraceAnswer> auto& x) {
  visit.number(x.number);
  visit.optional(x.failure, kStatus);
  visit.bytes(x.program);
  visit.bytes(x.question);
}

std::string_view command_name(const Command& command) {
  constexpr std::string_view kNames[] = {"a greeting",
                                         "a tensor",
                                         "tensors of a file",
                                         "a program",
                                         "a loaded frame",
                                         "a frame",
                                         "the call of a frame",
                                         "handles to be dropped",
                                         "a question for a tensor",
                                         "a question for sizes",
                                         "a question for progress",
                                         "the end",
                                         "the end by an error",
                                         "a trace"};
  static_assert(std::size(kNames) == std::variant_size_v<Command>);
  return kNames[command.index()];
}

Bytes encode(const Command& command) { return encode_message(command); }

std::optional<Command> decode_command(std::span<const std::byte> bytes) {
  return decode_message<Command>(bytes);
}

std::optional<std::uint32_t> greeted_version(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const std::uint8_t type = in.u8();
  const std::uint32_t version = in.u32();
  return in.ok() && type == 0 ? std::optional(version) : std::nullopt;
}

std::uint64_t names_digest(std::span<const std::string> names) {
  ByteWriter out;
  for (const std::string& name : names) out.text(name);
  const std::span<const std::byte> bytes = out.view();
  const std::uint64_t digest =
      shapes::fingerprint({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).low;
  return digest == 0 ? 1 : digest;
}

}  // namespace lockstep::worker
