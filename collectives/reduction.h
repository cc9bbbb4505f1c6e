// Element-wise reduction in memory, for the backends that reduce by themselves: TCP, simulated.
// Refuses nothing: check() has said which dtypes reduce.
#pragma once

#include <cstdint>
#include <span>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// into[i] := what the ranks' elements from[0][i], from[1][i], .. come to, taken in this order.
/// Integers wrap; bool is one byte, 0 or 1. f16 and bf16 are joined as f32 and rounded once.
/// Minimum and maximum keep what they have where the comparison is false (so where an operand is
/// NaN). `into` may be from[0].
void reduce_ranks(DType dtype, Reduce reduce, std::span<const void* const> from, void* into,
                  std::int64_t elements);

/// into[i] := the sum of `times` values into[i], integers wrapping, floats rounded once.
void multiply_elements(DType dtype, void* into, std::int64_t times, std::int64_t elements);

}  // namespace lockstep::collectives
