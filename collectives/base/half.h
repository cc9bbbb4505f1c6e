// f16 and bf16 to f32 and back, many at a time: sums of them, and products, are made of f32. By
// vector instructions where the processor has them (F16C, AVX2), else by arithmetic on bits: the
// same bits.
#pragma once

#include <cstdint>

#include <lockstep/collectives/base/dtype.h>

namespace lockstep {

/// Exact; not-a-numbers become the quiet positive one. `dtype` is f16 or bf16.
void widen_halves(DType dtype, const std::uint16_t* from, float* to, std::int64_t count);
/// To the nearest value, of two equally near ones the even one, infinity from where that is
/// nearest; not-a-numbers become the quiet positive one.
void narrow_floats(DType dtype, const float* from, std::uint16_t* to, std::int64_t count);

}  // namespace lockstep
