// Matrix products on values in memory, on several threads. All matrices are row-major; operands may
// be empty. The functions throw what multiply() of a MatrixProduct throws.
#pragma once

#include <cstdint>
#include <span>

#include <lockstep/collectives/base/dtype.h>
#include <lockstep/worker/compile/run/matrix_product.h>
#include <lockstep/worker/compile/run/threads.h>

namespace lockstep::worker {

/// One operand as stored.
struct Operand {
  const void* data = nullptr;
  bool transposed = false;  // each matrix is stored with rows and columns swapped
};

/// out [batch, m, n] = a [batch, m, k] b [batch, k, n]. f16 and bf16 are multiplied as f32 and
/// rounded once. Tests pass a small `part`.
void multiply(Threads& threads, DType dtype, Operand a, Operand b, void* out, std::int64_t batch,
              std::int64_t m, std::int64_t k, std::int64_t n, std::int64_t part = kBlasPart);

/// out [rows, m]: segment e of x [rows, k] times w[e] of w [E, k, m]. Requires counts that are at
/// least 0 and add up to rows.
void multiply_segments(Threads& threads, DType dtype, const void* x, Operand w,
                       std::span<const std::int64_t> counts, void* out, std::int64_t k,
                       std::int64_t m);

/// out [E, k, m]: segment e of x [rows, k], transposed, times segment e of y [rows, m].
void multiply_segments_outer(Threads& threads, DType dtype, const void* x, const void* y,
                             std::span<const std::int64_t> counts, void* out, std::int64_t k,
                             std::int64_t m);

}  // namespace lockstep::worker
