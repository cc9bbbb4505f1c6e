#include <algorithm>

#include <lockstep/worker/agree/exchange/exchange.h>

namespace lockstep::worker {
namespace {

using shapes::Dynamism;
using shapes::Seen;
using shapes::SeenDims;

std::uint8_t bit(auto enumerator) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(enumerator));
}

Seen seen(const DimCell& cell) {
  return cell.least == cell.greatest ? Seen::constant(cell.least) : Seen::dynamic();
}

/// The state of a source from this call alone; bools and floats have none.
Dynamism learn(const SourceCell& cell) {
  Dynamism out;
  if (cell.number != nullptr) out.scalar = seen(*cell.number);
  if (cell.has(Kind::Tensor)) out.scalar = Seen::dynamic();
  if (cell.has(Kind::Int) || cell.least_ndim != cell.greatest_ndim) {
    out.size.state = SeenDims::State::Dynamic;
  } else if (cell.has(Kind::Tensor)) {
    out.size.state = SeenDims::State::Tuple;
    out.size.dims.reserve(cell.dims.size());
    for (const DimCell& dim : cell.dims) out.size.dims.push_back(seen(dim));
  }
  out.smallest.reserve(cell.dims.size());
  for (const DimCell& dim : cell.dims) out.smallest.push_back(dim.least);
  return out;
}

/// Reads the cells of all values of a list. Returns false for words that no rank sends.
bool read_cells(const Columns& columns, std::vector<DimCell>& cells) {
  const Words first = columns.words(Column::First);
  const Words least = columns.words(Column::Least);
  const Words greatest = columns.words(Column::Greatest);
  const Words marks = columns.words(Column::Marks);
  const std::size_t count = columns.layout().slots;
  cells.reserve(count);
  bool sound = true;
  for (std::size_t i = 0; i < count; ++i) {
    cells.push_back({first[i], least[i], greatest[i], bit(Mark::None)});
    sound &= least[i] <= first[i] && first[i] <= greatest[i];
  }
  for (std::size_t i = 0; !marks.absent() && i < cells.size(); ++i) {
    cells[i].marks = static_cast<std::uint8_t>(marks[i]);
    sound &= marks[i] > 0 && marks[i] < 1 << kMarkCount;
  }
  return sound;
}

/// Fills in a source of a list from its `cells` and the word of its dims' order. Returns false for
/// words that no rank sends.
bool read_source(const SourceSpec& spec, const DimCell* cells, std::int64_t order,
                 SourceCell& out) {
  out.name = spec.name;
  out.kinds = bit(spec.kind);
  out.first.kind = spec.kind;
  switch (spec.kind) {
    case Kind::Float:
      return true;
    case Kind::Int:
      out.number = cells;
      return true;
    case Kind::Bool:
      out.first.truth = cells->first == 1;
      out.truths =
          static_cast<std::uint8_t>((cells->least == 0 ? 1 : 0) | (cells->greatest == 1 ? 2 : 0));
      return cells->least >= 0 && cells->greatest <= 1;
    case Kind::Tensor:
      out.first.dtype = spec.dtype;
      out.first.ndim = out.least_ndim = out.greatest_ndim = spec.ndim;
      out.dtypes = static_cast<std::uint16_t>(1U << static_cast<unsigned>(spec.dtype));
      out.dims = {cells, spec.ndim};
      out.order = order;
      return is_joined_order(order, spec.ndim);
  }
  return true;
}

ColumnLayout layout_of(const SourceList& list) {
  return {list.digest(), list.offsets().back(), static_cast<std::uint32_t>(list.sources().size())};
}

}  // namespace

bool SourceCell::scalar_dynamic() const {
  if (has(Kind::Tensor)) return true;
  const Seen here = number != nullptr ? seen(*number) : Seen::unset();
  return join(stored != nullptr ? stored->scalar : Seen::unset(), here).state ==
         Seen::State::Dynamic;
}

bool SourceCell::dynamic_by_history(std::size_t dim) const {
  using State = SeenDims::State;
  const State before = stored != nullptr ? stored->size.state : State::Unset;
  if (before == State::Dynamic || has(Kind::Int) || least_ndim != greatest_ndim) return true;
  if (!has(Kind::Tensor)) return before == State::Tuple && stored->size.dynamic(dim);
  const Seen here = dim < dims.size() ? seen(dims[dim]) : Seen::unset();
  if (before == State::Unset) return here.state == Seen::State::Dynamic;
  if (stored->size.dims.size() != dims.size()) return true;
  return dim < dims.size() && join(stored->size.dims[dim], here).state == Seen::State::Dynamic;
}

