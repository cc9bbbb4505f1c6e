#include <lockstep/worker/simulator/input/scenario_call.h>

namespace lockstep::worker::simulator {
namespace {

void add_value(const ScenarioValue& value, Observation& out) {
  const std::size_t before = out.values.size();
  if (value.kind == Kind::Tensor)
    out.values.insert(out.values.end(), value.sizes.begin(), value.sizes.end());
  else if (value.kind != Kind::Float)
    out.values.push_back(value.number);
  if (!value.strides.empty()) {
    out.strides.resize(before, kContiguous);
    out.strides.insert(out.strides.end(), value.strides.begin(), value.strides.end());
  }
  if (value.marks.empty()) return;
  out.marks.resize(before, Mark::None);
  out.marks.insert(out.marks.end(), value.marks.begin(), value.marks.end());
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
  if (!out.strides.empty()) out.strides.resize(out.values.size(), kContiguous);
  out.list = std::make_shared<const SourceList>(std::move(specs));
  return out;
}

}  // namespace lockstep::worker::simulator
