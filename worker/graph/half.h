// The numbers that f16 and bf16 hold, plainly computed: what the interpreter and Arrays say.
// Kernels say the same by arithmetic on bits (codegen/prelude.cpp), and tests compare the two.
#pragma once

#include <cstdint>

#include <lockstep/collectives/base/dtype.h>

namespace lockstep::worker {

/// Exact; not-a-numbers are all one. Requires is_half(dtype).
[[nodiscard]] double half_value(DType dtype, std::uint16_t bits);
/// The nearest value, of two equally near ones the even one, infinity from where that is nearest;
/// not-a-numbers are all the quiet positive one. Rounds once: a long double holds every f64 and
/// every i64. Requires is_half(dtype).
[[nodiscard]] std::uint16_t half_bits(DType dtype, long double value);

}  // namespace lockstep::worker
