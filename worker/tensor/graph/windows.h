// The windowed dims of Unfold and Overlay, for their shape rule and for the code that runs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// A windowed dim, and the dim that counts the elements within a window: element k of window w is
/// the whole's element w * stride + k * dilation.
struct Windowed {
  std::size_t dim = 0, kernel = 0;
  std::int64_t stride = 1, dilation = 1;
};
/// The windowed dims of a node whose value (Unfold) or operand (Overlay) has `ndim` dims.
[[nodiscard]] std::vector<Windowed> windowed_dims(const Node& node, std::size_t ndim);

/// Why the operand `x` has no such windows; nullopt if it has.
[[nodiscard]] std::optional<std::string> windows_error(const Node& node, const TensorMeta& x);

}  // namespace lockstep::worker
