// A nest of loops laid out over a grid of threads. The free loops are divided among all threads,
// grid-stride, with 64-bit indices. The loops inside them run in order in one thread, or are shared
// by several threads that join their totals in a fixed order. No atomics: a kernel's result does
// not depend on the number of blocks or on which thread is first.
#pragma once

#include <string>

#include <lockstep/worker/compile/codegen/loop_nest.h>
#include <lockstep/worker/compile/codegen/reduction_split.h>

namespace lockstep::worker {

/// Threads per block.
inline constexpr int kCudaBlock = 256;
/// Adjacent elements that a thread handles at a time.
inline constexpr int kCudaVector = 4;

/// Lays out a nest. Without free loops, one thread does all the work.
[[nodiscard]] std::string cuda_text(const LoopNest& nest);
/// Lays out a nest of one free loop whose iteration i uses only element i of each buffer. A thread
/// handles kCudaVector neighbours at a time; the compiler loads them at once if buffers are known
/// to be aligned.
[[nodiscard]] std::string cuda_vector_text(const LoopNest& nest);
/// Lays out a nest in which the loops inside the free loops are one reduction, which `split`
/// divides among threads. The statements after those loops run once per total, or, if totals are
/// divided into pieces, once per piece. They may use `output`, the number of the total, and
/// `piece`.
[[nodiscard]] std::string cuda_reduction_text(const LoopNest& nest, const Split& split);

/// An ordered sum (sums/sum_order.h) as loops: free loops over kept dims, then loops over runs, and
/// innermost a function that returns an element of the run.
struct CudaSum {
  std::string product;  // "true" or "false"
  std::string type, n;  // type of elements; size of a run
  /// Final statement. With Alone and Lanes it runs once per `output` and uses its `terms`. With
  /// Pieces it runs once per `item` and uses its `total`; item k * outputs + output is term or
  /// batch k of the output.
  std::string end;
  bool rows = true;
  SumSplit split = SumSplit::Alone;
};
[[nodiscard]] std::string cuda_sum_text(const LoopNest& nest, const CudaSum& sum);

}  // namespace lockstep::worker
