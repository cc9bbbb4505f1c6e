#include <lockstep/worker/agree/exchange/dim_order.h>
#include <lockstep/worker/simulator/input/scenario_call.h>

namespace lockstep::worker::simulator {
namespace {

void add_value(const ScenarioValue& value, Observation& out) {
  const std::size_t before = out.values.size();
  if (value.kind == Kind::Tensor)
    out.values.insert(out.values.end(), value.sizes.begin(), value.sizes.end());
  else if (value.kind != Kind::Float)
    out.values.push_back(value.number);
  if (value.marks.empty()) return;
  out.marks.resize(before, Mark::None);
  out.marks.insert(out.marks.end(), value.marks.begin(), value.marks.end());
}

ScenarioValue value_of(const Observation& observation, std::size_t i) {
  const SourceSpec& spec = observation.list->sources()[i];
  const auto values = observation.of(i);
  ScenarioValue out;
  out.kind = spec.kind;
  if (spec.kind == Kind::Tensor) {
    out.dtype = spec.dtype;
    out.sizes.assign(values.begin(), values.end());
    for (std::size_t d = 0; d < values.size() && !observation.marks.empty(); ++d)
      out.marks.push_back(observation.mark(i, d));
  } else if (spec.kind != Kind::Float) {
    out.number = values[0];
  }
  return out;
}

}  // namespace

Observation observation_of(const ScenarioValues& values) {
  std::vector<SourceSpec> specs;
  Observation out;
  for (const auto& [name, value] : values) {
    SourceSpec spec{.name = name, .kind = value.kind};
    if (value.kind == Kind::Tensor) {
      spec.dtype = value.dtype;
      spec.ndim = static_cast<std::uint32_t>(value.sizes.size());
    }
    specs.push_back(std::move(spec));
    add_value(value, out);
  }
  if (!out.marks.empty()) out.marks.resize(out.values.size(), Mark::None);
  out.list = std::make_shared<const SourceList>(std::move(specs));
  std::size_t i = 0;
  for (const auto& [name, value] : values) {
    if (!value.strides.empty()) out.set_order(i, dim_order(value.sizes, value.strides));
    ++i;
  }
  return out;
}

ScenarioValues scenario_values(const Observation& seen) {
  ScenarioValues out;
  for (std::size_t i = 0; i < seen.list->sources().size(); ++i)
    out[seen.list->sources()[i].name] = value_of(seen, i);
  return out;
}

Observation ScenarioGroup::observation() const {
  Observation out = observation_of(values);
  out.fields = fields;
  return out;
}

}  // namespace lockstep::worker::simulator
