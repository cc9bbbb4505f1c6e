#include <algorithm>

#include <lockstep/worker/exchange.h>

namespace lockstep::worker {
namespace {

std::uint8_t bit(auto enumerator) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(enumerator));
}

DimCell cell_of(Rank self, std::int64_t value, Mark mark) {
  return {self, value, value, value, bit(mark)};
}

shapes::Seen seen(const DimCell& cell) {
  return cell.least == cell.greatest ? shapes::Seen::constant(cell.least) : shapes::Seen::dynamic();
}

/// What the lattice learns from a source that all ranks in `cell` have in one kind and with one
/// number of dims (format: bools and floats nothing).
shapes::Dynamism learn(const SourceCell& cell) {
  shapes::Dynamism out;
  if (cell.number) {
    out = shapes::Dynamism::of_int(0);
    out.scalar = seen(*cell.number);
  }
  if (!cell.has(Kind::Tensor)) return out;
  out.scalar = shapes::Seen::dynamic();
  out.size.state = shapes::SeenDims::State::Tuple;
  for (const DimCell& dim : cell.dims) {
    out.size.dims.push_back(seen(dim));
    out.smallest.push_back(dim.least);
  }
  return out;
}

SourceCell source_of(Rank self, const Observation& observation, std::size_t i) {
  const SourceSpec& spec = observation.list->sources()[i];
  const std::span<const std::int64_t> values = observation.of(i);
  SourceCell cell;
  cell.name = spec.name;
  cell.kinds = bit(spec.kind);
  cell.first = SourceCell::First{.rank = self, .kind = spec.kind};
  switch (spec.kind) {
    case Kind::Float:
      break;
    case Kind::Bool:
      cell.first->truth = values[0] != 0;
      cell.truths = cell.first->truth ? 2 : 1;
      break;
    case Kind::Int:
      cell.number = cell_of(self, values[0], Mark::None);
      break;
    case Kind::Tensor:
      cell.first->dtype = spec.dtype;
      cell.first->ndim = spec.ndim;
      cell.dtypes = static_cast<std::uint16_t>(1U << static_cast<unsigned>(spec.dtype));
      cell.least_ndim = cell.greatest_ndim = spec.ndim;
      for (std::size_t d = 0; d < values.size(); ++d)
        cell.dims.push_back(cell_of(self, values[d], observation.mark(i, d)));
  }
  cell.state = learn(cell);
  return cell;
}

void absorb(DimCell& lower, const DimCell& higher) {
  lower.least = std::min(lower.least, higher.least);
  lower.greatest = std::max(lower.greatest, higher.greatest);
  lower.marks |= higher.marks;
}

SourceCell join_sources(SourceCell lower, const SourceCell& higher) {
  if (lower.has(Kind::Tensor) && higher.has(Kind::Tensor)) {
    lower.least_ndim = std::min(lower.least_ndim, higher.least_ndim);
    lower.greatest_ndim = std::max(lower.greatest_ndim, higher.greatest_ndim);
  } else if (higher.has(Kind::Tensor)) {
    lower.least_ndim = higher.least_ndim;
    lower.greatest_ndim = higher.greatest_ndim;
  }
  lower.missing |= higher.missing;
  if (!lower.first) lower.first = higher.first;
  lower.kinds |= higher.kinds;
  lower.dtypes |= higher.dtypes;
  lower.truths |= higher.truths;
  if (!lower.number)
    lower.number = higher.number;
  else if (higher.number)
    absorb(*lower.number, *higher.number);
  for (std::size_t d = 0; d < higher.dims.size(); ++d) {
    if (d < lower.dims.size())
      absorb(lower.dims[d], higher.dims[d]);
    else
      lower.dims.push_back(higher.dims[d]);
  }
  lower.state = shapes::join(lower.state, higher.state);
  return lower;
}

