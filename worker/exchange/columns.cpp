#include <algorithm>
#include <bit>
#include <cstring>

#include <lockstep/shapes/expr/dynamism.h>
#include <lockstep/worker/exchange/columns.h>
#include <lockstep/worker/exchange/stride_code.h>

namespace lockstep::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "columns travel as they lie in memory");

constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kAllSections = 63;
constexpr std::size_t kWord = 8;

struct Header {
  std::uint32_t version = kVersion, sections = 0, slots = 0, sources = 0;
  shapes::Fingerprint digest;
};
constexpr std::size_t kHeader = sizeof(Header);
static_assert(kHeader == 32);

/// A column's section (0: always there) and whether it has a word per source.
struct Spec {
  std::uint32_t section = 0;
  bool per_source = false;
};
constexpr std::array<Spec, kColumns> kSpecs{{{0, false},
                                             {kMarks, false},
                                             {kStrides, false},
                                             {kMixed, true},
                                             {kMixed, true},
                                             {kMixed, true},
                                             {kStored, false},
                                             {kStored, false},
                                             {kStored, false},
                                             {kStored, false},
                                             {kStored, true},
                                             {kStored, true},
                                             {kStored, true},
                                             {kGreatest, false},
                                             {kFirst, false}}};

constexpr std::size_t index(Column column) { return static_cast<std::size_t>(column); }

std::size_t words_of(Column column, const ColumnLayout& layout) {
  return kSpecs[index(column)].per_source ? layout.sources : layout.slots;
}

void store(std::byte* column, std::size_t i, std::int64_t value) {
  std::memcpy(column + i * kWord, &value, kWord);
}

/// Where each column starts, 0 where it is absent; the length of the vector.
std::size_t place(const ColumnLayout& layout, std::uint32_t sections,
                  std::array<std::size_t, kColumns>& start) {
  std::size_t at = kHeader;
  for (std::size_t c = 0; c < kColumns; ++c) {
    const bool there = kSpecs[c].section == 0 || (sections & kSpecs[c].section) != 0;
    start[c] = there ? at : 0;
    if (there) at += kWord * words_of(static_cast<Column>(c), layout);
  }
  return at;
}

/// join(a, b) for every word of `column`.
template <class Join>
void combine(std::byte* out, const Columns& a, const Columns& b, Column column, std::size_t count,
             Join join) {
  const Words x = a.words(column);
  const Words y = b.words(column);
  if (x.absent() || y.absent()) {
    for (std::size_t i = 0; i < count; ++i)
      store(out, i, join(a.word(column, i), b.word(column, i)));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) store(out, i, join(x[i], y[i]));
}

// Types of their own, so that each column has a loop of its own.
struct Least {
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return std::min(a, b); }
};
struct Greatest {
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return std::max(a, b); }
};
struct Either {
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return a | b; }
};
struct Lower {
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return a != 0 ? a : b; }
};

/// -1 is unset, INT64_MAX dynamic: tuples of different lengths say not even the number of dims.
std::int64_t join_dims(std::int64_t a, std::int64_t b) {
  if (a == b || b < 0) return a;
  return a < 0 ? b : INT64_MAX;
}

shapes::Seen stored(const Columns& columns, std::size_t i) {
  return {static_cast<shapes::Seen::State>(columns.word(Column::StoredStates, i) & 3),
          columns.word(Column::StoredValues, i)};
}

}  // namespace

std::optional<Columns> Columns::of(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < kHeader) return std::nullopt;
  std::memcpy(&header, bytes.data(), kHeader);
  if (header.version != kVersion || header.sections > kAllSections) return std::nullopt;
  Columns out;
  out.layout_ = {header.digest, header.slots, header.sources};
  out.sections_ = header.sections;
  std::array<std::size_t, kColumns> start{};
  if (place(out.layout_, header.sections, start) != bytes.size()) return std::nullopt;
  for (std::size_t c = 0; c < kColumns; ++c)
    if (start[c] != 0) out.words_[c] = Words(bytes.data() + start[c]);
  for (const Column column : {Column::Greatest, Column::First})
    if (out.words(column).absent()) out.words_[index(column)] = out.words_[0];
  return out;
}

