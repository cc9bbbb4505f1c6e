// Converts f16 and bf16 to f32 and back, many values at a time: their sums and products are
// computed in f32. Uses vector instructions if the processor has them (F16C, AVX2), else arithmetic
// on bits, with the same results.
#pragma once

#include <cstdint>

#include <lockstep/collectives/base/dtype.h>

namespace lockstep {

/// Exact, but every not-a-number becomes the quiet positive one. `dtype` is f16 or bf16.
void widen_halves(DType dtype, const std::uint16_t* from, float* to, std::int64_t count);
/// Rounds to the nearest value, ties to even, and overflow to infinity. Every not-a-number becomes
/// the quiet positive one.
void narrow_floats(DType dtype, const float* from, std::uint16_t* to, std::int64_t count);

}  // namespace lockstep
