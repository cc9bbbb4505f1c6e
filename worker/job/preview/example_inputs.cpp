#include <cstring>

#include <lockstep/worker/job/preview/example_inputs.h>

namespace lockstep::worker {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 24;

Array single(DType dtype, double value) { return Array::of(dtype, {}, std::span(&value, 1)); }

std::optional<std::int64_t> elements_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t out = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || (size > 0 && out > kMost / size)) return std::nullopt;
    out *= size;
  }
  return out;
}

Array tensor(const Array& given, DType dtype, std::vector<std::int64_t> sizes, Elements elements) {
  const bool here = given && !given.far_memory();
  if (here && given.sizes() == sizes) return given;
  Array out = Array::zeros(dtype, std::move(sizes));
  if (!here || given.elements() == 0 || elements == Elements::Zero) return out;
  const std::size_t all = out.bytes(), period = given.bytes();
  const auto* from = static_cast<const std::byte*>(given.data());
  auto* to = static_cast<std::byte*>(out.data());
  for (std::size_t at = 0; at < all; at += period)
    std::memcpy(to + at, from, std::min(period, all - at));
  return out;
}

}  // namespace

std::optional<Inputs> example_inputs(const Observation& observation,
                                     std::span<const InputValue> given, Elements elements) {
  Inputs out;
  const auto& sources = observation.list->sources();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::span<const std::int64_t> seen = observation.of(i);
    Array& input = out[sources[i].name];
    switch (sources[i].kind) {
      case Kind::Tensor: {
        std::vector<std::int64_t> sizes(seen.begin(), seen.end());
        if (!elements_of(sizes)) return std::nullopt;
        input = tensor(given[i].array, sources[i].dtype, std::move(sizes), elements);
        break;
      }
      case Kind::Float:
        input = single(DType::F64, given[i].number);
        break;
      case Kind::Int:
        input = Array(DType::I64, {});
        *input.data_as<std::int64_t>() = seen[0];
        break;
      case Kind::Bool:
        input = single(DType::Bool, static_cast<double>(seen[0]));
        break;
    }
  }
  return out;
}

}  // namespace lockstep::worker
