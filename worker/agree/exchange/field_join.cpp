#include <algorithm>
#include <functional>
#include <set>

#include <lockstep/worker/agree/exchange/field.h>

namespace lockstep::worker {
namespace {

enum Fault : std::uint8_t { kLacked = 1, kClash = 2, kDiffers = 4, kTooLarge = 8 };

struct ByValue {
  bool operator()(const FieldValue* a, const FieldValue* b) const { return *a < *b; }
};
using Known = std::set<const FieldValue*, ByValue>;

void drop_values(FieldCell& cell, bool FieldCell::*why) {
  cell.clash = cell.differs = cell.too_large = false;
  cell.*why = true;
  cell.values.clear();
}

/// Adds the values of `higher` that are new, after those of `out`.
void unite(FieldCell& out, const FieldCell& higher) {
  Known known;
  std::size_t bytes = 0;
  for (const FieldValue& value : out.values) {
    known.insert(&value);
    bytes += bytes_of(out.spec.type, value);
  }
  std::vector<const FieldValue*> fresh;
  for (const FieldValue& value : higher.values) {
    if (known.count(&value) != 0) continue;
    bytes += bytes_of(out.spec.type, value);
    fresh.push_back(&value);
  }
  if (bytes > kMostUnionBytes) return drop_values(out, &FieldCell::too_large);
  for (const FieldValue* value : fresh) out.values.push_back(*value);
}

void join_values(FieldCell& out, const FieldCell& higher) {
  if (out.differs || higher.differs) return drop_values(out, &FieldCell::differs);
  if (out.too_large || higher.too_large) return drop_values(out, &FieldCell::too_large);
  FieldValue& mine = out.values.front();
  const FieldValue& theirs = higher.values.front();
  switch (out.spec.join) {
    case FieldJoin::Equal:
      if (mine != theirs) drop_values(out, &FieldCell::differs);
      return;
    case FieldJoin::Min:
      mine = std::min(mine, theirs);
      return;
    case FieldJoin::Max:
      mine = std::max(mine, theirs);
      return;
    case FieldJoin::Union:
      return unite(out, higher);
  }
}

FieldCell joined(const FieldCell& lower, const FieldCell& higher) {
  FieldCell out = lower;
  out.missing = lower.missing || higher.missing;
  if (lower.clash || higher.clash || lower.spec != higher.spec)
    drop_values(out, &FieldCell::clash);
  else
    join_values(out, higher);
  return out;
}

FieldCell lacking(FieldCell cell) {
  cell.missing = true;
  return cell;
}

void put(ByteWriter& out, FieldType type, const FieldValue& value) {
  if (type == FieldType::Bool)
    out.u8(static_cast<std::uint8_t>(value.number));
  else if (type == FieldType::Int)
    out.i64(value.number);
  else
    out.text(value.bytes);
}

FieldValue take(ByteReader& in, FieldType type) {
  FieldValue out;
  if (type == FieldType::Bool)
    out.number = in.u8();
  else if (type == FieldType::Int)
    out.number = in.i64();
  else
    out.bytes = in.text();
  return out;
}

/// True if some rank can have sent these values.
bool sound_values(const FieldCell& cell) {
  const FieldType type = cell.spec.type;
  const bool none = cell.clash || cell.differs || cell.too_large;
  if (none) return cell.values.empty();
  if (cell.values.empty() || (cell.spec.join != FieldJoin::Union && cell.values.size() > 1))
    return false;
  Known known;
  std::size_t bytes = 0;
  for (const FieldValue& value : cell.values) {
    if (type == FieldType::Bool && (value.number & ~std::int64_t{1}) != 0) return false;
    if (value.bytes.size() > kMostFieldBytes || !known.insert(&value).second) return false;
    bytes += bytes_of(type, value);
  }
  return bytes <= kMostUnionBytes;
}

bool sound(const FieldCell& cell, std::uint8_t flags) {
  const int faults = (cell.clash ? 1 : 0) + (cell.differs ? 1 : 0) + (cell.too_large ? 1 : 0);
  return flags < 16 && faults <= 1 && !cell.spec.name.empty() &&
         (!cell.differs || cell.spec.join == FieldJoin::Equal) &&
         (!cell.too_large || cell.spec.join == FieldJoin::Union) &&
         (cell.spec.type != FieldType::Object || cell.spec.join == FieldJoin::Equal) &&
         sound_values(cell);
}

}  // namespace

FieldCells cells_of(const std::vector<Field>& fields) {
  FieldCells out;
  for (const Field& field : fields) {
    FieldCell cell;
    cell.spec = field.spec;
    cell.values.push_back(field.value);
    out.push_back(std::move(cell));
  }
  return out;
}

FieldCells join_fields(const FieldCells& lower, const FieldCells& higher) {
  FieldCells out;
  auto a = lower.begin();
  auto b = higher.begin();
  while (a != lower.end() || b != higher.end()) {
    const int order = a == lower.end()    ? 1
                      : b == higher.end() ? -1
                                          : a->spec.name.compare(b->spec.name);
    if (order == 0)
      out.push_back(joined(*a++, *b++));
    else
      out.push_back(lacking(order < 0 ? *a++ : *b++));
  }
  return out;
}

Bytes encode_fields(const FieldCells& cells) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(cells.size()));
  for (const FieldCell& cell : cells) {
    out.text(cell.spec.name);
    out.u8(static_cast<std::uint8_t>(cell.spec.type));
    out.u8(static_cast<std::uint8_t>(cell.spec.join));
    out.u8(static_cast<std::uint8_t>((cell.missing ? kLacked : 0) | (cell.clash ? kClash : 0) |
                                     (cell.differs ? kDiffers : 0) |
                                     (cell.too_large ? kTooLarge : 0)));
    out.u32(static_cast<std::uint32_t>(cell.values.size()));
    for (const FieldValue& value : cell.values) put(out, cell.spec.type, value);
  }
  return std::move(out).take();
}

std::optional<FieldCells> decode_fields(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  FieldCells out;
  bool good = true;
  for (std::uint32_t n = in.count(11); n > 0 && good && in.ok(); --n) {
    FieldCell cell;
    cell.spec.name = in.text();
    const std::uint8_t type = in.u8(), join = in.u8(), flags = in.u8();
    if (type >= kFieldTypes || join >= kFieldJoins) return std::nullopt;
    cell.spec.type = static_cast<FieldType>(type);
    cell.spec.join = static_cast<FieldJoin>(join);
    cell.missing = (flags & kLacked) != 0;
    cell.clash = (flags & kClash) != 0;
    cell.differs = (flags & kDiffers) != 0;
    cell.too_large = (flags & kTooLarge) != 0;
    for (std::uint32_t v = in.count(1); v > 0 && in.ok(); --v)
      cell.values.push_back(take(in, cell.spec.type));
    good = sound(cell, flags) && (out.empty() || out.back().spec.name < cell.spec.name);
    out.push_back(std::move(cell));
  }
  if (!good || !in.ok() || !in.at_end() || out.empty()) return std::nullopt;
  return out;
}

}  // namespace lockstep::worker
