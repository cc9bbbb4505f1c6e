#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives {
namespace {

constexpr std::size_t kNameBytes = 128, kAddressBytes = 64, kSentenceBytes = 4096;
/// No span of time is longer: ten years.
constexpr Instant kLongest = std::chrono::hours(10 * 365 * 24);
constexpr std::size_t kMostRuns = 2048, kMostRows = 64;

void write(ByteWriter& out, std::string_view text, std::size_t most) {
  out.text(text.substr(0, most));
}
void write(ByteWriter& out, const RendezvousId& id) {
  for (const std::byte b : id) out.u8(std::to_integer<std::uint8_t>(b));
}
void write(ByteWriter& out, const RankSet& ranks) {
  const std::size_t runs = std::min(ranks.runs().size(), kMostRuns);
  out.u32(static_cast<std::uint32_t>(runs));
  for (std::size_t i = 0; i < runs; ++i) {
    out.u32(static_cast<std::uint32_t>(ranks.runs()[i].first));
    out.u32(static_cast<std::uint32_t>(ranks.runs()[i].last));
  }
}

void write(ByteWriter& out, const JoinRequest& a) {
  out.u32(a.version);
  write(out, a.job, kNameBytes);
  out.u32(static_cast<std::uint32_t>(a.rank.value));
  out.u32(static_cast<std::uint32_t>(a.size));
  write(out, a.build, kNameBytes);
  write(out, a.host, kNameBytes);
  out.u64(a.host_id);
  out.u32(static_cast<std::uint32_t>(a.pid));
  out.u32(a.port);
}
void write(ByteWriter& out, const Waiting& waiting) { write(out, waiting.missing); }
void write(ByteWriter& out, const TurnedAway& turned) {
  out.u8(static_cast<std::uint8_t>(turned.code));
  write(out, turned.message, kSentenceBytes);
}
void write(ByteWriter& out, const Endpoint& at) {
  write(out, at.address, kAddressBytes);
  out.u32(at.port);
}
void write(ByteWriter& out, const WaitAt& wait) { write(out, wait.parent); }
void write(ByteWriter& out, const Presence& told) {
  out.u32(static_cast<std::uint32_t>(told.rank.value));
  out.u8(told.here ? 1 : 0);
}
void write(ByteWriter& out, const RosterPart& part) {
  write(out, part.id);
  out.u32(part.first);
  out.u32(static_cast<std::uint32_t>(part.peers.size()));
  for (const Peer& peer : part.peers) {
    write(out, peer.listens);
    write(out, peer.host, kNameBytes);
    out.u64(peer.host_id);
    out.u32(static_cast<std::uint32_t>(peer.pid));
  }
}
void write(ByteWriter& out, const Introduction& introduction) {
  write(out, introduction.id);
  out.u32(static_cast<std::uint32_t>(introduction.rank.value));
  out.u64(introduction.attempt);
  out.u64(introduction.received);
}
void write(ByteWriter& out, const Part& part) {
  out.u64(part.group);
  out.u8(static_cast<std::uint8_t>(part.kind));
  out.u64(part.total);
  out.u64(part.number);
  out.u64(part.received);
  out.text({reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size()});
}
void write(ByteWriter& out, const Acknowledgement& told) { out.u64(told.received); }
void write(ByteWriter& out, const Verdict& verdict) {
  const Status& status = verdict.status;
  out.u8(static_cast<std::uint8_t>(status.code));
  write(out, status.message, kSentenceBytes);
  write(out, status.source, kNameBytes);
  ByteWriter rows;
  std::uint32_t count = 0;
  for (const RankValue& row : status.groups) {
    if (count == kMostRows || rows.view().size() > Part::kMostBytes / 2) break;
    write(rows, row.ranks);
    write(rows, row.value, kSentenceBytes);
    ++count;
  }
  out.u32(count);
  out.text({reinterpret_cast<const char*>(rows.view().data()), rows.view().size()});
}

void write(ByteWriter& out, const Progress& progress) {
  const RankState& s = progress.state;
  out.u32(static_cast<std::uint32_t>(progress.rank.value));
  out.u8(s.waiting ? 1 : 0);
  out.u8(s.finished ? 1 : 0);
  out.u8(static_cast<std::uint8_t>(s.phase));
  out.u8(static_cast<std::uint8_t>(s.operation));
  out.u32(static_cast<std::uint32_t>(s.pid));
  out.u64(s.begun);
  out.u64(s.group);
  out.u64(s.ordinal);
  write(out, s.event, kEventBytes);
  out.i64(std::clamp(s.progress, Instant{0}, kLongest).count());
  out.i64(std::clamp(s.beat, Instant{0}, kLongest).count());
  out.i64(std::clamp(s.lease, Instant{0}, kLongest).count());
  out.u32(static_cast<std::uint32_t>(std::min(progress.begun.size(), kBoardGroups)));
  for (std::size_t i = 0; i < progress.begun.size() && i < kBoardGroups; ++i) {
    out.u64(progress.begun[i].group);
    out.u64(progress.begun[i].operations);
  }
}

/// A ByteReader that also says no to values.
class Checked {
 public:
  explicit Checked(std::span<const std::byte> bytes) : in(bytes) {}
  ByteReader in;
  bool sound = true;

