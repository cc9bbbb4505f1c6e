// The exchange if ranks see different sources or hold different states: columns over the
// dictionary. A name has a slot for an int and one per dim. Words per source:
//   Kinds      bits 0-3 kinds, 4-13 dtypes, 14-15 truth values, 16 "some rank lacks it"
//   FirstSpec  0, or bit 0 set, 1-2 kind, 3-6 dtype, 7 truth, from 8 the number of dims
#include <algorithm>

#include <lockstep/worker/agree/exchange/exchange.h>

namespace lockstep::worker {
namespace {

using shapes::Dynamism;
using shapes::Seen;
using shapes::SeenDims;

constexpr std::int64_t kMissing = 1 << 16;
constexpr std::int64_t kAllBits = (1 << 17) - 1;
constexpr std::uint32_t kDTypes = 10;

ColumnLayout layout_of(const Dictionary& dictionary) {
  // Differs from the layout of every source list: none has this digest and this number of sources.
  return {dictionary.digest(), dictionary.offsets().back(),
          static_cast<std::uint32_t>(dictionary.names().size())};
}

std::int64_t bit(auto enumerator, int from) {
  return std::int64_t{1} << (static_cast<int>(enumerator) + from);
}

/// Writes source i of a rank's list. Its values go to the slot of the name's int, or to the slots
/// of its dims, or nowhere (floats and bools).
void put_source(ColumnWriter& out, const Observation& seen, std::size_t i, std::size_t name,
                std::size_t slot, bool contiguous) {
  const SourceSpec& spec = seen.list->sources()[i];
  const std::span<const std::int64_t> values = seen.of(i);
  const bool truth = spec.kind == Kind::Bool && values[0] != 0;
  const bool tensor = spec.kind == Kind::Tensor;
  std::int64_t bits = bit(spec.kind, 0);
  if (tensor) bits |= bit(spec.dtype, 4);
  if (spec.kind == Kind::Bool) bits |= bit(truth ? 1 : 0, 14);
  out.set(Column::Kinds, name, bits);
  out.set(Column::FirstSpec, name,
          1 | static_cast<std::int64_t>(spec.kind) << 1 |
              static_cast<std::int64_t>(spec.dtype) << 3 | (truth ? 1 << 7 : 0) |
              (tensor ? std::int64_t{spec.ndim} << 8 : 0));
  if (tensor) out.set(Column::LeastDims, name, spec.ndim);
  if (tensor && !contiguous) out.set(Column::Orders, name, seen.orders[i]);
  if (!tensor && spec.kind != Kind::Int) return;
  const std::size_t first = slot + (tensor ? 1 : 0);
  for (std::size_t d = 0; d < values.size(); ++d) {
    for (const Column column : {Column::Least, Column::Greatest, Column::First})
      out.set(column, first + d, values[d]);
    if (!seen.marks.empty()) out.set(Column::Marks, first + d, bit(seen.mark(i, d), 0));
  }
}

std::int64_t dims_word(const SeenDims& dims) {
  if (dims.state == SeenDims::State::Unset) return -1;
  return dims.state == SeenDims::State::Dynamic ? INT64_MAX
                                                : static_cast<std::int64_t>(dims.dims.size());
}

void put_stored(ColumnWriter& out, const Dynamism& stored, std::size_t name, std::size_t slot) {
  const auto cell = [&](std::size_t at, const Seen& seen) {
    out.set(Column::StoredStates, at, static_cast<std::int64_t>(seen.state));
    out.set(Column::StoredValues, at, seen.value);
  };
  cell(slot, stored.scalar);
  for (std::size_t d = 0; d < stored.size.dims.size(); ++d) cell(slot + 1 + d, stored.size.dims[d]);
  for (std::size_t d = 0; d < stored.smallest.size(); ++d)
    out.set(Column::StoredSmallest, slot + 1 + d, stored.smallest[d]);
  out.set(Column::StoredSizeDims, name, dims_word(stored.size));
  out.set(Column::StoredSmallestDims, name, static_cast<std::int64_t>(stored.smallest.size()));
}

/// Reads what the functions above write; `sound` turns false at the first word that no rank writes.
class Reader {
 public:
  /// Puts the cell of each slot at the slot's index in `joint.cells`.
  Reader(const Columns& columns, const Dictionary& dictionary, JointObservation& joint)
      : columns_(columns), dictionary_(dictionary), joint_(joint) {
    joint_.cells.resize(columns.layout().slots);
  }

