// Kernels as CUDA C++: loops over a grid. A host kernel adds into memory in order; here each
// element of the result is made by one thread, or by several in a fixed order, so no kernel needs
// an atomic. Sorting, scans and large reductions take several kernels.
#pragma once

#include <functional>
#include <map>

#include <lockstep/worker/compile/codegen/emitter.h>
#include <lockstep/worker/compile/codegen/reduction_split.h>

namespace lockstep::worker {

[[nodiscard]] inline shapes::Expr ceil_div(const shapes::Expr& a, std::int64_t b) {
  return floor_div(a + shapes::Expr(b - 1), shapes::Expr(b));
}

/// Returns kernels that find the first index of `list` that is not in [0, limit). The last kernel
/// takes the list, its scratch, and a pointer to the outcome (Step::outcome), which is not one of
/// the step's buffers. Its arguments are always the list's size and the limit.
[[nodiscard]] Emission emit_index_check(const Graph& graph, const Plan& plan, NodeId list,
                                        const shapes::Expr& limit);

/// Returns a kernel that checks the counts of a SegmentIds node, which must add up to the number of
/// its elements. The kernel takes the counts, a pointer to the outcome, the number of counts and
/// the number that they must add up to.
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

  /// Adds a kernel of loops laid out as `text`, on enough blocks for `threads`.
  void add_kernel(const std::string& text, const shapes::Expr& threads);
  /// Returns the value of `size` for the hints that the group agreed on.
  [[nodiscard]] std::int64_t hint(const shapes::Expr& size) const;
  void join_pieces(NodeId id, std::int64_t pieces);
  void sum(NodeId id);
  /// Sorts each row of x stably: order[k] is the place of the k-th element. `order` and `other`
  /// return the names of two pieces of memory in the current kernel.
  using Named = std::function<std::string()>;
  void sort(NodeId x, const Named& order, const Named& other);
  /// The element at `access` of a join of rows joins the rows order[first] to order[past - 1].
  /// `first` and `past` are variables of the kernel.
  struct Found {
    Access access;
    std::string order;
  };
  Found find_rows(NodeId id, NodeId index);
  /// The text that makes an element of a join of rows.
  struct Join {
    std::function<std::string(const Access&)> first;     // declares the element
    std::function<std::string(const std::string&)> add;  // adds a row's value
    std::string result;
  };
  /// Makes element [r, ..] of `id` from the rows with index r, in the order of their places.
  void join_rows(NodeId id, NodeId index, NodeId rows, const Join& join);
  void join_columns(NodeId index_add);
  /// Adds a kernel for the totals in nest(). `pointers`: its pointer parameters after the list.
  void add_check(NodeId list, const shapes::Expr& limit, std::string_view pointers,
                 const Split& split);
  /// A scan over rows of `size` elements that makes all groups (sums/scan_order.h) at once.
  struct Groups {
    std::string state;  // type in the prelude
    std::vector<shapes::Expr> leading;
    shapes::Expr size;
  };
  /// Adds scratch for the state of each group and each batch of a scan.
  void add_scan_scratch(const Groups& scan);
  /// Opens loops over the groups and over the elements of each group, whose state is in the
  /// variable `group`. Unless `is_joined`, stores each group's state in scratch. With `is_joined`,
  /// scratch already has the state before each group, which is copied to the variable `before`.
  struct Group {
    Access row;
    IndexText element;
  };
  Group open_groups(const Groups& scan, bool is_joined);
  /// Return the scratch element that holds the state of a group or of a batch. The row's total
  /// follows its last batch.
  std::string group_state(const Groups& scan, const Access& row, const IndexText& group);
  std::string batch_state(const Groups& scan, const Access& row, const IndexText& batch);
  /// Replaces the state of each group by the joined state of all earlier groups of its batch, and
  /// the state of each batch by that of all earlier batches.
  void join_groups(const Groups& scan);

  std::map<shapes::Symbol, std::int64_t> hints_;
};

}  // namespace lockstep::worker
