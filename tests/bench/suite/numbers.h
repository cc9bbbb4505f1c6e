// Numbers that parameters and data of the workloads are made of: functions of a tensor's number and
// an element's place alone, so they do not depend on the number of ranks. torch_suite.py has the
// same formulas, so that both sides start from the same bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/worker/tensor/trace/tensor.h>

namespace lockstep::suite {

/// Evenly distributed in [0, 1), by the mixing function of SplitMix64 (Steele et al. 2014).
[[nodiscard]] inline double number(std::int64_t tensor, std::int64_t element) {
  auto z = ((static_cast<std::uint64_t>(tensor) << 40U) + static_cast<std::uint64_t>(element) + 1) *
           0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return static_cast<double>((z ^ (z >> 31U)) >> 11U) * 0x1p-53;
}

/// An integer in [0, below).
[[nodiscard]] inline std::int64_t whole(std::int64_t tensor, std::int64_t element,
                                        std::int64_t below) {
  return static_cast<std::int64_t>(number(tensor, element) * static_cast<double>(below));
}

/// Numbers in [-scale, scale). The first element has the place `first`.
[[nodiscard]] inline worker::Array spread(DType dtype, std::vector<std::int64_t> sizes,
                                          std::int64_t tensor, double scale,
                                          std::int64_t first = 0) {
  worker::Array out(dtype, std::move(sizes));
  for (std::int64_t i = 0; i < out.elements(); ++i)
    out.set(i, (2 * number(tensor, first + i) - 1) * scale);
  return out;
}

/// The scale at which a product over `width` elements keeps the variance of its input.
[[nodiscard]] inline double product_scale(std::int64_t width) {
  return std::sqrt(3.0 / static_cast<double>(width));
}

[[nodiscard]] inline worker::Array filled(DType dtype, std::vector<std::int64_t> sizes,
                                          double value) {
  worker::Array out(dtype, std::move(sizes));
  for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, value);
  return out;
}

[[nodiscard]] inline worker::Array integers(std::vector<std::int64_t> sizes,
                                            const std::vector<std::int64_t>& values) {
  worker::Array out(DType::I64, std::move(sizes));
  std::copy(values.begin(), values.end(), out.data_as<std::int64_t>());
  return out;
}

}  // namespace lockstep::suite
