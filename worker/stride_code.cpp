#include <algorithm>

#include <lockstep/worker/stride_code.h>

namespace lockstep::worker {
namespace {

/// Strides of ranks that do not agree.
constexpr std::int64_t kDynamicStride = INT64_MIN;

using Numbers = std::span<const std::int64_t>;

bool contiguous(Numbers sizes, Numbers strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  std::int64_t expected = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    if (__builtin_mul_overflow(expected, sizes[d], &expected)) return false;
  }
  return true;
}

/// With the strides of dims of one element as a contiguous tensor would have them.
std::vector<std::int64_t> canonical(Numbers sizes, Numbers strides) {
  std::vector<std::int64_t> out(strides.begin(), strides.end());
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1) continue;
    out[d] = 1;
    if (d + 1 < sizes.size() && __builtin_mul_overflow(out[d + 1], sizes[d + 1], &out[d]))
      out[d] = strides[d];
  }
  return out;
}

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
    const Numbers sizes = observation.of(i);
    const std::size_t start = list.offsets()[i];
    const Numbers strides = Numbers(observation.strides).subspan(start, sizes.size());
    if (list.sources()[i].kind != Kind::Tensor || sizes.empty() || strides[0] == kContiguous ||
        contiguous(sizes, strides))
      continue;
    out.resize(observation.values.size(), 0);
    const auto encoded = shapes::encode_strides(sizes, canonical(sizes, strides));
    for (std::size_t d = 0; d < sizes.size(); ++d)
      out[start + d] = stride_code(encoded[d], d, sizes.size());
  }
  return out;
}

}  // namespace lockstep::worker
