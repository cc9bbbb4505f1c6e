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

/// What the lattice learns from one source of one rank (format: bools and floats nothing).
shapes::Dynamism learn(const SourceSpec& spec, std::span<const std::int64_t> values) {
  if (spec.kind == Kind::Int) return shapes::Dynamism::of_int(values[0]);
  shapes::Dynamism seen;
  if (spec.kind != Kind::Tensor) return seen;
  seen.scalar = shapes::Seen::dynamic();
  seen.size.state = shapes::SeenDims::State::Tuple;
  for (const std::int64_t size : values) seen.size.dims.push_back(shapes::Seen::constant(size));
  seen.smallest.assign(values.begin(), values.end());
  return seen;
}

SourceCell source_of(Rank self, const Observation& observation, std::size_t i) {
  const SourceSpec& spec = observation.list->sources()[i];
  const std::span<const std::int64_t> values = observation.of(i);
  SourceCell cell;
  cell.name = spec.name;
  cell.kinds = bit(spec.kind);
  cell.first = SourceCell::First{.rank = self, .kind = spec.kind};
  cell.state = learn(spec, values);
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

}  // namespace

JointObservation observe(Rank self, const Observation& observation, const FrameState& state,
                         bool history, const shapes::Fingerprint& cache) {
  JointObservation mine;
  mine.cache = cache;
  const std::size_t count = observation.list->sources().size();
  for (std::size_t i = 0; i < count; ++i) mine.sources.push_back(source_of(self, observation, i));
  if (!history) return mine;
  for (const auto& [name, stored] : state) {
    if (const auto i = observation.list->find(name)) {
      SourceCell& cell = mine.sources[*i];
      cell.state = shapes::join(stored, cell.state);
    }
  }
  for (const auto& [name, stored] : state) {
    if (observation.list->find(name)) continue;
    SourceCell cell;
    cell.name = name;
    cell.missing = true;
    cell.state = stored;
    mine.sources.push_back(std::move(cell));
  }
  std::sort(mine.sources.begin(), mine.sources.end(),
            [](const SourceCell& a, const SourceCell& b) { return a.name < b.name; });
  return mine;
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