  std::uint32_t below(std::uint64_t end) {
    const std::uint32_t value = in.u32();
    sound = sound && value < end;
    return sound ? value : 0;
  }
  std::uint8_t byte_below(std::uint8_t end) {
    const std::uint8_t value = in.u8();
    sound = sound && value < end;
    return sound ? value : std::uint8_t{0};
  }
  std::string bytes(std::size_t most) {
    std::string text = in.text();
    sound = sound && text.size() <= most;
    return text;
  }
  /// One line; characters that could steer a terminal are replaced.
  std::string line(std::size_t most) {
    std::string text = bytes(most);
    for (char& c : text)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
    return text;
  }
  Rank rank() { return Rank{static_cast<std::int32_t>(below(kMostRanks))}; }
  std::uint16_t port() { return static_cast<std::uint16_t>(below(65'536)); }
  Endpoint endpoint() {
    Endpoint at;
    at.address = line(kAddressBytes);
    at.port = port();
    return at;
  }
  Code code() { return Code(byte_below(static_cast<std::uint8_t>(Code::Internal) + 1)); }
  Instant span() {
    const Instant value{in.i64()};
    sound = sound && value >= Instant{0} && value <= kLongest;
    return sound ? value : Instant{0};
  }
  RendezvousId id() {
    RendezvousId id;
    for (std::byte& b : id) b = std::byte{in.u8()};
    return id;
  }
  std::uint32_t count(std::size_t most, std::size_t min_bytes) {
    const std::uint32_t n = in.count(min_bytes);
    sound = sound && n <= most;
    return sound ? n : 0;
  }
  /// Runs as RankSet writes them: ascending and apart.
  RankSet ranks() {
    RankSet out;
    std::int64_t before = -2;
    for (std::uint32_t i = count(kMostRuns, 8); i > 0 && sound; --i) {
      const RankSet::Run run{rank().value, rank().value};
      sound = sound && run.first <= run.last && run.first > before + 1;
      before = run.last;
      if (sound) out.insert(run);
    }
    return out;
  }
};

JoinRequest read_join_request(Checked& from) {
  JoinRequest a;
  a.version = from.in.u32();
  a.job = from.line(kNameBytes);
  a.rank.value = static_cast<std::int32_t>(from.in.u32());  // any: who is wrong is told so
  a.size = static_cast<int>(from.in.u32());
  a.build = from.line(kNameBytes);
  a.host = from.line(kNameBytes);
  a.host_id = from.in.u64();
  a.pid = static_cast<std::int32_t>(from.in.u32());
  a.port = from.port();
  return a;
}

RosterPart read_roster(Checked& from) {
  RosterPart part;
  part.id = from.id();
  part.first = from.below(kMostRanks);
  part.peers.resize(from.count(RosterPart::kMostPeers, 24));
  for (Peer& peer : part.peers) {
    peer.listens = from.endpoint();
    peer.host = from.line(kNameBytes);
    peer.host_id = from.in.u64();
    peer.pid = static_cast<std::int32_t>(from.in.u32());
  }
  return part;
}

Part read_part(Checked& from) {
  Part part;
  part.group = from.in.u64();
  part.kind = Part::Kind(from.byte_below(static_cast<std::uint8_t>(Part::Kind::Farewell) + 1));
  part.total = from.in.u64();
  part.number = from.in.u64();
  part.received = from.in.u64();
  const std::string text = from.bytes(Part::kMostBytes);
  const auto bytes = std::as_bytes(std::span(text));
  part.bytes.assign(bytes.begin(), bytes.end());
  from.sound = from.sound && part.bytes.size() <= part.total;
  return part;
}

Verdict read_verdict(Checked& from) {
  Verdict verdict;
  verdict.status.code = from.code();
  verdict.status.message = from.line(kSentenceBytes);
  verdict.status.source = from.line(kNameBytes);
  const std::uint32_t count = from.below(kMostRows + 1);
  const std::string text = from.in.text();
  Checked rows(std::as_bytes(std::span(text)));
  for (std::uint32_t i = 0; i < count && rows.sound && rows.in.ok(); ++i) {
    RankSet ranks = rows.ranks();
    verdict.status.groups.push_back({std::move(ranks), rows.line(kSentenceBytes)});
  }
  from.sound = from.sound && rows.sound && rows.in.ok() && rows.in.at_end();
  return verdict;
}

Progress read_progress(Checked& from) {
  Progress progress{.rank = from.rank(), .state = {}, .begun = {}};
  RankState& s = progress.state;
  s.known = s.carried = true;
  s.waiting = from.byte_below(2) == 1;
  s.finished = from.byte_below(2) == 1;
  s.phase = Phase(from.byte_below(static_cast<std::uint8_t>(Phase::Finishing) + 1));
  s.operation =
      OperationKind(from.byte_below(static_cast<std::uint8_t>(OperationKind::Collective) + 1));
  s.pid = static_cast<std::int32_t>(from.in.u32());
  s.begun = from.in.u64();
  s.group = from.in.u64();
  s.ordinal = from.in.u64();
  s.event = from.line(kEventBytes);
  s.progress = from.span();
  s.beat = from.span();
  s.lease = from.span();
  progress.begun.resize(from.count(kBoardGroups, 16));
  for (Board::Begun& count : progress.begun) {
    count.group = from.in.u64();
    count.operations = from.in.u64();
  }
  return progress;
}

std::optional<TcpMessage> read(std::uint8_t type, Checked& from) {
  switch (type - kFirstSealedType) {
    case 0:
      return read_join_request(from);
    case 1:
      return Waiting{from.ranks()};
    case 2: {
      const Code code = from.code();
      return TurnedAway{code, from.line(kSentenceBytes)};
    }
    case 3:
      return read_roster(from);
    case 4: {
      Introduction word{from.id(), from.rank(), 0, 0};
      word.attempt = from.in.u64();
      word.received = from.in.u64();
      return word;
    }
    case 5:
      return read_part(from);
    case 6:
      return Acknowledgement{from.in.u64()};
    case 7:
      return read_verdict(from);
    case 8:
      return read_progress(from);
    case 9:
      return WaitAt{from.endpoint()};
    case 10: {
      const Rank rank = from.rank();
      return Presence{rank, from.byte_below(2) == 1};
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string who(const JoinRequest& request) {
  return fmt::format("rank {} (process {} on {})", request.rank.value, request.pid, request.host);
}

bool Progress::operator==(const Progress& other) const { return encode(*this) == encode(other); }

std::uint8_t type_of(const TcpMessage& message) {
  return static_cast<std::uint8_t>(kFirstSealedType + message.index());
}

Bytes encode(const TcpMessage& message) {
  ByteWriter out;
  std::visit([&](const auto& which) { write(out, which); }, message);
  return std::move(out).take();
}

std::optional<TcpMessage> decode_tcp(const SealedMessage& sealed) {
  Checked from(sealed.payload);
  auto message = read(sealed.type, from);
  if (!from.sound || !from.in.ok() || !from.in.at_end()) return std::nullopt;
  return message;
}

}  // namespace lockstep::collectives
