#include <lockstep/worker/agree/exchange/roster.h>

namespace lockstep::worker {
namespace {

constexpr std::uint8_t kVersion = 1;
/// More dims than any tensor has; keeps the layout of a hostile payload within memory.
constexpr std::uint32_t kMostDims = 1U << 16;

void put(ByteWriter& out, const Roster::Part& part) {
  out.u64(part.digest.high);
  out.u64(part.digest.low);
  out.u8(part.differs ? 1 : 0);
}

bool take(ByteReader& in, Roster::Part& part) {
  part.digest.high = in.u64();
  part.digest.low = in.u64();
  const std::uint8_t differs = in.u8();
  part.differs = differs == 1;
  return differs <= 1;
}

Roster::Part join(const Roster::Part& lower, const Roster::Part& higher) {
  return {lower.digest, lower.differs || higher.differs || lower.digest != higher.digest};
}

}  // namespace

Bytes encode(const Roster& roster) {
  ByteWriter out;
  out.u8(kVersion);
  for (const auto* part : {&roster.dictionary, &roster.list, &roster.state, &roster.entries})
    put(out, *part);
  out.u32(static_cast<std::uint32_t>(roster.names.size()));
  for (const KnownName& known : roster.names) {
    out.text(known.name);
    out.u32(known.dims);
  }
  if (roster.alike) out.u64(*roster.alike);
  return std::move(out).take();
}

std::optional<Roster> decode_roster(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Roster out;
  bool sound = in.u8() == kVersion;
  for (auto* part : {&out.dictionary, &out.list, &out.state, &out.entries})
    sound = take(in, *part) && sound;
  for (std::uint32_t n = in.count(8); n > 0 && sound && in.ok(); --n) {
    KnownName known;
    known.name = in.text();
    known.dims = in.u32();
    sound = known.dims <= kMostDims && (out.names.empty() || out.names.back().name < known.name);
    out.names.push_back(std::move(known));
  }
  if (sound && in.ok() && !in.at_end()) out.alike = in.u64();
  if (!sound || !in.ok() || !in.at_end()) return std::nullopt;
  return out;
}

Bytes join_rosters(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  const auto a = decode_roster(lower);
  const auto b = decode_roster(higher);
  if (!a || !b || a->alike.has_value() != b->alike.has_value()) return {};
  return encode({join(a->dictionary, b->dictionary), join(a->list, b->list),
                 join(a->state, b->state), join(a->entries, b->entries), merge(a->names, b->names),
                 a->alike ? std::optional(*a->alike & *b->alike) : std::nullopt});
}

}  // namespace lockstep::worker
