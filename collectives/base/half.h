// Converts f16 and bf16 to f32 and back, many at a time: sums and products of them are computed in
// f32. Uses vector instructions if the processor has them (F16C, AVX2), else arithmetic on bits,
// with the same bits.
#pragma once

#include <cstdint>

#include <lockstep/collectives/base/dtype.h>

namespace lockstep {

/// Exact; not-a-numbers become the quiet positive one. `dtype` is f16 or bf16.
void widen_halves(DType dtype, const std::uint16_t* from, float* to, std::int64_t count);
/// Rounds to the nearest value, ties to even, overflow to infinity; not-a-numbers become the quiet
/// positive one.
void narrow_floats(DType dtype, const float* from, std::uint16_t* to, std::int64_t count);

}  // namespace lockstep
