#include <utility>

#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/controller/speech/command.h>
#include <lockstep/worker/controller/speech/field_bytes.h>

namespace lockstep::worker {
namespace {

/// Writes the fields of one command.
class CommandWriter {
 public:
  void operator()(const Hello& x) { out_.u32(x.version); }
  void operator()(const PutTensor& x) {
    put(out_, x.handle);
    out_.text(x.label);
    out_.u8(x.only ? 1 : 0);
    if (x.only) out_.u32(static_cast<std::uint32_t>(x.only->value));
    put(out_, x.tensor);
  }
  void operator()(const ReadTensors& x) {
    out_.text(x.path);
    out_.u32(static_cast<std::uint32_t>(x.tensors.size()));
    for (const auto& [name, handle] : x.tensors) out_.text(name), put(out_, handle);
  }
  void operator()(const ShipProgram& x) { out_.text(x.digest), out_.text(x.program); }
  void operator()(const LoadFrame& x) {
    put(out_, x.frame), out_.text(x.digest), out_.text(x.from);
  }
  void operator()(const MakeFrame& x) { put(out_, x.frame), out_.text(x.name); }
  void operator()(const CallFrame& x) {
    put(out_, x.frame);
    out_.u64(x.call);
    put(out_, x.first);
    out_.u32(x.room);
    out_.u64(x.names);
    out_.u8(x.tell ? 1 : 0);
    out_.u32(static_cast<std::uint32_t>(x.inputs.size()));
    for (const CallInput& input : x.inputs) put_input(input);
  }
  void operator()(const DropHandles& x) {
    out_.u32(static_cast<std::uint32_t>(x.handles.size()));
    for (const Handle handle : x.handles) put(out_, handle);
  }
  void operator()(const FetchTensor& x) {
    out_.u64(x.question);
    put(out_, x.handle);
    out_.u32(static_cast<std::uint32_t>(x.worker.value));
  }
  void operator()(const AskSizes& x) { out_.u64(x.question), put(out_, x.handle); }
  void operator()(const Settle& x) { out_.u64(x.question); }
  void operator()(const Finish& x) { out_.u64(x.question); }
  void operator()(const EndJob& x) { put(out_, x.why); }
  void operator()(const TraceAnswer& x) {
    out_.u64(x.number);
    put(out_, x.failure);
    out_.text(x.program);
    out_.text(x.question);
  }
  void type(std::size_t number) { out_.u8(static_cast<std::uint8_t>(number)); }
  [[nodiscard]] Bytes take() { return std::move(out_).take(); }

 private:
  void put_input(const CallInput& input) {
    out_.text(input.name);
    out_.u8(static_cast<std::uint8_t>(input.kind));
    if (input.kind != Kind::Tensor) return out_.i64(input.number);
    put(out_, input.tensor);
    out_.u8(input.moved ? 1 : 0);
    out_.u32(static_cast<std::uint32_t>(input.marks.size()));
    for (const Mark mark : input.marks) out_.u8(static_cast<std::uint8_t>(mark));
  }
  ByteWriter out_;
};

void read(FieldReader& in, Hello& x) { x.version = in.u32(); }
void read(FieldReader& in, PutTensor& x) {
  x.handle = in.handle();
  x.label = in.text();
  if (in.flag()) x.only = in.rank();
  x.tensor = in.tensor();
}
void read(FieldReader& in, ReadTensors& x) {
  x.path = in.text();
  for (std::uint32_t left = in.count(12); left > 0 && in.sound(); --left) {
    std::string name = in.text();
    x.tensors.emplace_back(std::move(name), in.handle());
  }
}
void read(FieldReader& in, ShipProgram& x) { x.digest = in.text(), x.program = in.text(); }
void read(FieldReader& in, LoadFrame& x) {
  x.frame = in.frame(), x.digest = in.text(), x.from = in.text();
}
void read(FieldReader& in, MakeFrame& x) { x.frame = in.frame(), x.name = in.text(); }
CallInput input_of(FieldReader& in) {
  CallInput out;
  out.name = in.text();
  out.kind = static_cast<Kind>(in.number_below(static_cast<int>(Kind::Bool) + 1));
  if (out.kind == Kind::Bool) {
    out.number = in.i64() != 0;
  } else if (out.kind != Kind::Tensor) {
    out.number = in.i64();
  } else {
    out.tensor = in.handle();
    out.moved = in.flag();
    for (std::uint32_t left = in.count(1); left > 0 && in.sound(); --left)
      out.marks.push_back(static_cast<Mark>(in.number_below(kMarkCount)));
  }
  return out;
}
void read(FieldReader& in, CallFrame& x) {
  x.frame = in.frame();
  x.call = in.u64();
  x.first = in.handle();
  x.room = in.u32();
  x.names = in.u64();
  x.tell = in.flag();
  for (std::uint32_t left = in.count(13); left > 0 && in.sound(); --left)
    x.inputs.push_back(input_of(in));
}
void read(FieldReader& in, DropHandles& x) {
  for (std::uint32_t left = in.count(8); left > 0 && in.sound(); --left)
    x.handles.push_back(in.handle());
}
void read(FieldReader& in, FetchTensor& x) {
  x.question = in.u64(), x.handle = in.handle(), x.worker = in.rank();
}
void read(FieldReader& in, AskSizes& x) { x.question = in.u64(), x.handle = in.handle(); }
void read(FieldReader& in, Settle& x) { x.question = in.u64(); }
void read(FieldReader& in, Finish& x) { x.question = in.u64(); }
void read(FieldReader& in, EndJob& x) { x.why = in.status(); }
void read(FieldReader& in, TraceAnswer& x) {
  x.number = in.u64(), x.failure = in.status_if_any();
  x.program = in.text(), x.question = in.text();
}

/// The command with this number of a type.
template <std::size_t kType = 0>
std::optional<Command> command_of(std::size_t type, FieldReader& in) {
  if constexpr (kType < std::variant_size_v<Command>) {
    if (type != kType) return command_of<kType + 1>(type, in);
    std::variant_alternative_t<kType, Command> out;
    read(in, out);
    return Command(std::move(out));
  } else {
    return std::nullopt;
  }
}

}  // namespace

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

Bytes encode(const Command& command) {
  CommandWriter writer;
  writer.type(command.index());
  std::visit(writer, command);
  return writer.take();
}

std::optional<Command> decode_command(std::span<const std::byte> bytes) {
  FieldReader in(bytes);
  const std::uint8_t type = in.u8();
  auto out = command_of(type, in);
  return in.whole() ? std::move(out) : std::nullopt;
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