  bool sound = true;

  /// The cell of name i; nullopt if no rank has it in this call.
  std::optional<SourceCell> source(std::size_t i) {
    const std::int64_t bits = columns_.word(Column::Kinds, i);
    const std::int64_t first = columns_.word(Column::FirstSpec, i);
    const std::size_t slot = dictionary_.offsets()[i];
    require(bits >= 0 && bits <= kAllBits && ((bits & 15) != 0) == (first != 0));
    if (!sound || first == 0) return std::nullopt;
    SourceCell out;
    out.name = dictionary_.names()[i].name;
    out.missing = (bits & kMissing) != 0;
    out.kinds = static_cast<std::uint8_t>(bits & 15);
    out.dtypes = static_cast<std::uint16_t>(bits >> 4 & ((1 << kDTypes) - 1));
    out.truths = static_cast<std::uint8_t>(bits >> 14 & 3);
    out.first = {static_cast<Kind>(first >> 1 & 3), static_cast<DType>(first >> 3 & 15),
                 static_cast<std::uint32_t>(first >> 8), (first >> 7 & 1) != 0};
    require((first & 1) == 1 && first >> 8 <= dictionary_.names()[i].dims &&
            static_cast<std::uint32_t>(out.first.dtype) < kDTypes && out.has(out.first.kind));
    require(out.has(Kind::Int) == there(slot));
    if (out.has(Kind::Int)) out.number = cell(slot);
    if (out.has(Kind::Tensor)) dims(out, i, slot + 1);
    require(out.first.ndim <= out.greatest_ndim);
    return out;
  }

  /// The joined stored states of name i.
  Dynamism stored(std::size_t i) {
    const std::size_t slot = dictionary_.offsets()[i];
    Dynamism out;
    out.scalar = stored_cell(slot);
    out.size.state = dims_state(columns_.word(Column::StoredSizeDims, i), i);
    const std::int64_t smallest = columns_.word(Column::StoredSmallestDims, i);
    require(smallest >= 0 && smallest <= dictionary_.names()[i].dims);
    if (!sound) return out;
    if (out.size.state == SeenDims::State::Tuple)
      for (std::int64_t d = columns_.word(Column::StoredSizeDims, i); d > 0; --d)
        out.size.dims.push_back(stored_cell(slot + 1 + out.size.dims.size()));
    for (std::int64_t d = 0; d < smallest; ++d)
      out.smallest.push_back(
          columns_.word(Column::StoredSmallest, slot + 1 + static_cast<std::size_t>(d)));
    return out;
  }

