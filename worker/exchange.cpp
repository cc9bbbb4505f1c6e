#include <algorithm>

#include <lockstep/worker/exchange.h>
#include <lockstep/worker/stride_code.h>

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

/// The field `size` or `stride` of what this call alone says of a source.
SeenDims seen_dims(const SourceCell& cell, Seen (*of)(const DimCell&)) {
  SeenDims out;
  if (cell.has(Kind::Int) || (cell.has(Kind::Tensor) && cell.least_ndim != cell.greatest_ndim)) {
    out.state = SeenDims::State::Dynamic;
  } else if (cell.has(Kind::Tensor)) {
    out.state = SeenDims::State::Tuple;
    out.dims.reserve(cell.dims.size());
    for (const DimCell& dim : cell.dims) out.dims.push_back(of(dim));
  }
  return out;
}

/// What this call alone says of a source (format: bools and floats nothing).
Dynamism learn(const SourceCell& cell) {
  Dynamism out;
  if (cell.number != nullptr) out.scalar = seen(*cell.number);
  if (cell.has(Kind::Tensor)) out.scalar = Seen::dynamic();
  out.size = seen_dims(cell, seen);
  out.stride = seen_dims(cell, [](const DimCell& dim) { return dim.stride; });
  out.smallest.reserve(cell.dims.size());
  for (const DimCell& dim : cell.dims) out.smallest.push_back(dim.least);
  return out;
}

/// Fills in the cells of a source of a list, whose values start at `slot`. False: no rank can have
/// sent that.
bool read_cells(const Columns& columns, std::size_t slot, std::size_t count,
                std::vector<DimCell>& cells) {
  const Words first = columns.words(Column::First);
  const Words least = columns.words(Column::Least);
  const Words greatest = columns.words(Column::Greatest);
  const bool plain = (columns.sections() & (kMarks | kStrides)) == 0;
  bool sound = true;
  for (std::size_t d = 0; d < count; ++d) {
    const std::size_t at = slot + d;
    DimCell& cell = cells.emplace_back();
    cell.first = first[at];
    cell.least = least[at];
    cell.greatest = greatest[at];
    sound &= cell.least <= cell.first && cell.first <= cell.greatest;
    if (plain) {
      cell.marks = bit(Mark::None);
      cell.stride = contiguous_stride(d, count);
      continue;
    }
    const std::int64_t marks = columns.word(Column::Marks, at);
    const auto stride = stride_of(columns.word(Column::Strides, at), d, count);
    cell.marks = static_cast<std::uint8_t>(marks);
    cell.stride = stride.value_or(Seen::unset());
    sound &= marks > 0 && marks < 1 << 5 && stride.has_value();
  }
  return sound;
}

bool read_source(const SourceSpec& spec, const Columns& columns, std::size_t slot,
                 std::vector<DimCell>& cells, SourceCell& out) {
  const std::size_t start = cells.size();
  const std::size_t count = spec.kind == Kind::Tensor ? spec.ndim : spec.kind != Kind::Float;
  if (!read_cells(columns, slot, count, cells)) return false;
  out.name = spec.name;
  out.kinds = bit(spec.kind);
  out.first.kind = spec.kind;
  if (spec.kind == Kind::Int) out.number = &cells[start];
  if (spec.kind == Kind::Bool) {
    const DimCell& cell = cells[start];
    if (cell.least < 0 || cell.greatest > 1) return false;
    out.first.truth = cell.first == 1;
    out.truths =
        static_cast<std::uint8_t>((cell.least == 0 ? 1 : 0) | (cell.greatest == 1 ? 2 : 0));
  }
  if (spec.kind != Kind::Tensor) return true;
  out.first.dtype = spec.dtype;
  out.first.ndim = out.least_ndim = out.greatest_ndim = spec.ndim;
  out.dtypes = static_cast<std::uint16_t>(1U << static_cast<unsigned>(spec.dtype));
  out.dims = std::span(cells).subspan(start);
  return true;
}

Layout layout_of(const SourceList& list) { return {list.digest(), list.offsets().back(), 0}; }

}  // namespace

bool SourceCell::scalar_dynamic() const {
  if (has(Kind::Tensor)) return true;
  const Seen here = number != nullptr ? seen(*number) : Seen::unset();
  return join(stored != nullptr ? stored->scalar : Seen::unset(), here).state ==
         Seen::State::Dynamic;
}

bool SourceCell::size_dynamic(std::size_t dim) const {
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
  if (history) out = joint.travelled ? *joint.travelled : own;
  for (const SourceCell& cell : joint.sources) {
    Dynamism state = cell.state();
    if (state != Dynamism{}) out.insert_or_assign(std::string(cell.name), std::move(state));
  }
  return out;
}

Roster roster_of(const Observation& observation, const FrameState& state, bool history,
                 const Dictionary& dictionary) {
  KnownNames seen_here, stored;
  for (const SourceSpec& spec : observation.list->sources())
    seen_here.push_back({spec.name, spec.ndim});
  for (const auto& [name, known] : state) {
    const std::size_t dims =
        std::max({known.size.dims.size(), known.stride.dims.size(), known.smallest.size()});
    if (history) stored.push_back({name, static_cast<std::uint32_t>(dims)});
  }
  Roster out;
  out.dictionary.digest = dictionary.digest();
  out.list.digest = observation.list->digest();
  out.names = dictionary.missing(merge(seen_here, stored));
  return out;
}

Bytes list_payload(const Observation& observation) {
  const std::vector<std::int64_t> strides = stride_codes(observation);
  ColumnWriter out(layout_of(*observation.list),
                   (observation.marks.empty() ? 0U : kMarks) | (strides.empty() ? 0U : kStrides));
  out.set(Column::Least, observation.values);
  for (std::size_t i = 0; i < observation.marks.size(); ++i)
    out.set(Column::Marks, i, bit(observation.marks[i]));
  if (!strides.empty()) out.set(Column::Strides, strides);
  return std::move(out).take();
}

std::optional<JointObservation> read_list_payload(std::span<const std::byte> joined,
                                                  const std::shared_ptr<const SourceList>& list,
                                                  const FrameState* state) {
  const auto columns = Columns::of(joined);
  if (!columns || columns->layout() != layout_of(*list) ||
      (columns->sections() & (kMixed | kStored)) != 0)
    return std::nullopt;
  JointObservation out;
  out.same_list = true;
  out.names = list;
  out.cells.reserve(list->offsets().back());  // `dims` refer to them
  out.sources.resize(list->sources().size());
  for (std::size_t i = 0; i < out.sources.size(); ++i)
    if (!read_source(list->sources()[i], *columns, list->offsets()[i], out.cells, out.sources[i]))
      return std::nullopt;
  if (state != nullptr) out.know(*state);
  return out;
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
