// Kernels as CUDA C++: loops over a grid. What a host kernel adds into memory in order is made here
// from its result's side, each element by one thread or by some that share it in a fixed order, so
// no kernel needs an atomic. Sorting, scans and large reductions take several kernels.
#pragma once

#include <functional>
#include <map>

#include <lockstep/worker/codegen/emitter.h>
#include <lockstep/worker/codegen/reduction_split.h>

namespace lockstep::worker {

/// Kernels that look for the first index of `list` that is not in [0, limit). The last one takes
/// the list, then its scratch, then a pointer to the outcome (Step::outcome), which is not one of
/// the step's buffers. Its arguments are always the list's elements and the limit.
[[nodiscard]] Emission emit_index_check(const Graph& graph, const Plan& plan, NodeId list,
                                        const shapes::Expr& limit);

/// The same of the counts of a SegmentIds node, which have to add up to its elements: one kernel.
[[nodiscard]] Emission emit_counts_check(const Graph& graph, const Plan& plan, NodeId segment_ids);

class CudaEmitter final : public Emitter {
 public:
  CudaEmitter(const Graph& graph, const Plan& plan);
  [[nodiscard]] Emission index_check(NodeId list, const shapes::Expr& limit);
  [[nodiscard]] Emission counts_check(NodeId counts, const shapes::Expr& rows);

 private:
  void elementwise(const PlannedStep& step) override;
  void reduction(NodeId id) override;
  void concatenation(NodeId id) override;
  void index_add(NodeId id) override;
  void index_put(NodeId id) override;
  void scan(NodeId id) override;
  void segment_ids(NodeId id) override;
  void nonzero(NodeId id) override;
  void argsort(NodeId id) override;
  void search_sorted(NodeId id) override;
  void own(NodeId id) override;

  /// Kernel of the loops that were laid out as `text`, on enough blocks for `threads`.
  void add_kernel(const std::string& text, const shapes::Expr& threads);
  /// The size at the hints that the group agreed on.
  [[nodiscard]] std::int64_t hint(const shapes::Expr& size) const;
  void join_pieces(NodeId id, std::int64_t pieces);
  void sum(NodeId id);
  /// Where a stable sort of each row of x puts its elements: order[k] is the k-th. `order` and
  /// `other` give the names of two pieces of memory in the kernel under way.
  using Named = std::function<std::string()>;
  void sort(NodeId x, const Named& order, const Named& other);
  /// Element [r, ..] of `id` begins as `first` and then takes the rows that have index r, in the
  /// order in which they lie, each by the statement that `join` makes of a total and a row's value.
  using Join = std::function<std::string(const std::string& total, const std::string& value)>;
  void join_rows(NodeId id, NodeId index, NodeId rows,
                 const std::function<std::string(const Access&)>& first, const Join& join);
  /// Opens the pieces of a scan over `elements` and the loop over what is in one.
  struct Piece {
    IndexText number, element;
  };
  Piece open_pieces(const shapes::Expr& elements, std::int64_t pieces);
  /// The kernel of the least total, said by `pointers` besides the list, for `threads`.
  void add_check(NodeId list, const shapes::Expr& limit, std::string_view pointers,
                 const Split& split);
  /// Scratch for the state of a scan before each piece of each row, and after the last one.
  void add_scan_scratch(const ScanText& scan, const shapes::Expr& rows, std::int64_t pieces);
  /// Where scratch `which` has `kept` of a piece.
  std::string piece_state(std::size_t which, const ScanText::Kept& kept, const Access& row,
                          const IndexText& piece, std::int64_t pieces);
  /// Makes of the state that each piece comes to the one before it.
  void scan_pieces(const ScanText& scan, std::span<const shapes::Expr> leading,
                   std::int64_t pieces);

  std::map<shapes::Symbol, std::int64_t> hints_;
};

}  // namespace lockstep::worker
