// The wire format of a JointObservation, version 1: all little-endian, in the order written here.
#include <lockstep/worker/exchange.h>

namespace lockstep::worker {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kKinds = 4;
constexpr std::uint8_t kDTypes = 10;

void put(ByteWriter& out, const shapes::Seen& seen) {
  out.u8(static_cast<std::uint8_t>(seen.state));
  out.i64(seen.value);
}

void put(ByteWriter& out, const shapes::SeenDims& dims) {
  out.u8(static_cast<std::uint8_t>(dims.state));
  out.u32(static_cast<std::uint32_t>(dims.dims.size()));
  for (const shapes::Seen& seen : dims.dims) put(out, seen);
}

void put(ByteWriter& out, const shapes::Dynamism& state) {
  put(out, state.scalar);
  put(out, state.size);
  put(out, state.stride);
  out.u32(static_cast<std::uint32_t>(state.smallest.size()));
  for (const std::int64_t v : state.smallest) out.i64(v);
}

void put(ByteWriter& out, const DimCell& cell) {
  out.u32(static_cast<std::uint32_t>(cell.first_rank.value));
  out.i64(cell.first);
  out.i64(cell.least);
  out.i64(cell.greatest);
  out.u8(cell.marks);
}

void put(ByteWriter& out, const SourceCell& cell) {
  out.text(cell.name);
  out.u8(cell.missing ? 1 : 0);
  out.u8(cell.first ? 1 : 0);
  const SourceCell::First first = cell.first.value_or(SourceCell::First{});
  out.u32(static_cast<std::uint32_t>(first.rank.value));
  out.u8(static_cast<std::uint8_t>(first.kind));
  out.u8(static_cast<std::uint8_t>(first.dtype));
  out.u32(first.ndim);
  out.u8(first.truth ? 1 : 0);
  out.u8(cell.kinds);
  out.u32(cell.dtypes);
  out.u32(cell.least_ndim);
  out.u32(cell.greatest_ndim);
  out.u8(cell.truths);
  out.u8(cell.number ? 1 : 0);
  if (cell.number) put(out, *cell.number);
  out.u32(static_cast<std::uint32_t>(cell.dims.size()));
  for (const DimCell& dim : cell.dims) put(out, dim);
  put(out, cell.state);
}

/// Reads what the functions above wrote; `ok` turns false at the first field that no rank writes.
class Parser {
 public:
  explicit Parser(std::span<const std::byte> bytes) : in_(bytes) {}

  std::optional<JointObservation> joint() {
    JointObservation out;
    require(in_.u8() == kVersion);
    out.cache.high = in_.u64();
    out.cache.low = in_.u64();
    out.cache_differs = flag();
    for (std::uint32_t n = in_.count(kLeastSource); n > 0 && good(); --n) {
      SourceCell cell = source();
      require(out.sources.empty() || out.sources.back().name < cell.name);
      out.sources.push_back(std::move(cell));
    }
    if (!good() || !in_.at_end()) return std::nullopt;
    return out;
  }

 private:
  static constexpr std::size_t kLeastSource = 40;

  bool good() const { return ok_ && in_.ok(); }
  void require(bool condition) { ok_ = ok_ && condition; }
  bool flag() {
    const std::uint8_t v = in_.u8();
    require(v <= 1);
    return v == 1;
  }
  std::uint8_t below(std::uint8_t limit) {
    const std::uint8_t v = in_.u8();
    require(v < limit);
    return v < limit ? v : std::uint8_t{0};
  }
  Rank rank() {
    const auto value = static_cast<std::int32_t>(in_.u32());
    require(value >= 0);
    return Rank{value};
  }
  shapes::Seen seen() {
    shapes::Seen out;
    out.state = static_cast<shapes::Seen::State>(below(4));
    out.value = in_.i64();
    return out;
  }
  shapes::SeenDims seen_dims() {
    shapes::SeenDims out;
    out.state = static_cast<shapes::SeenDims::State>(below(3));
    for (std::uint32_t n = in_.count(9); n > 0 && good(); --n) out.dims.push_back(seen());
    require(out.state == shapes::SeenDims::State::Tuple || out.dims.empty());
    return out;
  }
  shapes::Dynamism state() {
    shapes::Dynamism out;
    out.scalar = seen();
    out.size = seen_dims();
    out.stride = seen_dims();
    for (std::uint32_t n = in_.count(8); n > 0 && good(); --n) out.smallest.push_back(in_.i64());
    return out;
  }
  DimCell dim() {
    DimCell out;
    out.first_rank = rank();
    out.first = in_.i64();
    out.least = in_.i64();
    out.greatest = in_.i64();
    out.marks = below(1U << 5);
    return out;
  }
  SourceCell source() {
    SourceCell out;
    out.name = in_.text();
    out.missing = flag();
    const bool seen_here = flag();
    SourceCell::First first;
    first.rank = rank();
    first.kind = static_cast<Kind>(below(kKinds));
    first.dtype = static_cast<DType>(below(kDTypes));
    first.ndim = in_.u32();
    first.truth = flag();
    if (seen_here) out.first = first;
    out.kinds = below(1U << kKinds);
    const std::uint32_t dtypes = in_.u32();
    require(dtypes < 1U << kDTypes);
    out.dtypes = static_cast<std::uint16_t>(dtypes);
    out.least_ndim = in_.u32();
    out.greatest_ndim = in_.u32();
    out.truths = below(4);
    if (flag()) out.number = dim();
    for (std::uint32_t n = in_.count(29); n > 0 && good(); --n) out.dims.push_back(dim());
    out.state = state();
    // The rules of decision.cpp index dims by these.
    require(out.dims.size() == out.greatest_ndim && out.least_ndim <= out.greatest_ndim);
    require(out.first.has_value() == (out.kinds != 0));
    require(out.has(Kind::Int) == out.number.has_value());
    require(!out.first || (out.has(out.first->kind) && out.first->ndim <= out.greatest_ndim));
    return out;
  }

  ByteReader in_;
  bool ok_ = true;
};

}  // namespace

Bytes encode(const JointObservation& joint) {
  ByteWriter out;
  out.u8(kVersion);
  out.u64(joint.cache.high);
  out.u64(joint.cache.low);
  out.u8(joint.cache_differs ? 1 : 0);
  out.u32(static_cast<std::uint32_t>(joint.sources.size()));
  for (const SourceCell& cell : joint.sources) put(out, cell);
  return std::move(out).take();
}

std::optional<JointObservation> decode_joint(std::span<const std::byte> bytes) {
  return Parser(bytes).joint();
}

}  // namespace lockstep::worker
