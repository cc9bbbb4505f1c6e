// Text of the kernels of a plan, for every target. What an op computes is said once, as loops with
// statements in them; a target lays the loops out (one in another, or over a grid), joins totals,
// and makes in its own way what depends on order. Text depends on the graph alone, for CUDA also on
// the hints that the group agreed on: values are numbered in the order in which a kernel uses them,
// so equal work in two places of a graph has equal text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/codegen/kernel_body.h>
#include <lockstep/worker/codegen/plan.h>

namespace lockstep::worker {

/// Before loops whose order does not matter.
inline constexpr const char* kSimd = "#pragma omp simd";
/// `loops` in braces.
[[nodiscard]] inline std::string scoped(const std::string& loops) {
  return "  {\n" + loops + "  }\n";
}

/// A kernel without its name.
struct KernelText {
  std::string parameters;  // of the function; Host: (void* const* b, const long* n)
  std::string body;
  std::vector<NodeId> buffers;           // b0, b1, …: memory of these values
  std::vector<std::size_t> scratch;      // then p0, p1, …: elements of Emission::scratch
  std::vector<shapes::Expr> arguments;   // n0, n1, …
  shapes::Expr blocks = 0;               // Cuda: how many; a function of the sizes alone
  std::optional<shapes::Expr> merged{};  // Cuda: Launch::merged
};

/// What makes the roots of one step: kernels that run in order, and memory between them.
struct Emission {
  struct Scratch {
    DType dtype = DType::I64;
    shapes::Expr elements;
  };
  std::vector<KernelText> kernels;
  std::vector<Scratch> scratch;
};

/// Requires a step of kind Kernel with at least one root.
[[nodiscard]] Emission emit(const Graph& graph, const Plan& plan, const PlannedStep& step,
                            Target target);

/// The kernel of an own op, which has text for that target. Requires all of its values in memory.
[[nodiscard]] Emission emit_own(const Graph& graph, const Plan& plan, NodeId id, Target target);

/// What the targets share: the loops of each op. One kernel is under way at a time.
class Emitter {
 public:
  Emitter(const Graph& graph, const Plan& plan, Indices indices = Indices::Checked)
      : graph_(graph), plan_(plan), body_(graph, plan, indices) {}
  virtual ~Emitter() = default;
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;

  Emission emit(const PlannedStep& step);
  Emission emit_own(NodeId id);

 protected:
  // Each makes the whole step, with add_kernel.
  virtual void elementwise(const PlannedStep& step) = 0;
  virtual void reduction(NodeId id) = 0;
  virtual void concatenation(NodeId id) = 0;
  virtual void index_add(NodeId id) = 0;
  virtual void index_put(NodeId id) = 0;
  virtual void scan(NodeId id) = 0;
  virtual void segment_ids(NodeId id) = 0;
  virtual void nonzero(NodeId id) = 0;
  virtual void argsort(NodeId id) = 0;
  virtual void search_sorted(NodeId id) = 0;
  virtual void own(NodeId id) = 0;

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Node& node(NodeId id) const { return graph_.nodes[id]; }
  [[nodiscard]] std::string_view type(NodeId id) const { return c_type_of(id); }
  [[nodiscard]] std::vector<shapes::Expr> total(NodeId id) const;
  /// Its dims but for the last one.
  [[nodiscard]] std::span<const shapes::Expr> leading(NodeId id) const;
  /// Its values can be computed from their place alone, in one flat loop.
  [[nodiscard]] bool flat(NodeId id) const { return plan_.flat[id] || plan_.in_memory(id); }
  [[nodiscard]] KernelBody& body() { return body_; }
  [[nodiscard]] LoopNest& nest() { return body_.nest(); }
  void inner(std::string statement) { nest().before(nest().innermost(), std::move(statement)); }

  /// The kernel under way, done; the next one starts.
  KernelText finish_kernel(const std::string& loops);

