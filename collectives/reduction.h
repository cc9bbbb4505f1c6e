// Element-wise reduction in memory, for backends that reduce themselves: TCP, simulated, and MPI
// for sums of floats. Refuses nothing: check() decides which dtypes can be reduced.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// into[i] := the reduction of the ranks' elements from[0][i], from[1][i], .. in this order.
/// Integers wrap; bool is one byte, 0 or 1. f32 is summed in f64 and rounded once; f16 and bf16 are
/// reduced as f32 and rounded once more. `into` may be from[0].
void reduce_ranks(DType dtype, Reduce reduce, std::span<const void* const> from, void* into,
                  std::int64_t elements);

/// The larger and the smaller of two numbers. Floats give the same bits in any order of operands:
/// NaN if an operand is NaN, and 0 is above -0.
template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}
template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

/// into[i] := the sum of `times` times the value into[i]. Integers wrap; floats are rounded once.
void multiply_elements(DType dtype, void* into, std::int64_t times, std::int64_t elements);

}  // namespace lockstep::collectives
