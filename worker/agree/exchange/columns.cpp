#include <algorithm>
#include <bit>
#include <cstring>

#include <lockstep/shapes/expr/dynamism.h>
#include <lockstep/worker/agree/exchange/columns.h>
#include <lockstep/worker/agree/exchange/dim_order.h>
#include <lockstep/worker/agree/exchange/field.h>

namespace lockstep::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "columns travel as they lie in memory");

constexpr std::size_t kWord = 8;

struct Header {
  std::uint32_t version = kColumnsVersion, sections = 0, slots = 0, sources = 0;
  shapes::Fingerprint digest;
};
constexpr std::size_t kHeader = sizeof(Header);
static_assert(kHeader == 32);

void store(std::byte* column, std::size_t i, std::int64_t value) {
  std::memcpy(column + i * kWord, &value, kWord);
}

/// Joins the words of a column of `a` and `b` to `count` words at `out`.
using Join = void (*)(std::byte* out, const Columns& a, const Columns& b, Column column,
                      std::size_t count);

/// Joins word by word. Each kind of join has its own instance of this loop.
template <std::int64_t (*join)(std::int64_t, std::int64_t)>
void each(std::byte* out, const Columns& a, const Columns& b, Column column, std::size_t count) {
  const Words x = a.words(column);
  const Words y = b.words(column);
  if (x.absent() || y.absent()) {
    for (std::size_t i = 0; i < count; ++i)
      store(out, i, join(a.word(column, i), b.word(column, i)));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) store(out, i, join(x[i], y[i]));
}

std::int64_t least(std::int64_t a, std::int64_t b) { return std::min(a, b); }
std::int64_t greatest(std::int64_t a, std::int64_t b) { return std::max(a, b); }
std::int64_t either(std::int64_t a, std::int64_t b) { return a | b; }
std::int64_t lower(std::int64_t a, std::int64_t b) { return a != 0 ? a : b; }

/// Joins numbers of dims: -1 is unset, INT64_MAX dynamic. Different numbers join to dynamic.
std::int64_t join_dims(std::int64_t a, std::int64_t b) {
  if (a == b || b < 0) return a;
  return a < 0 ? b : INT64_MAX;
}

/// Takes the words of `a`, or of `b` if no rank of `a` has the slot.
void join_first(std::byte* out, const Columns& a, const Columns& b, Column column,
                std::size_t count) {
  const Words mine = a.words(column);
  if ((a.sections() & kMixed) == 0) {  // every rank has every slot
    std::copy_n(mine.data(), kWord * count, out);
    return;
  }
  const Words theirs = b.words(column);
  const Words low = a.words(Column::Least);
  const Words high = a.words(Column::Greatest);
  for (std::size_t i = 0; i < count; ++i) store(out, i, low[i] <= high[i] ? mine[i] : theirs[i]);
}

shapes::Seen stored(const Columns& columns, std::size_t i) {
  return {static_cast<shapes::Seen::State>(columns.word(Column::StoredStates, i) & 3),
          columns.word(Column::StoredValues, i)};
}

/// Joins stored cells by their lattice. A cell's state and value are in two columns.
void join_stored(std::byte* out, const Columns& a, const Columns& b, Column column,
                 std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const shapes::Seen cell = shapes::join(stored(a, i), stored(b, i));
    store(out, i,
          column == Column::StoredStates ? static_cast<std::int64_t>(cell.state) : cell.value);
  }
}

struct Spec {
  Column column;
  std::uint32_t section;  // 0: always present
  bool per_source;        // else per slot
  Join join;
  /// What an absent column stands for: `held` if the rank has the slot (or the source, as a
  /// tensor), `lacked` if not.
  std::int64_t held = 0, lacked = 0;
};
constexpr bool kPerSlot = false, kPerSource = true;
constexpr std::array<Spec, kColumns> kSpecs{{
    {Column::Least, 0, kPerSlot, each<least>},
    {Column::Marks, kMarks, kPerSlot, each<either>, 1, 0},  // the bit of Mark::None
    {Column::Orders, kOrders, kPerSource, each<join_orders>, 0, kNoOrder},
    {Column::Kinds, kMixed, kPerSource, each<either>},
    {Column::FirstSpec, kMixed, kPerSource, each<lower>},
    {Column::LeastDims, kMixed, kPerSource, each<least>},
    {Column::StoredStates, kStored, kPerSlot, join_stored},
    {Column::StoredValues, kStored, kPerSlot, join_stored},
    {Column::StoredSmallest, kStored, kPerSlot, each<least>},
    {Column::StoredSizeDims, kStored, kPerSource, each<join_dims>},
    {Column::StoredSmallestDims, kStored, kPerSource, each<greatest>},
    {Column::Greatest, kGreatest, kPerSlot, each<greatest>},
    {Column::First, kFirst, kPerSlot, join_first},
}};

constexpr std::size_t index(Column column) { return static_cast<std::size_t>(column); }

constexpr bool in_order() {
  for (std::size_t c = 0; c < kColumns; ++c)
    if (index(kSpecs[c].column) != c) return false;
  return true;
}
static_assert(in_order(), "every column has its row, in the order of Column");

