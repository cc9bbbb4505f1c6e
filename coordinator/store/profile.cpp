#include <algorithm>
#include <utility>

#include <lockstep/coordinator/store/profile.h>

namespace lockstep::coordinator {
namespace {

using shapes::Dynamism;
using shapes::Seen;
using shapes::SeenDims;

constexpr std::uint8_t kVersion = 2, kWithStrides = 1;
constexpr std::size_t kMostDims = 16;
constexpr std::size_t kLeastSource = 4 + 16 + 9 + 5 + 4;

void put(ByteWriter& out, const Seen& seen) {
  out.u8(static_cast<std::uint8_t>(seen.state));
  out.i64(seen.value);
}

void put(ByteWriter& out, const SeenDims& dims) {
  out.u8(static_cast<std::uint8_t>(dims.state));
  out.u32(static_cast<std::uint32_t>(dims.dims.size()));
  for (const Seen& seen : dims.dims) put(out, seen);
}

// Values out of an enumeration's range are left for plausible() to refuse.
Seen take_seen(ByteReader& in) {
  Seen seen;
  seen.state = static_cast<Seen::State>(in.u8());
  seen.value = in.i64();
  return seen;
}

SeenDims take_dims(ByteReader& in) {
  SeenDims dims;
  dims.state = static_cast<SeenDims::State>(in.u8());
  for (std::uint32_t n = in.count(9); n > 0 && in.ok(); --n) dims.dims.push_back(take_seen(in));
  return dims;
}

Dynamism take_dynamism(ByteReader& in, std::uint8_t version) {
  Dynamism seen;
  seen.scalar = take_seen(in);
  seen.size = take_dims(in);
  if (version == kWithStrides) (void)take_dims(in);
  for (std::uint32_t n = in.count(8); n > 0 && in.ok(); --n) seen.smallest.push_back(in.i64());
  return seen;
}

bool plausible(const Seen& seen, std::int64_t least) {
  switch (seen.state) {
    case Seen::State::Unset:
    case Seen::State::Dynamic:
      return seen.value == 0;
    case Seen::State::Static:
      return seen.value >= least;
  }
  return false;
}

bool plausible(const SeenDims& dims) {
  if (dims.state == SeenDims::State::Unset || dims.state == SeenDims::State::Dynamic)
    return dims.dims.empty();
  return dims.state == SeenDims::State::Tuple && dims.dims.size() <= kMostDims &&
         std::all_of(dims.dims.begin(), dims.dims.end(),
                     [](const Seen& seen) { return plausible(seen, 0); });
}

}  // namespace

bool plausible(const Dynamism& seen) {
  return plausible(seen.scalar, INT64_MIN) && plausible(seen.size) &&
         seen.smallest.size() <= kMostDims &&
         std::all_of(seen.smallest.begin(), seen.smallest.end(),
                     [](std::int64_t size) { return size >= 0; });
}

Bytes encode(const Profile& profile) {
  ByteWriter out;
  out.u8(kVersion);
  out.u32(static_cast<std::uint32_t>(profile.size()));
  for (const auto& [name, source] : profile) {
    out.text(name);
    out.u64(source.key.high);
    out.u64(source.key.low);
    put(out, source.seen.scalar);
    put(out, source.seen.size);
    out.u32(static_cast<std::uint32_t>(source.seen.smallest.size()));
    for (const std::int64_t size : source.seen.smallest) out.i64(size);
  }
  return std::move(out).take();
}

static std::optional<Profile> decode(std::span<const std::byte> bytes, std::uint8_t oldest) {
  ByteReader in(bytes);
  const std::uint8_t version = in.u8();
  if (version < oldest || version > kVersion) return std::nullopt;
  Profile profile;
  for (std::uint32_t n = in.count(kLeastSource); n > 0 && in.ok(); --n) {
    std::string name = in.text();
    ProfiledSource source;
    source.key.high = in.u64();
    source.key.low = in.u64();
    source.seen = take_dynamism(in, version);
    const bool in_order = profile.empty() || profile.rbegin()->first < name;
    if (!in_order || !plausible(source.seen)) return std::nullopt;
    profile.emplace(std::move(name), std::move(source));
  }
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return profile;
}

std::optional<Profile> decode_profile(std::span<const std::byte> bytes) {
  return decode(bytes, kVersion);
}

std::optional<Profile> decode_recorded_profile(std::span<const std::byte> bytes) {
  return decode(bytes, kWithStrides);
}

}  // namespace lockstep::coordinator