std::int64_t Columns::word(Column column, std::size_t i) const {
  if (!words(column).absent()) return words(column)[i];
  const bool there = word(Column::Least, i) <= word(Column::Greatest, i);
  if (column == Column::Strides) return there ? 0 : kNoStride;
  return there ? 1 : 0;  // the bit of Mark::None
}

ColumnWriter::ColumnWriter(const ColumnLayout& layout, std::uint32_t sections)
    : layout_(layout), sections_(sections) {
  bytes_.resize(place(layout_, sections_, start_));
}

void ColumnWriter::set(Column column, std::size_t i, std::int64_t word) {
  store(bytes_.data() + start_[index(column)], i, word);
}

void ColumnWriter::set(Column column, std::span<const std::int64_t> words) {
  if (!words.empty())
    std::memcpy(bytes_.data() + start_[index(column)], words.data(), words.size_bytes());
}

void ColumnWriter::fill(Column column, std::int64_t word) {
  const std::size_t count = words_of(column, layout_);
  for (std::size_t i = 0; i < count; ++i) set(column, i, word);
}

Bytes ColumnWriter::take() && {
  // Both columns stand at the end, so that leaving them out is a matter of length. The first one
  // stays where the last one does.
  const std::byte* base = bytes_.data() + start_[0];
  const std::size_t length = kWord * layout_.slots;
  for (const auto& [column, section] :
       {std::pair(Column::First, kFirst), std::pair(Column::Greatest, kGreatest)}) {
    if ((sections_ & section) == 0) continue;
    if (std::memcmp(bytes_.data() + start_[index(column)], base, length) != 0) break;
    bytes_.resize(start_[index(column)]);
    sections_ &= ~std::uint32_t{section};
  }
  const Header header{kVersion, sections_, layout_.slots, layout_.sources, layout_.digest};
  std::memcpy(bytes_.data(), &header, kHeader);
  return std::move(bytes_);
}

void ColumnWriter::join(const Columns& a, const Columns& b) {
  const auto each = [&](Column column, auto op) {
    if (start_[index(column)] != 0)
      combine(bytes_.data() + start_[index(column)], a, b, column, words_of(column, layout_), op);
  };
  each(Column::Least, Least{});
  each(Column::Marks, Either{});
  each(Column::Strides, join_strides);
  each(Column::Kinds, Either{});
  each(Column::FirstSpec, Lower{});
  each(Column::LeastDims, Least{});
  each(Column::StoredStrides, join_strides);
  each(Column::StoredSmallest, Least{});
  each(Column::StoredSizeDims, join_dims);
  each(Column::StoredStrideDims, join_dims);
  each(Column::StoredSmallestDims, Greatest{});
  each(Column::Greatest, Greatest{});
  std::byte* first = bytes_.data() + start_[index(Column::First)];
  const Words mine = a.words(Column::First);
  if ((sections_ & kMixed) == 0) {  // every rank has every slot
    std::copy_n(mine.data(), kWord * layout_.slots, first);
  } else {
    const Words theirs = b.words(Column::First);
    const Words least = a.words(Column::Least);
    const Words greatest = a.words(Column::Greatest);
    for (std::size_t i = 0; i < layout_.slots; ++i)
      store(first, i, least[i] <= greatest[i] ? mine[i] : theirs[i]);
  }
  if ((sections_ & kStored) == 0) return;
  for (std::size_t i = 0; i < layout_.slots; ++i) {
    const shapes::Seen cell = shapes::join(stored(a, i), stored(b, i));
    set(Column::StoredStates, i, static_cast<std::int64_t>(cell.state));
    set(Column::StoredValues, i, cell.value);
  }
}

Bytes join_columns(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  const auto a = Columns::of(lower);
  const auto b = Columns::of(higher);
  // The sections that depend on one rank's values may differ; the others say what it is all about.
  if (!a || !b || a->layout() != b->layout() ||
      ((a->sections() ^ b->sections()) & (kMixed | kStored)) != 0)
    return {};
  ColumnWriter out(a->layout(), a->sections() | b->sections() | kGreatest | kFirst);
  out.join(*a, *b);
  return std::move(out).take();
}

}  // namespace lockstep::worker