std::int64_t SourceCell::smallest(std::size_t dim) const {
  const std::int64_t here = dims[dim].least;
  if (stored == nullptr || dim >= stored->smallest.size()) return here;
  return std::min(here, stored->smallest[dim]);
}

Dynamism SourceCell::state() const {
  return stored != nullptr ? join(*stored, learn(*this)) : learn(*this);
}

FrameState joined_state(const JointObservation& joint, const FrameState& own, bool history) {
  FrameState out;
  if (history) out = joint.exchanged_states ? *joint.exchanged_states : own;
  for (const SourceCell& cell : joint.sources) {
    Dynamism state = cell.state();
    if (state != Dynamism{}) out.insert_or_assign(std::string(cell.name), std::move(state));
  }
  return out;
}

Roster roster_of(const Observation& observation, const FrameState& state, bool history,
                 const Dictionary& dictionary) {
  KnownNames seen_here, stored;
  NameWalk of_list(dictionary);
  for (const SourceSpec& spec : observation.list->sources())
    if (of_list.lacks(spec.name, spec.ndim)) seen_here.push_back({spec.name, spec.ndim});
  NameWalk of_state(dictionary);
  for (auto known = state.begin(); history && known != state.end(); ++known) {
    const shapes::Dynamism& seen = known->second;
    const std::size_t dims = std::max(seen.size.dims.size(), seen.smallest.size());
    if (of_state.lacks(known->first, dims))
      stored.push_back({known->first, static_cast<std::uint32_t>(dims)});
  }
  Roster out;
  out.dictionary.digest = dictionary.digest();
  out.list.digest = observation.list->digest();
  out.names = merge(seen_here, stored);
  return out;
}

Bytes with_fields(Bytes vector, const Observation& observation) {
  if (!observation.fields.empty())
    append_fields(vector, encode_fields(cells_of(observation.fields)));
  return vector;
}

bool read_fields(const Columns& columns, FieldCells& out) {
  if (columns.fields().empty()) return true;
  auto cells = decode_fields(columns.fields());
  if (cells) out = std::move(*cells);
  return cells.has_value();
}

Bytes list_payload(const Observation& observation) {
  const bool contiguous = observation.contiguous();
  ColumnWriter out(layout_of(*observation.list),
                   (observation.marks.empty() ? 0U : kMarks) | (contiguous ? 0U : kOrders));
  out.set(Column::Least, observation.values);
  for (std::size_t i = 0; i < observation.marks.size(); ++i)
    out.set(Column::Marks, i, bit(observation.marks[i]));
  if (!contiguous) out.set(Column::Orders, observation.orders);
  return with_fields(std::move(out).take(), observation);
}

std::optional<JointObservation> read_list_payload(std::span<const std::byte> joined,
                                                  const std::shared_ptr<const SourceList>& list,
                                                  const FrameState* state) {
  const auto columns = Columns::of(joined);
  if (!columns || columns->layout() != layout_of(*list) ||
      (columns->sections() & (kMixed | kStored)) != 0)
    return std::nullopt;
  JointObservation out;
  if (!read_fields(*columns, out.fields)) return std::nullopt;
  out.same_list = true;
  out.names = list;
  if (!read_cells(*columns, out.cells)) return std::nullopt;
  out.sources.reserve(list->sources().size());
  for (std::size_t i = 0; i < list->sources().size(); ++i) {
    const SourceSpec& spec = list->sources()[i];
    if (!read_source(spec, out.cells.data() + list->offsets()[i], columns->word(Column::Orders, i),
                     out.sources.emplace_back()))
      return std::nullopt;
  }
  if (state != nullptr) out.know(*state);
  return out;
}

void JointObservation::settle(bool on, bool but_ints) {
  for (SourceCell& cell : sources) cell.settled = on && !(but_ints && cell.number != nullptr);
}

void JointObservation::know(const FrameState& state) {
  auto stored = state.begin();
  for (SourceCell& cell : sources) {
    while (stored != state.end() && stored->first < cell.name) ++stored;
    if (stored == state.end()) return;
    if (stored->first == cell.name) cell.stored = &stored->second;
  }
}

}  // namespace lockstep::worker
