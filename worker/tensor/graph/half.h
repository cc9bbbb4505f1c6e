// The numbers that f16 and bf16 hold, computed plainly for the interpreter and Arrays. Kernels
// compute the same by arithmetic on bits (codegen/prelude.cpp), and tests compare the two.
#pragma once

#include <cstdint>

#include <lockstep/collectives/base/dtype.h>

namespace lockstep::worker {

/// Exact; every not-a-number becomes the same one. Requires is_half(dtype).
[[nodiscard]] double half_value(DType dtype, std::uint16_t bits);
/// The nearest value, ties to even, and infinity where that is nearest; every not-a-number becomes
/// the quiet positive one. Rounds once: a long double holds every f64 and every i64. Requires
/// is_half(dtype).
[[nodiscard]] std::uint16_t half_bits(DType dtype, long double value);

}  // namespace lockstep::worker