constexpr std::uint32_t all_sections() {
  std::uint32_t out = kFields;
  for (const Spec& spec : kSpecs) out |= spec.section;
  return out;
}

std::size_t words_of(const Spec& spec, const ColumnLayout& layout) {
  return spec.per_source ? layout.sources : layout.slots;
}

/// Sets the offset of each column, 0 if it is absent. Returns the length of the vector.
std::size_t place(const ColumnLayout& layout, std::uint32_t sections,
                  std::array<std::size_t, kColumns>& start) {
  std::size_t at = kHeader;
  for (std::size_t c = 0; c < kColumns; ++c) {
    const bool there = kSpecs[c].section == 0 || (sections & kSpecs[c].section) != 0;
    start[c] = there ? at : 0;
    if (there) at += kWord * words_of(kSpecs[c], layout);
  }
  return at;
}

}  // namespace

std::optional<Columns> Columns::of(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < kHeader) return std::nullopt;
  std::memcpy(&header, bytes.data(), kHeader);
  if (header.version != kColumnsVersion || (header.sections & ~all_sections()) != 0)
    return std::nullopt;
  Columns out;
  out.layout_ = {header.digest, header.slots, header.sources};
  out.sections_ = header.sections;
  std::array<std::size_t, kColumns> start{};
  const std::size_t length = place(out.layout_, header.sections, start);
  const bool fields = (header.sections & kFields) != 0;
  if (fields ? length >= bytes.size() : length != bytes.size()) return std::nullopt;
  out.fields_ = bytes.subspan(length);
  for (std::size_t c = 0; c < kColumns; ++c)
    if (start[c] != 0) out.words_[c] = Words(bytes.data() + start[c]);
  for (const Column column : {Column::Greatest, Column::First})
    if (out.words(column).absent()) out.words_[index(column)] = out.words_[0];
  return out;
}

std::int64_t Columns::word(Column column, std::size_t i) const {
  if (!words(column).absent()) return words(column)[i];
  const Spec& spec = kSpecs[index(column)];
  const bool held = !spec.per_source
                        ? word(Column::Least, i) <= word(Column::Greatest, i)
                        : (sections_ & kMixed) == 0 || word(Column::LeastDims, i) != INT64_MAX;
  return held ? spec.held : spec.lacked;
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
  const std::size_t count = words_of(kSpecs[index(column)], layout_);
  for (std::size_t i = 0; i < count; ++i) set(column, i, word);
}

Bytes ColumnWriter::take() && {
  // Greatest and First are the last columns, so they are cut off. Greatest must stay if First
  // stays.
  const std::byte* base = bytes_.data() + start_[0];
  const std::size_t length = kWord * layout_.slots;
  for (const auto& [column, section] :
       {std::pair(Column::First, kFirst), std::pair(Column::Greatest, kGreatest)}) {
    if ((sections_ & section) == 0) continue;
    if (std::memcmp(bytes_.data() + start_[index(column)], base, length) != 0) break;
    bytes_.resize(start_[index(column)]);
    sections_ &= ~std::uint32_t{section};
  }
  const Header header{kColumnsVersion, sections_, layout_.slots, layout_.sources, layout_.digest};
  std::memcpy(bytes_.data(), &header, kHeader);
  return std::move(bytes_);
}

void ColumnWriter::join(const Columns& a, const Columns& b) {
  for (const Spec& spec : kSpecs)
    if (const std::size_t start = start_[index(spec.column)]; start != 0)
      spec.join(bytes_.data() + start, a, b, spec.column, words_of(spec, layout_));
}

void append_fields(Bytes& vector, std::span<const std::byte> fields) {
  if (fields.empty()) return;
  Header header;
  std::memcpy(&header, vector.data(), kHeader);
  header.sections |= kFields;
  std::memcpy(vector.data(), &header, kHeader);
  vector.insert(vector.end(), fields.begin(), fields.end());
}

namespace {

/// The joined fields, encoded. A side without fields lacks all fields of the other side. nullopt:
/// unreadable.
std::optional<Bytes> joined_fields(std::span<const std::byte> lower,
                                   std::span<const std::byte> higher) {
  const auto read = [](std::span<const std::byte> bytes) {
    return bytes.empty() ? FieldCells{} : decode_fields(bytes);
  };
  const std::optional<FieldCells> a = read(lower), b = read(higher);
  if (!a || !b) return std::nullopt;
  return encode_fields(join_fields(*a, *b));
}

}  // namespace

Bytes join_columns(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  const auto a = Columns::of(lower);
  const auto b = Columns::of(higher);
  // Sections that depend on a rank's own values may differ; those that the kind of exchange sets
  // may not.
  if (!a || !b || a->layout() != b->layout() ||
      ((a->sections() ^ b->sections()) & (kMixed | kStored)) != 0)
    return {};
  const std::uint32_t sections = a->sections() | b->sections();
  ColumnWriter out(a->layout(), (sections & ~std::uint32_t{kFields}) | kGreatest | kFirst);
  out.join(*a, *b);
  Bytes joined = std::move(out).take();
  if ((sections & kFields) == 0) return joined;
  const auto fields = joined_fields(a->fields(), b->fields());
  if (!fields) return {};
  append_fields(joined, *fields);
  return joined;
}

}  // namespace lockstep::worker