/// One source of the joined columns, which start at `slot` for it. nullopt: no rank can have
/// sent that.
std::optional<SourceCell> read_source(const SourceSpec& spec, const Columns& columns,
                                      std::size_t slot) {
  const std::size_t count = spec.kind == Kind::Tensor ? spec.ndim : spec.kind != Kind::Float;
  std::vector<DimCell> cells;
  for (std::size_t i = slot; i < slot + count; ++i) {
    const DimCell cell{Rank{0}, columns.first(i), columns.least(i), columns.greatest(i),
                       columns.marks(i)};
    if (cell.first < cell.least || cell.first > cell.greatest || cell.marks == 0 ||
        cell.marks >= 1U << 5)
      return std::nullopt;
    cells.push_back(cell);
  }
  SourceCell out;
  out.name = spec.name;
  out.kinds = bit(spec.kind);
  out.first = SourceCell::First{.rank = Rank{0}, .kind = spec.kind};
  switch (spec.kind) {
    case Kind::Float:
      break;
    case Kind::Bool:
      if (cells[0].least < 0 || cells[0].greatest > 1) return std::nullopt;
      out.first->truth = cells[0].first == 1;
      out.truths = static_cast<std::uint8_t>((cells[0].least == 0 ? 1 : 0) |
                                             (cells[0].greatest == 1 ? 2 : 0));
      break;
    case Kind::Int:
      out.number = cells[0];
      break;
    case Kind::Tensor:
      out.first->dtype = spec.dtype;
      out.first->ndim = out.least_ndim = out.greatest_ndim = spec.ndim;
      out.dtypes = static_cast<std::uint16_t>(1U << static_cast<unsigned>(spec.dtype));
      out.dims = std::move(cells);
  }
  out.state = learn(out);
  return out;
}

/// The stored state joins that of the sources in the call; what is stored of others comes along.
void add_stored(JointObservation& joint, const SourceList& list, const FrameState& state) {
  const std::size_t in_call = joint.sources.size();
  for (const auto& [name, stored] : state) {
    if (const auto i = list.find(name)) {
      SourceCell& cell = joint.sources[*i];
      cell.state = shapes::join(stored, cell.state);
      continue;
    }
    SourceCell cell;
    cell.name = name;
    cell.missing = true;
    cell.state = stored;
    joint.sources.push_back(std::move(cell));
  }
  const auto by_name = [](const SourceCell& a, const SourceCell& b) { return a.name < b.name; };
  const auto middle = joint.sources.begin() + static_cast<std::ptrdiff_t>(in_call);
  std::inplace_merge(joint.sources.begin(), middle, joint.sources.end(), by_name);
}

}  // namespace

JointObservation observe(Rank self, const Observation& observation, const FrameState& state,
                         bool history, const shapes::Fingerprint& cache) {
  JointObservation mine;
  mine.cache = cache;
  const std::size_t count = observation.list->sources().size();
  for (std::size_t i = 0; i < count; ++i) mine.sources.push_back(source_of(self, observation, i));
  if (history) add_stored(mine, *observation.list, state);
  return mine;
}

Bytes list_payload(const Observation& observation) {
  std::vector<std::uint8_t> marks;
  for (const Mark mark : observation.marks) marks.push_back(bit(mark));
  return columns_of(observation.list->digest(), observation.values, marks, {});
}

std::optional<JointObservation> read_list_payload(std::span<const std::byte> joined,
                                                  const SourceList& list, const FrameState& state,
                                                  bool history) {
  const auto columns = Columns::of(joined);
  if (!columns || columns->layout() != list.digest() || columns->slots() != list.offsets().back())
    return std::nullopt;
  JointObservation out;
  for (std::size_t i = 0; i < list.sources().size(); ++i) {
    auto cell = read_source(list.sources()[i], *columns, list.offsets()[i]);
    if (!cell) return std::nullopt;
    out.sources.push_back(std::move(*cell));
  }
  if (history) add_stored(out, list, state);
  return out;
}

JointObservation join(const JointObservation& lower, const JointObservation& higher) {
  JointObservation out;
  out.cache = lower.cache;
  out.cache_differs = lower.cache_differs || higher.cache_differs || lower.cache != higher.cache;
  auto a = lower.sources.begin();
  auto b = higher.sources.begin();
  while (a != lower.sources.end() || b != higher.sources.end()) {
    const bool only_a =
        b == higher.sources.end() || (a != lower.sources.end() && a->name < b->name);
    const bool only_b = !only_a && (a == lower.sources.end() || b->name < a->name);
    if (only_a || only_b) {
      out.sources.push_back(only_a ? *a++ : *b++);
      out.sources.back().missing = true;
    } else {
      out.sources.push_back(join_sources(*a++, *b++));
    }
  }
  return out;
}

Bytes join_payloads(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  const auto a = decode_joint(lower);
  const auto b = decode_joint(higher);
  if (!a || !b) return {};
  return encode(join(*a, *b));
}

}  // namespace lockstep::worker
