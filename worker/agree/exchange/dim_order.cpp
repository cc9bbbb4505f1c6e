#include <lockstep/worker/agree/exchange/dim_order.h>

namespace lockstep::worker {

std::int64_t dim_order(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  DimPlaces places{};  // the dims with several elements
  std::size_t count = 0;
  if (sizes.size() > kMostOrderedDims) return 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    if (sizes[d] > 1) places[count++] = static_cast<std::uint8_t>(d);
  }
  std::uint64_t code = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t mine = strides[places[i]];
    std::size_t outside = 0;
    for (std::size_t j = 0; j < count; ++j)
      outside += strides[places[j]] > mine || (strides[places[j]] == mine && j < i) ? 1 : 0;
    const std::uint8_t place = places[outside];
    code |= static_cast<std::uint64_t>(places[i] ^ place) << 4 * place;
  }
  return static_cast<std::int64_t>(code);
}

std::optional<DimPlaces> places_of(std::int64_t order, std::size_t ndim) {
  DimPlaces out{};
  std::uint32_t found = 0;
  for (std::size_t p = 0; p < kMostOrderedDims; ++p) {
    const std::size_t dim = (static_cast<std::uint64_t>(order) >> 4 * p & 15) ^ p;
    if (p >= ndim && dim != p) return std::nullopt;
    out[p] = static_cast<std::uint8_t>(dim);
    found |= 1U << dim;
  }
  return found == 0xffff ? std::optional(out) : std::nullopt;
}

}  // namespace lockstep::worker
