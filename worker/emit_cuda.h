// Kernels as CUDA C++: loops over a grid. What a host kernel adds into memory in order is made here
// from its result's side, each element by one thread or by some that share it in a fixed order, so
// no kernel needs an atomic. Sorting, scans and large reductions take several kernels.
#pragma once

#include <functional>
#include <map>

#include <lockstep/worker/emitter.h>

namespace lockstep::worker {

class CudaEmitter final : public Emitter {
 public:
  CudaEmitter(const Graph& graph, const Plan& plan);

 private:
  void elementwise(const PlannedStep& step) override;
  void reduction(NodeId id) override;
  void concatenation(NodeId id) override;
  void index_add(NodeId id) override;
  void cumulative_sum(NodeId id) override;
  void segment_ids(NodeId id) override;
  void nonzero(NodeId id) override;
  void argsort(NodeId id) override;

  /// Kernel of the loops that were laid out as `text`, on enough blocks for `threads`.
  void add_kernel(const std::string& text, const shapes::Expr& threads);
  /// The size at the hints that the group agreed on.
  [[nodiscard]] std::int64_t hint(const shapes::Expr& size) const;
  void join_pieces(NodeId id, std::int64_t pieces);
  /// Where a stable sort of x puts its elements: order[k] is the k-th. `order` and `other` give the
  /// names of two pieces of memory in the kernel under way.
  using Named = std::function<std::string()>;
  void sort(NodeId x, const Named& order, const Named& other);
  /// Opens the pieces of a scan over `elements` and the loop over what is in one: the index of an
  /// element.
  IndexText open_pieces(const shapes::Expr& elements, std::int64_t pieces);
  /// What stands before each piece, and after the last one all, in scratch 0.
  void scan_pieces(DType dtype, std::int64_t pieces);

  std::map<shapes::Symbol, std::int64_t> hints_;
};

}  // namespace lockstep::worker
