// A nest of loops laid out over a grid of threads: the free loops are shared out among all threads,
// grid-stride, with 64-bit indices; what is inside them runs in order in one thread, or is shared
// by some that join their totals in a fixed order. No atomics: what a kernel computes does not
// depend on the number of blocks or on which thread is first.
#pragma once

#include <string>

#include <lockstep/worker/codegen/loop_nest.h>
#include <lockstep/worker/codegen/reduction_split.h>

namespace lockstep::worker {

/// Threads of every block.
inline constexpr int kCudaBlock = 256;
/// Elements that a thread takes at a time where they lie side by side.
inline constexpr int kCudaVector = 4;

/// Without free loops, one thread does it all.
[[nodiscard]] std::string cuda_text(const LoopNest& nest);
/// For a nest of one free loop in which element i of each buffer is what index i uses: kCudaVector
/// neighbours at a time, which the compiler loads at once where it knows that buffers are aligned.
[[nodiscard]] std::string cuda_vector_text(const LoopNest& nest);
/// The loops inside the free ones are one sum (in the wide sense) that `split` shares out. What
/// comes after them runs once per total; it may use `output`, the number of the total, and with
/// pieces `piece`.
[[nodiscard]] std::string cuda_reduction_text(const LoopNest& nest, const Split& split);

/// An ordered sum (sums/sum_order.h) over loops: the free ones are what is kept, the innermost one
/// is the function of an element of the run, those between are the runs.
struct CudaSum {
  std::string product;  // "true" or "false"
  std::string type, n;  // of elements; of a run
  /// Alone and Lanes: once per `output`, with its `terms`. Pieces: once per `item`, the number of a
  /// term or of a batch, one after another of each output, with its `total`.
  std::string end;
  bool rows = true;
  SumSplit split = SumSplit::Alone;
};
[[nodiscard]] std::string cuda_sum_text(const LoopNest& nest, const CudaSum& sum);

}  // namespace lockstep::worker
