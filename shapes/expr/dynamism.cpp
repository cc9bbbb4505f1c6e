#include <algorithm>

#include <lockstep/shapes/expr/dynamism.h>

namespace lockstep::shapes {
namespace {

std::vector<std::int64_t> join_smallest(const std::vector<std::int64_t>& a,
                                        const std::vector<std::int64_t>& b) {
  const auto& longer = a.size() >= b.size() ? a : b;
  const auto& shorter = a.size() >= b.size() ? b : a;
  std::vector<std::int64_t> out = longer;
  for (std::size_t i = 0; i < shorter.size(); ++i) out[i] = std::min(out[i], shorter[i]);
  return out;
}

SeenDims dynamic_dims() { return {SeenDims::State::Dynamic, {}}; }

}  // namespace

Seen join(const Seen& a, const Seen& b) {
  if (a.state == Seen::State::Unset) return b;
  if (b.state == Seen::State::Unset || a == b) return a;
  return Seen::dynamic();
}

bool SeenDims::dynamic(std::size_t dim) const {
  if (state != State::Tuple) return state == State::Dynamic;
  return dim < dims.size() && dims[dim].state == Seen::State::Dynamic;
}

SeenDims join(const SeenDims& a, const SeenDims& b) {
  if (a.state == SeenDims::State::Unset) return b;
  if (b.state == SeenDims::State::Unset) return a;
  if (a.state == SeenDims::State::Dynamic || b.state == SeenDims::State::Dynamic ||
      a.dims.size() != b.dims.size()) {
    return dynamic_dims();
  }
  SeenDims out = a;
  for (std::size_t i = 0; i < out.dims.size(); ++i) out.dims[i] = join(a.dims[i], b.dims[i]);
  return out;
}

Dynamism Dynamism::of_int(std::int64_t value) {
  return {Seen::constant(value), dynamic_dims(), {}};
}

Dynamism Dynamism::of_tensor(std::span<const std::int64_t> sizes) {
  std::vector<Seen> cells;
  for (const std::int64_t size : sizes) cells.push_back(Seen::constant(size));
  return {
      Seen::dynamic(), {SeenDims::State::Tuple, std::move(cells)}, {sizes.begin(), sizes.end()}};
}

Dynamism join(const Dynamism& a, const Dynamism& b) {
  return {join(a.scalar, b.scalar), join(a.size, b.size), join_smallest(a.smallest, b.smallest)};
}

}  // namespace lockstep::shapes
