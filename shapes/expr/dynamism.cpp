#include <algorithm>
#include <numeric>
#include <stdexcept>

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

SeenDims tuple(std::vector<Seen> cells) { return {SeenDims::State::Tuple, std::move(cells)}; }

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
  return {Seen::constant(value), dynamic_dims(), dynamic_dims(), {}};
}

Dynamism Dynamism::of_tensor(std::span<const std::int64_t> sizes,
                             std::span<const std::int64_t> strides) {
  std::vector<Seen> cells;
  for (const std::int64_t size : sizes) cells.push_back(Seen::constant(size));
  return {Seen::dynamic(),
          tuple(std::move(cells)),
          tuple(encode_strides(sizes, strides)),
          {sizes.begin(), sizes.end()}};
}

Dynamism join(const Dynamism& a, const Dynamism& b) {
  return {join(a.scalar, b.scalar), join(a.size, b.size), join(a.stride, b.stride),
          join_smallest(a.smallest, b.smallest)};
}

bool stride_dynamic(const Dynamism& d, std::size_t dim) {
  const auto is_static = [](const Seen& cell) { return cell.state == Seen::State::Static; };
  return d.size.state == SeenDims::State::Tuple &&
         std::all_of(d.size.dims.begin(), d.size.dims.end(), is_static) && d.stride.dynamic(dim);
}

std::vector<Seen> encode_strides(std::span<const std::int64_t> sizes,
                                 std::span<const std::int64_t> strides) {
  if (sizes.size() != strides.size()) {
    throw std::logic_error("encode_strides: as many strides as sizes are required");
  }
  std::vector<std::size_t> walk(sizes.size());
  std::iota(walk.rbegin(), walk.rend(), std::size_t{0});
  std::stable_sort(walk.begin(), walk.end(),
                   [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::vector<Seen> out(sizes.size());
  std::vector<std::pair<std::int64_t, std::size_t>> products;  // stride*size, first dim that has it
  const auto known = [&](std::int64_t product) {
    return std::find_if(products.begin(), products.end(),
                        [&](const auto& entry) { return entry.first == product; });
  };
  for (const std::size_t dim : walk) {
    const auto from = known(strides[dim]);
    out[dim] = from == products.end() ? Seen::constant(strides[dim])
                                      : Seen::inferred(static_cast<std::int64_t>(from->second));
    std::int64_t product = 0;
    const bool fits = !__builtin_mul_overflow(strides[dim], sizes[dim], &product);
    if (fits && known(product) == products.end()) products.emplace_back(product, dim);
  }
  return out;
}

std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> out(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) {
    // A dim without elements does not shrink the strides further out.
    if (__builtin_mul_overflow(out[i], std::max<std::int64_t>(sizes[i], 1), &out[i - 1])) {
      throw std::overflow_error(
          "contiguous_strides: the number of elements does not fit in 64 bits");
    }
  }
  return out;
}

}  // namespace lockstep::shapes
