#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <lockstep/worker/agree/exchange/dim_order.h>
#include <lockstep/worker/agree/exchange/observation.h>

namespace lockstep::worker {

std::string_view kind_name(Kind kind) {
  static constexpr std::array<std::string_view, 4> kNames{"tensor", "int", "float", "bool"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view mark_name(Mark mark) {
  static constexpr std::array<std::string_view, kMarkCount> kNames{
      "", "dynamic", "maybe_dynamic", "unbacked", "static", "uniform"};
  return kNames[static_cast<std::size_t>(mark)];
}

namespace {

bool has_scalar(const SourceSpec& spec) {
  if (spec.kind != Kind::Tensor) return spec.kind == Kind::Float;
  return spec.ndim == 0 && spec.dtype < DType::F16;
}

}  // namespace

std::string SourceSpec::text() const {
  if (kind != Kind::Tensor) return fmt::format("{} {}", name, kind_name(kind));
  return fmt::format("{} {} of {} dim{}", name, dtype_name(dtype), ndim, ndim == 1 ? "" : "s");
}

SourceList::SourceList(std::vector<SourceSpec> sorted) : sources_(std::move(sorted)) {
  shapes::FingerprintBuilder builder;
  offsets_.reserve(sources_.size() + 1);
  offsets_.push_back(0);
  for (const SourceSpec& spec : sources_) {
    const bool tensor = spec.kind == Kind::Tensor;
    if (has_scalar(spec))
      scalar_sources_.push_back(static_cast<std::uint32_t>(offsets_.size()) - 1);
    const std::uint32_t values = tensor ? spec.ndim : (spec.kind == Kind::Float ? 0U : 1U);
    offsets_.push_back(offsets_.back() + values);
    builder.add(spec.name).add(static_cast<std::int64_t>(spec.kind));
    if (tensor)
      builder.add(static_cast<std::int64_t>(spec.dtype)).add(static_cast<std::int64_t>(spec.ndim));
  }
  digest_ = builder.finish();
}

std::optional<std::size_t> SourceList::find(std::string_view name) const {
  const auto it =
      std::lower_bound(sources_.begin(), sources_.end(), name,
                       [](const SourceSpec& spec, std::string_view n) { return spec.name < n; });
  if (it == sources_.end() || it->name != name) return std::nullopt;
  return static_cast<std::size_t>(it - sources_.begin());
}

std::optional<std::uint32_t> SourceList::scalar(std::size_t i) const {
  const auto it = std::lower_bound(scalar_sources_.begin(), scalar_sources_.end(), i);
  if (it == scalar_sources_.end() || *it != i) return std::nullopt;
  return static_cast<std::uint32_t>(it - scalar_sources_.begin());
}

void Observation::set_order(std::size_t i, std::int64_t order) {
  if (orders.empty() && order == 0) return;
  orders.resize(list->sources().size());
  orders[i] = order;
}

ObservationBuilder& ObservationBuilder::add(SourceSpec spec, std::vector<std::int64_t> values) {
  Source& source = sources_[spec.name];
  source.marks.assign(values.size(), Mark::None);
  source.order = 0;
  source.values = std::move(values);
  source.spec = std::move(spec);
  return *this;
}

ObservationBuilder& ObservationBuilder::tensor(std::string name, std::vector<std::int64_t> sizes,
                                               DType dtype) {
  const auto ndim = static_cast<std::uint32_t>(sizes.size());
  return add({std::move(name), Kind::Tensor, dtype, ndim}, std::move(sizes));
}

ObservationBuilder& ObservationBuilder::integer(std::string name, std::int64_t value) {
  return add({std::move(name), Kind::Int}, {value});
}

ObservationBuilder& ObservationBuilder::real(std::string name) {
  return add({std::move(name), Kind::Float}, {});
}

ObservationBuilder& ObservationBuilder::boolean(std::string name, bool value) {
  return add({std::move(name), Kind::Bool}, {value ? 1 : 0});
}

ObservationBuilder& ObservationBuilder::strides(std::string_view name,
                                                std::span<const std::int64_t> strides) {
  Source& source = sources_.find(name)->second;
  source.order = dim_order(source.values, strides);
  return *this;
}

ObservationBuilder& ObservationBuilder::mark(std::string_view name, std::size_t dim, Mark mark) {
  sources_.find(name)->second.marks.at(dim) = mark;
  return *this;
}

ObservationBuilder& ObservationBuilder::field(std::string name, bool value, FieldJoin join) {
  fields_.push_back({{std::move(name), FieldType::Bool, join}, {value ? 1 : 0, {}}});
  return *this;
}

ObservationBuilder& ObservationBuilder::field(std::string name, std::int64_t value,
                                              FieldJoin join) {
  fields_.push_back({{std::move(name), FieldType::Int, join}, {value, {}}});
  return *this;
}

ObservationBuilder& ObservationBuilder::field(std::string name, std::string text, FieldJoin join) {
  fields_.push_back({{std::move(name), FieldType::Text, join}, {0, std::move(text)}});
  return *this;
}

ObservationBuilder& ObservationBuilder::field(std::string name, std::span<const std::byte> bytes,
                                              FieldJoin join) {
  std::string copy(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  fields_.push_back({{std::move(name), FieldType::Bytes, join}, {0, std::move(copy)}});
  return *this;
}

Observation ObservationBuilder::build() const {
  std::vector<SourceSpec> specs;
  Observation out;
  bool marked = false;
  for (const auto& [name, source] : sources_) {
    specs.push_back(source.spec);
    out.values.insert(out.values.end(), source.values.begin(), source.values.end());
    out.marks.insert(out.marks.end(), source.marks.begin(), source.marks.end());
    for (const Mark mark : source.marks) marked |= mark != Mark::None;
  }
  if (!marked) out.marks.clear();
  out.list = std::make_shared<SourceList>(std::move(specs));
  std::size_t i = 0;
  for (const auto& [name, source] : sources_) out.set_order(i++, source.order);
  out.fields = fields_;
  sort_fields(out.fields);
  return out;
}

std::optional<std::int64_t> scalar_of(const Observation& observation, std::string_view source) {
  const auto at = observation.list->find(source);
  const auto scalar = at ? observation.list->scalar(*at) : std::nullopt;
  if (!scalar || *scalar >= observation.scalars.size()) return std::nullopt;
  return observation.scalars[*scalar];
}

namespace {

std::string kind_text(const SourceSpec& spec) {
  return spec.kind == Kind::Tensor ? fmt::format("a tensor {} of {} dim{}", dtype_name(spec.dtype),
                                                 spec.ndim, spec.ndim == 1 ? "" : "s")
                                   : std::string(kind_name(spec.kind));
}

}  // namespace

std::string other_source(const std::vector<SourceSpec>& known, const SourceList& list) {
  for (const SourceSpec& spec : list.sources()) {
    const auto same = std::ranges::find(known, spec.name, &SourceSpec::name);
    if (same == known.end()) return fmt::format("the entry has no input {}", spec.name);
    if (*same != spec)
      return fmt::format("{} is {}, in the entry it is {}", spec.name, kind_text(spec),
                         kind_text(*same));
  }
  for (const SourceSpec& spec : known)
    if (!list.find(spec.name)) return fmt::format("input {} of the entry is missing", spec.name);
  return "the inputs are others";
}

std::string size_text(std::string_view source, std::size_t dim) {
  return fmt::format("{}.size({})", source, dim);
}

}  // namespace lockstep::worker
