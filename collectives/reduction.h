// Element-wise reduction in memory, for the backends that reduce by themselves: TCP, simulated.
// Refuses nothing: check() has said which dtypes reduce.
#pragma once

#include <cstdint>

#include <lockstep/collectives/communicator.h>

namespace lockstep::collectives {

/// into[i] := into[i] op from[i] for `elements` elements. Integers wrap; bool is one byte, 0 or 1.
/// Minimum and maximum keep `into` where the comparison is false (so where an operand is NaN).
void reduce_elements(DType dtype, Reduce reduce, void* into, const void* from,
                     std::int64_t elements);

/// into[i] := the sum of `times` values into[i], integers wrapping, floats rounded once.
void multiply_elements(DType dtype, void* into, std::int64_t times, std::int64_t elements);

}  // namespace lockstep::collectives
