// Kernels as CUDA C++: loops over a grid. What a host kernel adds into memory in order is made here
// from its result's side, each element by one thread or by some that share it in a fixed order, so
// no kernel needs an atomic. Sorting, scans and large reductions take several kernels.
#pragma once

#include <functional>
#include <map>

#include <lockstep/worker/codegen/emitter.h>
#include <lockstep/worker/codegen/reduction_split.h>

namespace lockstep::worker {

[[nodiscard]] inline shapes::Expr ceil_div(const shapes::Expr& a, std::int64_t b) {
  return floor_div(a + shapes::Expr(b - 1), shapes::Expr(b));
}

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
  /// Element `access` of a join of rows takes the rows order[first] up to order[past].
  struct Found {
    Access access;
    std::string order;
  };
  Found find_rows(NodeId id, NodeId index);
  /// What an element of a join of rows is made of, as text.
  struct Join {
    std::function<std::string(const Access&)> first;     // declares it
    std::function<std::string(const std::string&)> add;  // takes a row's value
    std::string result;
  };
  /// Element [r, ..] of `id` takes the rows that have index r, in the order in which they lie.
  void join_rows(NodeId id, NodeId index, NodeId rows, const Join& join);
  void join_columns(NodeId index_add);
  /// The kernel of the least total, said by `pointers` besides the list, for `threads`.
  void add_check(NodeId list, const shapes::Expr& limit, std::string_view pointers,
                 const Split& split);
  /// A scan over rows of `size` elements whose groups (sums/scan_order.h) are made at once.
  struct Groups {
    std::string state;  // of the prelude
    std::vector<shapes::Expr> leading;
    shapes::Expr size;
  };
  /// Scratch for the state that each group of a scan comes to, and each batch.
  void add_scan_scratch(const Groups& scan);
  /// Opens the groups and the loop over the elements of one, with its state in `group`: it goes to
  /// scratch, or it `is_joined` with what stands `before` it.
  struct Group {
    Access row;
    IndexText element;
  };
  Group open_groups(const Groups& scan, bool is_joined);
  /// Where scratch has the state of a group; of a batch, behind the last of which is the row's.
  std::string group_state(const Groups& scan, const Access& row, const IndexText& group);
  std::string batch_state(const Groups& scan, const Access& row, const IndexText& batch);
  /// Makes of what each group comes to what stands before it, in its batch; of batches likewise.
  void join_groups(const Groups& scan);

  std::map<shapes::Symbol, std::int64_t> hints_;
};

}  // namespace lockstep::worker
