#include <algorithm>
#include <string_view>
#include <utility>

#include <lockstep/coordinator/speech/message.h>

namespace lockstep::coordinator {
namespace {

/// Bytes of the longest sentence of a refusal.
constexpr std::size_t kSentenceBytes = 4096;
/// The longest duration accepted: ten years.
constexpr Duration kLongest = std::chrono::hours(10 * 365 * 24);

void write(ByteWriter& out, std::string_view text, std::size_t most) {
  out.text(text.substr(0, most));
}
void write(ByteWriter& out, Duration span) {
  out.i64(std::clamp(span, Duration{0}, kLongest).count());
}

void write(ByteWriter& out, const Join& join) {
  const Identity& identity = join.identity;
  write(out, identity.job, kJobBytes);
  out.u32(static_cast<std::uint32_t>(identity.rank.value));
  out.u32(static_cast<std::uint32_t>(identity.size));
  out.u64(static_cast<std::uint64_t>(identity.incarnation));
  write(out, identity.host, kHostBytes);
  out.u64(identity.host_id);
  out.u32(static_cast<std::uint32_t>(identity.pid));
  write(out, identity.build, kBuildBytes);
  write(out, identity.deadline);
}

void write(ByteWriter& out, const shapes::Fingerprint& fingerprint) {
  out.u64(fingerprint.high);
  out.u64(fingerprint.low);
}

void write(ByteWriter& out, const CallCounters& counters) {
  for (const std::uint64_t count : {counters.reused, counters.compiled, counters.fallbacks,
                                    counters.errors, counters.votes, counters.exchanges})
    out.u64(count);
  for (const Duration time : {counters.waited, counters.wire, counters.trace, counters.compile})
    write(out, time);
  RoundCounts rounds = counters.rounds;
  for (const std::uint64_t* number : rounds.numbers()) out.u64(*number);
}

void write(ByteWriter& out, const SlotReport& report) {
  out.u8(report.waiting ? 1 : 0);
  out.u8(report.finished ? 1 : 0);
  out.u8(static_cast<std::uint8_t>(report.phase));
  out.u8(static_cast<std::uint8_t>(report.operation));
  out.u64(report.begun);
  out.u64(report.group);
  out.u64(report.ordinal);
  write(out, report.group_name, kNameBytes);
  write(out, report.event, kNoteBytes);
  write(out, report.since_progress);
  write(out, report.lease_left);
  out.u64(report.looks);
  out.u64(report.looks_waiting);
  const std::size_t groups = std::min(report.groups.size(), kMostGroups);
  out.u32(static_cast<std::uint32_t>(groups));
  for (std::size_t i = 0; i < groups; ++i) {
    out.u64(report.groups[i].group);
    out.u64(report.groups[i].begun);
  }
  write(out, report.counters);
}

void write(ByteWriter& out, const CallEvent& event) {
  write(out, event.frame, kNameBytes);
  write(out, event.group, kNameBytes);
  out.u64(event.epoch);
  out.u64(event.call);
  out.u8(static_cast<std::uint8_t>(event.outcome));
  out.u8(static_cast<std::uint8_t>(event.code));
  out.u32(static_cast<std::uint32_t>(event.entry));
  out.u32(event.attempts);
  write(out, event.graph);
  out.u64(event.nodes);
  write(out, event.reason, kReasonBytes);
  write(out, event.decisions, kDecisionsBytes);
  for (const Duration time : {event.waited, event.exchange, event.trace, event.compile})
    write(out, time);
}

void write(ByteWriter& out, const GraphText& graph) {
  write(out, graph.graph);
  write(out, graph.text, kGraphTextBytes);
}

void write(ByteWriter& out, const Configuration& configuration) {
  write(out, configuration.text, kConfigurationBytes);
}

void write(ByteWriter& out, const StatusRequest& request) { out.u8(request.every_rank ? 1 : 0); }
void write(ByteWriter&, const Joined&) {}

void write(ByteWriter& out, const Refused& refused) {
  out.u8(static_cast<std::uint8_t>(refused.code));
  write(out, refused.message, kSentenceBytes);
}

void write(ByteWriter& out, const StatusPart& part) {
  out.u8(part.last ? 1 : 0);
  write(out, part.text, StatusPart::kMostBytes);
}

void write(ByteWriter& out, const GraphWanted& wanted) { write(out, wanted.graph); }

void write(ByteWriter& out, const JobVerdict& verdict) {
  out.u8(static_cast<std::uint8_t>(verdict.code));
  write(out, verdict.message, kSentenceBytes);
}

void write(ByteWriter& out, const Ending& ending) {
  out.u8(static_cast<std::uint8_t>(ending.code));
  write(out, ending.message, kSentenceBytes);
}

void write(ByteWriter&, const Noted&) {}

/// A ByteReader that also rejects values out of range.
class Checked {
 public:
  explicit Checked(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t u64() { return bytes_.u64(); }
  std::uint32_t u32() { return bytes_.u32(); }
  bool flag() { return below(2) == 1; }
  /// One byte, less than `end`.
  std::uint8_t below(std::uint8_t end) {
    const std::uint8_t value = bytes_.u8();
    sound_ = sound_ && value < end;
    return sound_ ? value : std::uint8_t{0};
  }
  Duration span() {
    const Duration value{bytes_.i64()};
    sound_ = sound_ && value >= Duration{0} && value <= kLongest;
    return sound_ ? value : Duration{0};
  }
  /// A text of any bytes; the frame limits its length.
  std::string bytes(std::size_t most) {
    std::string text = bytes_.text();
    sound_ = sound_ && text.size() <= most;
    return text;
  }
  /// A text of one line.
  std::string line(std::size_t most) { return tame(bytes(most), false); }
  /// A text of several lines.
  std::string lines(std::size_t most) { return tame(bytes(most), true); }
  Code code() { return Code(below(static_cast<std::uint8_t>(Code::Internal) + 1)); }
  shapes::Fingerprint fingerprint() {
    const std::uint64_t high = u64();
    return {high, u64()};
  }
  std::uint32_t count(std::size_t most, std::size_t min_bytes) {
    const std::uint32_t n = bytes_.count(min_bytes);
    sound_ = sound_ && n <= most;
    return sound_ ? n : 0;
  }
  [[nodiscard]] bool whole() const { return sound_ && bytes_.ok() && bytes_.at_end(); }

 private:
  /// The text with control characters replaced.
  static std::string tame(std::string text, bool lines) {
    for (char& c : text)
      if ((static_cast<unsigned char>(c) < 0x20 && !(lines && c == '\n')) || c == 0x7F) c = ' ';
    return text;
  }
  ByteReader bytes_;
  bool sound_ = true;
};

Join read_join(Checked& in) {
  Join join;
  Identity& identity = join.identity;
  identity.job = in.line(kJobBytes);
  identity.rank.value = static_cast<std::int32_t>(in.u32());
  identity.size = static_cast<int>(in.u32());
  identity.incarnation = Incarnation(in.u64());
  identity.host = in.line(kHostBytes);
  identity.host_id = in.u64();
  identity.pid = static_cast<std::int32_t>(in.u32());
  identity.build = in.line(kBuildBytes);
  identity.deadline = in.span();
  return join;
}

CallCounters read_counters(Checked& in) {
  CallCounters counters;
  for (std::uint64_t* count : {&counters.reused, &counters.compiled, &counters.fallbacks,
                               &counters.errors, &counters.votes, &counters.exchanges})
    *count = in.u64();
  for (Duration* time : {&counters.waited, &counters.wire, &counters.trace, &counters.compile})
    *time = in.span();
  for (std::uint64_t* number : counters.rounds.numbers()) *number = in.u64();
  return counters;
}

SlotReport read_report(Checked& in) {
  SlotReport report;
  report.waiting = in.flag();
  report.finished = in.flag();
  report.phase = Phase(in.below(static_cast<std::uint8_t>(Phase::Finishing) + 1));
  report.operation =
      OperationKind(in.below(static_cast<std::uint8_t>(OperationKind::Collective) + 1));
  report.begun = in.u64();
  report.group = in.u64();
  report.ordinal = in.u64();
  report.group_name = in.line(kNameBytes);
  report.event = in.line(kNoteBytes);
  report.since_progress = in.span();
  report.lease_left = in.span();
  report.looks = in.u64();
  report.looks_waiting = in.u64();
  report.groups.resize(in.count(kMostGroups, 16));
  for (GroupCount& count : report.groups) {
    count.group = in.u64();
    count.begun = in.u64();
  }
  report.counters = read_counters(in);
  return report;
}

CallEvent read_call_event(Checked& in) {
  CallEvent event;
  event.frame = in.line(kNameBytes);
  event.group = in.line(kNameBytes);
  event.epoch = in.u64();
  event.call = in.u64();
  event.outcome =
      CallEvent::Outcome(in.below(static_cast<std::uint8_t>(CallEvent::Outcome::Error) + 1));
  event.code = in.code();
  event.entry = static_cast<std::int32_t>(in.u32());
  event.attempts = in.u32();
  event.graph = in.fingerprint();
  event.nodes = in.u64();
  event.reason = in.lines(kReasonBytes);
  event.decisions = in.line(kDecisionsBytes);
  for (Duration* time : {&event.waited, &event.exchange, &event.trace, &event.compile})
    *time = in.span();
  return event;
}

GraphText read_graph_text(Checked& in) {
  const shapes::Fingerprint graph = in.fingerprint();
  return {graph, in.lines(kGraphTextBytes)};
}

JobVerdict read_verdict(Checked& in) {
  const Code code = in.code();
  return {code, in.lines(kSentenceBytes)};
}

Ending read_ending(Checked& in) {
  const Code code = in.code();
  return {code, in.lines(kSentenceBytes)};
}

Refused read_refused(Checked& in) {
  Refused refused;
  refused.code = in.code();
  refused.message = in.line(kSentenceBytes);
  return refused;
}

StatusPart read_status_part(Checked& in) {
  StatusPart part;
  part.last = in.flag();
  part.text = in.bytes(StatusPart::kMostBytes);
  return part;
}

std::optional<Message> read(MessageType type, Checked& in) {
  switch (type) {
    case MessageType::Join:
      return read_join(in);
    case MessageType::Slot:
      return read_report(in);
    case MessageType::Call:
      return read_call_event(in);
    case MessageType::GraphText:
      return read_graph_text(in);
    case MessageType::Configuration:
      return Configuration{in.lines(kConfigurationBytes)};
    case MessageType::StatusRequest:
      return StatusRequest{in.flag()};
    case MessageType::Ending:
      return read_ending(in);
    case MessageType::Joined:
      return Joined{};
    case MessageType::Refused:
      return read_refused(in);
    case MessageType::StatusPart:
      return read_status_part(in);
    case MessageType::GraphWanted:
      return GraphWanted{in.fingerprint()};
    case MessageType::Verdict:
      return read_verdict(in);
    case MessageType::Noted:
      return Noted{};
    default:
      return std::nullopt;
  }
}

}  // namespace

MessageType type_of(const Message& message) {
  constexpr MessageType kTypes[] = {
      MessageType::Join,       MessageType::Slot,          MessageType::Call,
      MessageType::GraphText,  MessageType::Configuration, MessageType::StatusRequest,
      MessageType::Ending,     MessageType::Joined,        MessageType::Refused,
      MessageType::StatusPart, MessageType::GraphWanted,   MessageType::Verdict,
      MessageType::Noted};
  static_assert(std::size(kTypes) == std::variant_size_v<Message>);
  return kTypes[message.index()];
}

Bytes encode(const Message& message) {
  ByteWriter out;
  std::visit([&](const auto& which) { write(out, which); }, message);
  return std::move(out).take();
}

std::optional<Message> decode(const collectives::SealedMessage& sealed) {
  Checked in(sealed.payload);
  auto message = read(MessageType{sealed.type}, in);
  if (!in.whole()) return std::nullopt;
  return message;
}

}  // namespace lockstep::coordinator