  // The loops of one op, ready in nest().
  void elementwise_nest(const PlannedStep& step);
  /// Total of the reduced dims for every element of the others; what to do with it, an "after" of
  /// the level that is returned, is the caller's.
  struct Reduced {
    int level = -1;
    Access kept;
  };
  Reduced reduction_nest(NodeId id);
  /// The dims of the operand of an ordered sum (sums/sum_order.h), as loops over them go: what is
  /// kept, the reduced ones around the run, and the run. Dims that lie as in one are one.
  struct Loops {
    std::vector<shapes::Expr> kept, outer, run, sizes;  // `sizes`: all, as they lie
    std::vector<char> is;                               // of each of these, 'k', 'o' or 'r'
    bool rows = true, side_by_side = false;  // some that are kept lie further inside than the run
    /// The operand's element at these indices.
    [[nodiscard]] Access access(const std::vector<IndexText>& of_kept,
                                const std::vector<IndexText>& of_outer,
                                const std::vector<IndexText>& of_run) const;
  };
  [[nodiscard]] Loops sum_loops(NodeId id) const;
  /// The indices of dims of `sizes` from their place in row-major order.
  [[nodiscard]] std::vector<IndexText> split_index(std::span<const shapes::Expr> sizes,
                                                   const IndexText& place);
  /// Whether an ordered sum is a product, as an argument of a template.
  [[nodiscard]] std::string_view product_text(NodeId id) const;
  [[nodiscard]] static Total::Join join_of(Op reduction);
  /// The total of `value`, joined as the op says, in loop `level`.
  void accumulate(Op op, DType dtype, const std::string& value, int level);
  /// One part of a concatenation, which begins at `start`.
  void part_nest(NodeId id, NodeId operand, const shapes::Expr& start);
  /// The statement that joins `value` into `into` as the IndexPut node says.
  [[nodiscard]] std::string put_text(NodeId index_put, const std::string& into,
                                     const std::string& value) const;
  /// Row by row; a row is the last dim.
  void scan_nest(NodeId id);
  /// The type of the prelude that a scan keeps from element to element.
  [[nodiscard]] std::string scan_state(NodeId id) const;
  /// Element `at` of the row joins the variable `into`, in the innermost loop; `access` is of the
  /// dims before.
  void add_to_scan(NodeId id, std::string_view into, Access access, const IndexText& at);
  /// The result's element there is the value of the variable `state`.
  void put_scan(NodeId id, std::string_view state, Access access, const IndexText& at);
  /// How an element of an ordered join of numbers (sums/join_order.h) is kept, as text.
  struct NumberSum {
    bool is_exact = false;  // of f64: with what its additions have lost
    std::string_view type;
    [[nodiscard]] std::size_t parts() const { return is_exact ? 2 : 1; }
    [[nodiscard]] std::string add(std::string_view total, std::string_view lost,
                                  std::string_view value) const;
    [[nodiscard]] std::string value(std::string_view total, std::string_view lost) const;
  };
  [[nodiscard]] NumberSum number_sum(NodeId id) const;
  void search_nest(NodeId id);
  void nonzero_nest(NodeId id);
  /// The user's text between what it sees; `threads` says which thread of how many runs it.
  [[nodiscard]] std::string own_body(NodeId id, std::string_view threads, std::string_view text);

  Emission emission_;

 private:
  [[nodiscard]] std::string_view c_type_of(NodeId id) const;
  void arg_max(NodeId id, const Access& access, int level);

  const Graph& graph_;
  const Plan& plan_;
  KernelBody body_;
};

/// C++ for the processor of the host: loops in order, the innermost one vectorised.
class CppEmitter final : public Emitter {
 public:
  using Emitter::Emitter;

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

  void sum(NodeId id);
  void sum_rows(NodeId id, const Loops& loops);
  void sum_columns(NodeId id, const Loops& loops);
  std::string memory_reduction(NodeId id);
  std::string fill(NodeId id, const std::string& value);
  void join_numbers(NodeId index_add);
  void join_by_lists(NodeId index_add);
  void add_kernel(const std::string& loops);
};

}  // namespace lockstep::worker
