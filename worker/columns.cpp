#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <lockstep/worker/columns.h>

namespace lockstep::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "columns travel as they lie in memory");

constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kAllSections = 15;
constexpr std::size_t kWord = 8;
constexpr std::size_t kHeader = 4 * sizeof(std::uint32_t) + 2 * kWord;

/// Strides of ranks that do not agree.
constexpr std::int64_t kDynamicStride = std::numeric_limits<std::int64_t>::min();

struct Header {
  std::uint32_t version = kVersion, sections = 0, slots = 0, sources = 0;
  shapes::Fingerprint layout;
};
static_assert(sizeof(Header) == kHeader);

// Received bytes may lie at any address.
std::int64_t load(const std::byte* column, std::size_t i) {
  std::int64_t value = 0;
  std::memcpy(&value, column + i * kWord, kWord);
  return value;
}
void store(std::byte* column, std::size_t i, std::int64_t value) {
  std::memcpy(column + i * kWord, &value, kWord);
}

std::size_t column_bytes(std::size_t slots) { return slots * kWord; }
std::size_t marks_bytes(std::size_t slots) { return (slots + kWord - 1) / kWord * kWord; }

/// Where each section starts.
struct Places {
  std::size_t least = 0, marks = 0, strides = 0, greatest = 0, first = 0, end = 0;
};
Places places_of(std::uint32_t sections, std::size_t slots) {
  Places out;
  std::size_t at = kHeader;
  const auto take = [&](bool there, std::size_t bytes) {
    const std::size_t start = at;
    if (there) at += bytes;
    return start;
  };
  out.least = take(true, column_bytes(slots));
  out.marks = take((sections & Columns::Marks) != 0, marks_bytes(slots));
  out.strides = take((sections & Columns::Strides) != 0, column_bytes(slots));
  out.greatest = take((sections & Columns::Greatest) != 0, column_bytes(slots));
  out.first = take((sections & Columns::First) != 0, column_bytes(slots));
  out.end = at;
  return out;
}

Bytes with_header(std::uint32_t sections, std::uint32_t slots, const shapes::Fingerprint& layout) {
  Bytes out(places_of(sections, slots).end);
  const Header header{.sections = sections, .slots = slots, .layout = layout};
  std::memcpy(out.data(), &header, kHeader);
  return out;
}

/// A column that says the same as `least` need not travel. `greatest` stays where `first` does.
void drop_repetition(Bytes& bytes, const Places& at, std::size_t slots) {
  Header header;
  std::memcpy(&header, bytes.data(), kHeader);
  const std::byte* least = bytes.data() + at.least;
  const auto repeats = [&](std::size_t column) {
    return std::memcmp(bytes.data() + column, least, column_bytes(slots)) == 0;
  };
  if (repeats(at.first)) {
    const bool alone = repeats(at.greatest);
    header.sections &=
        alone ? ~(Columns::First | Columns::Greatest) : ~std::uint32_t{Columns::First};
    bytes.resize(alone ? at.greatest : at.first);
    std::memcpy(bytes.data(), &header, kHeader);
  }
}

std::int64_t joined_stride(std::int64_t a, std::int64_t b) { return a == b ? a : kDynamicStride; }

}  // namespace

std::optional<Columns> Columns::of(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeader) return std::nullopt;
  Header header;
  std::memcpy(&header, bytes.data(), kHeader);
  if (header.version != kVersion || header.sections > kAllSections || header.sources != 0)
    return std::nullopt;
  const Places at = places_of(header.sections, header.slots);
  if (at.end != bytes.size()) return std::nullopt;
  Columns out;
  out.sections_ = header.sections;
  out.slots_ = header.slots;
  out.layout_ = header.layout;
  const auto column = [&](Section section, std::size_t place, const std::byte* absent) {
    return out.has(section) ? bytes.data() + place : absent;
  };
  out.least_ = bytes.data() + at.least;
  out.marks_ = column(Marks, at.marks, nullptr);
  out.strides_ = column(Strides, at.strides, nullptr);
  out.greatest_ = column(Greatest, at.greatest, out.least_);
  out.first_ = column(First, at.first, out.least_);
  return out;
}

