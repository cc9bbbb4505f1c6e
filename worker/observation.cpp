#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <lockstep/worker/observation.h>

namespace lockstep::worker {

std::string_view kind_name(Kind kind) {
  static constexpr std::array<std::string_view, 4> kNames{"tensor", "int", "float", "bool"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view mark_name(Mark mark) {
  static constexpr std::array<std::string_view, 5> kNames{"", "dynamic", "maybe_dynamic",
                                                          "unbacked", "static"};
  return kNames[static_cast<std::size_t>(mark)];
}

SourceList::SourceList(std::vector<SourceSpec> sorted) : sources_(std::move(sorted)) {
  shapes::FingerprintBuilder builder;
  offsets_.reserve(sources_.size() + 1);
  offsets_.push_back(0);
  for (const SourceSpec& spec : sources_) {
    const bool tensor = spec.kind == Kind::Tensor;
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

std::string size_text(std::string_view source, std::size_t dim) {
  return fmt::format("{}.size({})", source, dim);
}

}  // namespace lockstep::worker