 private:
  void require(bool condition) { sound = sound && condition; }
  [[nodiscard]] bool there(std::size_t slot) const {
    return columns_.word(Column::Least, slot) <= columns_.word(Column::Greatest, slot);
  }
  const DimCell* cell(std::size_t slot) {
    const std::int64_t marks = columns_.word(Column::Marks, slot);
    DimCell& out = joint_.cells[slot];
    out = {columns_.word(Column::First, slot), columns_.word(Column::Least, slot),
           columns_.word(Column::Greatest, slot), static_cast<std::uint8_t>(marks)};
    require(out.least <= out.first && out.first <= out.greatest && marks > 0 &&
            marks < 1 << kMarkCount);
    return &out;
  }
  void dims(SourceCell& out, std::size_t i, std::size_t slot) {
    const std::uint32_t known = dictionary_.names()[i].dims;
    const std::int64_t least = columns_.word(Column::LeastDims, i);
    std::uint32_t ndim = 0;
    for (; ndim < known && there(slot + ndim); ++ndim) (void)cell(slot + ndim);
    require(least >= 0 && least <= ndim);
    if (!sound) return;
    out.least_ndim = static_cast<std::uint32_t>(least);
    out.greatest_ndim = ndim;
    out.dims = std::span(joint_.cells).subspan(slot, ndim);
    out.order = columns_.word(Column::Orders, i);
    require(is_joined_order(out.order, ndim));
  }
  Seen stored_cell(std::size_t slot) {
    const std::int64_t state = columns_.word(Column::StoredStates, slot);
    require(state == 0 || state == 1 || state == 3);
    return {static_cast<Seen::State>(state & 3), columns_.word(Column::StoredValues, slot)};
  }
  SeenDims::State dims_state(std::int64_t word, std::size_t i) {
    require(word >= -1 && (word == INT64_MAX || word <= dictionary_.names()[i].dims));
    if (word < 0) return SeenDims::State::Unset;
    return word == INT64_MAX ? SeenDims::State::Dynamic : SeenDims::State::Tuple;
  }

  const Columns& columns_;
  const Dictionary& dictionary_;
  JointObservation& joint_;
};

}  // namespace

Bytes mixed_payload(const Observation& observation, const Dictionary& dictionary,
                    const FrameState* state) {
  const bool contiguous = observation.contiguous();
  const std::uint32_t sections = kMixed | kGreatest | kFirst |
                                 (observation.marks.empty() ? 0U : kMarks) |
                                 (contiguous ? 0U : kOrders) | (state == nullptr ? 0U : kStored);
  ColumnWriter out(layout_of(dictionary), sections);
  out.fill(Column::Least, INT64_MAX);
  out.fill(Column::Greatest, INT64_MIN);
  out.fill(Column::Kinds, kMissing);
  out.fill(Column::LeastDims, INT64_MAX);
  if (!contiguous) out.fill(Column::Orders, kNoOrder);
  const std::vector<SourceSpec>& specs = observation.list->sources();
  NameWalk of_list(dictionary);
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (const auto name = of_list.find(specs[i].name))
      put_source(out, observation, i, *name, dictionary.offsets()[*name], contiguous);
  if (state == nullptr) return with_fields(std::move(out).take(), observation);
  out.fill(Column::StoredSmallest, INT64_MAX);
  out.fill(Column::StoredSizeDims, -1);
  NameWalk of_state(dictionary);
  for (const auto& [source, stored] : *state)
    if (const auto name = of_state.find(source))
      put_stored(out, stored, *name, dictionary.offsets()[*name]);
  return with_fields(std::move(out).take(), observation);
}

std::optional<JointObservation> read_mixed_payload(
    std::span<const std::byte> joined, const std::shared_ptr<const Dictionary>& dictionary,
    const FrameState* state) {
  const auto columns = Columns::of(joined);
  if (!columns || columns->layout() != layout_of(*dictionary) ||
      (columns->sections() & kMixed) == 0)
    return std::nullopt;
  JointObservation out;
  if (!read_fields(*columns, out.fields)) return std::nullopt;
  out.names = dictionary;
  Reader reader(*columns, *dictionary, out);
  if ((columns->sections() & kStored) != 0) {
    out.exchanged_states.emplace();
    state = &*out.exchanged_states;
  }
  for (std::size_t i = 0; i < dictionary->names().size(); ++i) {
    if (auto cell = reader.source(i)) out.sources.push_back(*cell);
    if (out.exchanged_states) {
      Dynamism stored = reader.stored(i);
      if (stored != Dynamism{})
        out.exchanged_states->emplace_hint(out.exchanged_states->end(), dictionary->names()[i].name,
                                           std::move(stored));
    }
    if (!reader.sound) return std::nullopt;
  }
  if (state != nullptr) out.know(*state);
  return out;
}

}  // namespace lockstep::worker