std::int64_t Columns::word(const std::byte* column, std::size_t slot) { return load(column, slot); }

std::uint8_t Columns::marks(std::size_t slot) const {
  return marks_ != nullptr ? static_cast<std::uint8_t>(marks_[slot]) : std::uint8_t{1};
}

std::int64_t Columns::stride(std::size_t slot) const {
  return strides_ != nullptr ? load(strides_, slot) : 0;
}

Bytes columns_of(const shapes::Fingerprint& layout, std::span<const std::int64_t> values,
                 std::span<const std::uint8_t> marks, std::span<const std::int64_t> strides) {
  const std::uint32_t sections =
      (marks.empty() ? 0U : Columns::Marks) | (strides.empty() ? 0U : Columns::Strides);
  Bytes out = with_header(sections, static_cast<std::uint32_t>(values.size()), layout);
  const Places at = places_of(sections, values.size());
  std::memcpy(out.data() + at.least, values.data(), values.size_bytes());
  if (!marks.empty()) std::memcpy(out.data() + at.marks, marks.data(), marks.size_bytes());
  if (!strides.empty()) std::memcpy(out.data() + at.strides, strides.data(), strides.size_bytes());
  return out;
}

Bytes join_columns(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  const auto a = Columns::of(lower);
  const auto b = Columns::of(higher);
  if (!a || !b || a->slots_ != b->slots_ || a->layout_ != b->layout_) return {};
  const std::uint32_t sections = a->sections_ | b->sections_ | Columns::Greatest | Columns::First;
  const std::size_t slots = a->slots_;
  Bytes out = with_header(sections, a->slots_, a->layout_);
  const Places at = places_of(sections, slots);
  std::byte* least = out.data() + at.least;
  std::byte* greatest = out.data() + at.greatest;
  for (std::size_t i = 0; i < slots; ++i)
    store(least, i, std::min(load(a->least_, i), load(b->least_, i)));
  for (std::size_t i = 0; i < slots; ++i)
    store(greatest, i, std::max(load(a->greatest_, i), load(b->greatest_, i)));
  std::memcpy(out.data() + at.first, a->first_, column_bytes(slots));
  if ((sections & Columns::Marks) != 0)
    for (std::size_t i = 0; i < slots; ++i)
      out[at.marks + i] = static_cast<std::byte>(a->marks(i) | b->marks(i));
  if ((sections & Columns::Strides) != 0)
    for (std::size_t i = 0; i < slots; ++i)
      store(out.data() + at.strides, i, joined_stride(a->stride(i), b->stride(i)));
  drop_repetition(out, at, slots);
  return out;
}

std::int64_t stride_code(const shapes::Seen& stride, std::size_t dim, std::size_t ndim) {
  using State = shapes::Seen::State;
  const bool last = dim + 1 == ndim;
  if (stride == (last ? shapes::Seen::constant(1)
                      : shapes::Seen::inferred(static_cast<std::int64_t>(dim) + 1)))
    return 0;
  if (stride.state == State::Inferred) return -1 - stride.value;
  // No memory is so large that such a stride is one.
  if (stride.state != State::Static || stride.value < 0 ||
      stride.value == std::numeric_limits<std::int64_t>::max())
    return kDynamicStride;
  return stride.value + 1;
}

std::optional<shapes::Seen> stride_of(std::int64_t code, std::size_t dim, std::size_t ndim) {
  if (code == kDynamicStride) return shapes::Seen::dynamic();
  if (code > 0) return shapes::Seen::constant(code - 1);
  if (code == 0)
    return dim + 1 == ndim ? shapes::Seen::constant(1)
                           : shapes::Seen::inferred(static_cast<std::int64_t>(dim) + 1);
  if (-1 - code >= static_cast<std::int64_t>(ndim)) return std::nullopt;
  return shapes::Seen::inferred(-1 - code);
}

}  // namespace lockstep::worker
