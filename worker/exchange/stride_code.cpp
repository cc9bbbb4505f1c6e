#include <span>

#include <lockstep/shapes/layout.h>
#include <lockstep/worker/exchange/stride_code.h>

namespace lockstep::worker {
namespace {

/// Strides of ranks that do not agree.
constexpr std::int64_t kDynamicStride = INT64_MIN;

}  // namespace

std::int64_t stride_code(const shapes::Seen& stride, std::size_t dim, std::size_t ndim) {
  using State = shapes::Seen::State;
  if (stride == contiguous_stride(dim, ndim)) return 0;
  if (stride.state == State::Unset) return kNoStride;
  if (stride.state == State::Inferred) return -1 - stride.value;
  if (stride.state == State::Dynamic || stride.value < 0 || stride.value == INT64_MAX)
    return kDynamicStride;
  return stride.value + 1;
}

std::optional<shapes::Seen> stride_of(std::int64_t code, std::size_t dim, std::size_t ndim) {
  if (code == kDynamicStride) return shapes::Seen::dynamic();
  if (code == kNoStride) return shapes::Seen::unset();
  if (code == 0) return contiguous_stride(dim, ndim);
  if (code > 0) return shapes::Seen::constant(code - 1);
  if (-1 - code >= static_cast<std::int64_t>(ndim)) return std::nullopt;
  return shapes::Seen::inferred(-1 - code);
}

std::int64_t join_strides(std::int64_t a, std::int64_t b) {
  if (a == b || b == kNoStride) return a;
  return a == kNoStride ? b : kDynamicStride;
}

std::vector<std::int64_t> stride_codes(const Observation& observation) {
  std::vector<std::int64_t> out;
  if (observation.strides.empty()) return out;
  const SourceList& list = *observation.list;
  for (std::size_t i = 0; i < list.sources().size(); ++i) {
    const std::span sizes = observation.of(i);
    const std::size_t start = list.offsets()[i];
    const auto strides = std::span(observation.strides).subspan(start, sizes.size());
    if (list.sources()[i].kind != Kind::Tensor || sizes.empty() || strides[0] == kContiguous ||
        shapes::is_contiguous(sizes, strides))
      continue;
    out.resize(observation.values.size(), 0);
    const auto encoded = shapes::canonical_encoding(sizes, strides);
    for (std::size_t d = 0; d < sizes.size(); ++d)
      out[start + d] = stride_code(encoded[d], d, sizes.size());
  }
  return out;
}

}  // namespace lockstep::worker
