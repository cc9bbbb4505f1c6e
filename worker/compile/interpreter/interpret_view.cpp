#include <cstring>

#include <lockstep/worker/compile/interpreter/interpret.h>
#include <lockstep/worker/tensor/graph/op_map.h>
#include <lockstep/worker/tensor/graph/windows.h>

namespace lockstep::worker {
namespace {

/// Copies, for every index of the result, the operand's element at offset_of(index). An offset of
/// -1 gives 0.
template <class F>
Array gather(const NodeCall& call, F&& offset_of) {
  Array out(call.dtype(), call.sizes);
  const std::size_t width = dtype_size(call.dtype());
  const auto* from = static_cast<const std::byte*>(call.operands[0]->data());
  auto* to = static_cast<std::byte*>(out.data());
  std::vector<std::int64_t> index(call.sizes.size(), 0);
  const std::int64_t n = out.elements();
  for (std::int64_t i = 0; i < n; ++i, advance(index, call.sizes)) {
    const std::int64_t offset = offset_of(index);
    auto* element = to + static_cast<std::size_t>(i) * width;
    if (offset < 0)
      std::memset(element, 0, width);
    else
      std::memcpy(element, from + static_cast<std::size_t>(offset) * width, width);
  }
  return out;
}

std::int64_t dot(const std::vector<std::int64_t>& index, const std::vector<std::int64_t>& strides) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < index.size(); ++d) sum += index[d] * strides[d];
  return sum;
}

Array reshape(const NodeCall& call) { return call.operands[0]->reshaped(call.sizes); }

Array permute(const NodeCall& call) {
  const auto strides = row_major(call.operands[0]->sizes());
  return gather(call, [&](const auto& index) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d)
      offset += index[d] * strides[static_cast<std::size_t>(call.node().ints[d])];
    return offset;
  });
}

Array expand(const NodeCall& call) {
  const auto& sizes = call.operands[0]->sizes();
  auto strides = row_major(sizes);
  // Only dims of the constant size 1 are repeated. A symbolic size that is 1 is 1 in the result
  // too, so its stride does not matter.
  for (std::size_t d = 0; d < strides.size(); ++d)
    if (sizes[d] == 1) strides[d] = 0;
  return gather(call, [&](const auto& index) { return dot(index, strides); });
}

Array slice(const NodeCall& call) {
  const auto strides = row_major(call.operands[0]->sizes());
  const auto dim = static_cast<std::size_t>(call.node().ints[0]);
  return gather(
      call, [&](const auto& index) { return dot(index, strides) + call.exprs[0] * strides[dim]; });
}

Array pad(const NodeCall& call) {
  const auto& sizes = call.operands[0]->sizes();
  const auto strides = row_major(sizes);
  const auto dim = static_cast<std::size_t>(call.node().ints[0]);
  return gather(call, [&](const auto& index) -> std::int64_t {
    const std::int64_t at = index[dim] - call.exprs[0];
    if (at < 0 || at >= sizes[dim]) return -1;
    return dot(index, strides) - call.exprs[0] * strides[dim];
  });
}

Array flip(const NodeCall& call) {
  const auto strides = row_major(call.sizes);
  return gather(call, [&](const auto& index) {
    auto from = index;
    for (const std::int64_t dim : call.node().ints) {
      const auto d = static_cast<std::size_t>(dim);
      from[d] = call.sizes[d] - 1 - index[d];
    }
    return dot(from, strides);
  });
}

Array unfold(const NodeCall& call) {
  const auto& sizes = call.operands[0]->sizes();
  const auto strides = row_major(sizes);
  const auto windows = windowed_dims(call.node(), call.sizes.size());
  return gather(call, [&](const auto& index) {
    std::vector<std::int64_t> from(index.begin(),
                                   index.begin() + static_cast<std::ptrdiff_t>(sizes.size()));
    for (const Windowed& at : windows)
      from[at.dim] = index[at.dim] * at.stride + index[at.kernel] * at.dilation;
    return dot(from, strides);
  });
}

Array overlay(const NodeCall& call) {
  const auto& sizes = call.operands[0]->sizes();
  const auto strides = row_major(sizes);
  const auto windows = windowed_dims(call.node(), call.sizes.size());
  return gather(call, [&](const auto& index) -> std::int64_t {
    std::vector<std::int64_t> from = index;
    for (const Windowed& at : windows) {
      const std::int64_t place = index[at.dim] - index[at.kernel] * at.dilation;
      from[at.dim] = place / at.stride;
      if (place < 0 || place % at.stride != 0 || from[at.dim] >= sizes[at.dim]) return -1;
    }
    return dot(from, strides);
  });
}

Array concatenate(const NodeCall& call) {
  Array out(call.dtype(), call.sizes);
  const auto dim = static_cast<std::size_t>(call.node().ints[0]);
  const std::size_t width = dtype_size(call.dtype());
  const auto strides = row_major(call.sizes);
  std::int64_t start = 0;
  for (const Array* operand : call.operands) {
    std::vector<std::int64_t> index(call.sizes.size(), 0);
    for (std::int64_t i = 0; i < operand->elements(); ++i, advance(index, operand->sizes())) {
      const std::int64_t offset = dot(index, strides) + start * strides[dim];
      std::memcpy(
          static_cast<std::byte*>(out.data()) + static_cast<std::size_t>(offset) * width,
          static_cast<const std::byte*>(operand->data()) + static_cast<std::size_t>(i) * width,
          width);
    }
    start += operand->sizes()[dim];
  }
  return out;
}

constexpr OpMap<Array (*)(const NodeCall&)> kViews(of_class<OpClass::View>,
                                                   {{Op::Reshape, reshape},
                                                    {Op::Permute, permute},
                                                    {Op::Expand, expand},
                                                    {Op::Slice, slice},
                                                    {Op::Pad, pad},
                                                    {Op::Cat, concatenate},
                                                    {Op::Flip, flip},
                                                    {Op::Unfold, unfold},
                                                    {Op::Overlay, overlay}});

}  // namespace

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

void advance(std::vector<std::int64_t>& index, const std::vector<std::int64_t>& sizes) {
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (++index[d] < sizes[d]) return;
    index[d] = 0;
  }
}

Array interpret_view(const NodeCall& call) { return kViews[call.node().op](call); }

}  // namespace lockstep::worker
