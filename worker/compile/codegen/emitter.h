// Text of the kernels of a plan, for every target. Each op's computation is written once, as loops
// with statements in them. A target lays the loops out (nested, or over a grid), joins totals, and
// implements order-dependent work in its own way. Text depends only on the graph, and for CUDA on
// the hints that the group agreed on. Values are numbered in the order in which a kernel uses them,
// so equal work in two places of a graph has equal text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/compile/codegen/kernel_body.h>
#include <lockstep/worker/compile/codegen/plan.h>

namespace lockstep::worker {

/// Precedes loops whose order does not matter.
inline constexpr const char* kSimd = "#pragma omp simd";
/// Returns `loops` in braces.
[[nodiscard]] inline std::string scoped(const std::string& loops) {
  return "  {\n" + loops + "  }\n";
}

/// A kernel without its name.
struct KernelText {
  std::string parameters;  // of the function; Host: (void* const* b, const long* n)
  std::string body;
  std::vector<NodeId> buffers;           // b0, b1, …: memory of these values
  std::vector<std::size_t> scratch;      // then p0, p1, …: indices in Emission::scratch
  std::vector<shapes::Expr> arguments;   // n0, n1, …
  shapes::Expr blocks = 0;               // Cuda: number of blocks; a function of the sizes alone
  std::optional<shapes::Expr> merged{};  // Cuda: Launch::merged
  struct Sharing {                       // Host: see program.h
    shapes::Expr iterations, elements;
    std::int64_t unit = 1;
  };
  std::optional<Sharing> sharing{};
};

/// The kernels that make the roots of one step, in order, and their scratch memory.
struct Emission {
  struct Scratch {
    DType dtype = DType::I64;
    shapes::Expr elements;
    bool of_thread = false;  // nothing is passed on in it to another thread or kernel
  };
  std::vector<KernelText> kernels;
  std::vector<Scratch> scratch;
};

/// Requires a step of kind Kernel with at least one root.
[[nodiscard]] Emission emit(const Graph& graph, const Plan& plan, const PlannedStep& step,
                            Target target);

/// Returns the kernel of an own op that has text for `target`. Requires all of its values in
/// memory.
[[nodiscard]] Emission emit_own(const Graph& graph, const Plan& plan, NodeId id, Target target);

/// The part that targets share: the loops of each op. One kernel is being written at a time.
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
  // Each of these adds all kernels of one step to emission_.
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
  /// Returns all dims but the last.
  [[nodiscard]] std::span<const shapes::Expr> leading(NodeId id) const;
  /// True if the values can be computed from their position alone, in one flat loop.
  [[nodiscard]] bool flat(NodeId id) const { return plan_.flat[id] || plan_.in_memory(id); }
  [[nodiscard]] KernelBody& body() { return body_; }
  [[nodiscard]] LoopNest& nest() { return body_.nest(); }
  void inner(std::string statement) { nest().before(nest().innermost(), std::move(statement)); }

  /// Ends the current kernel and starts the next one.
  KernelText finish_kernel(const std::string& loops);

  // The functions named "..._nest" put the loops of one op into nest().
  void elementwise_nest(const PlannedStep& step);
  /// Computes the total over the reduced dims for every element of the kept dims. The caller stores
  /// it by a statement after() the returned level.
  struct Reduced {
    int level = -1;
    Access kept;
  };
  Reduced reduction_nest(NodeId id);
  /// The dims of an ordered sum's operand (sums/sum_order.h) as loops: kept dims ('k'), reduced
  /// dims around the run ('o'), and the run ('r'). Adjacent dims of one kind are merged if the
  /// operand is flat.
  struct Loops {
    std::vector<shapes::Expr> kept, outer, run, sizes;  // `sizes`: all, in memory order
    std::vector<char> is;                               // for each of `sizes`: 'k', 'o' or 'r'
    bool rows = true, side_by_side = false;             // side_by_side: kept dims follow the run
    /// Returns the operand's element at these indices.
    [[nodiscard]] Access access(const std::vector<IndexText>& of_kept,
                                const std::vector<IndexText>& of_outer,
                                const std::vector<IndexText>& of_run) const;
  };
  [[nodiscard]] Loops sum_loops(NodeId id) const;
  /// Returns the index in each dim of `sizes` of the element at the row-major position `place`.
  [[nodiscard]] std::vector<IndexText> split_index(std::span<const shapes::Expr> sizes,
                                                   const IndexText& place);
  /// "true" if the ordered sum is a product, else "false": a template argument.
  [[nodiscard]] std::string_view product_text(NodeId id) const;
  [[nodiscard]] static Total::Join join_of(Op reduction);
  /// Joins `value` into a total of loop `level` by the operation of `op`: sum, product, maximum,
  /// ...
  void accumulate(Op op, DType dtype, const std::string& value, int level);
  /// Writes the part of a concatenation that `operand` fills, beginning at `start`.
  void part_nest(NodeId id, NodeId operand, const shapes::Expr& start);
  /// Returns the statement that joins `value` into `into` as the IndexPut node says.
  [[nodiscard]] std::string put_text(NodeId index_put, const std::string& into,
                                     const std::string& value) const;
  /// Scans row by row; a row is the last dim.
  void scan_nest(NodeId id);
  /// Returns the prelude's type of a scan's state.
  [[nodiscard]] std::string scan_state(NodeId id) const;
  /// Adds element `at` of the row to the variable `into`, in the innermost loop. `access`: the dims
  /// before the last.
  void add_to_scan(NodeId id, std::string_view into, Access access, const IndexText& at);
  /// Sets the result's element to the value of the variable `state`.
  void put_scan(NodeId id, std::string_view state, Access access, const IndexText& at);
  /// The sum of an ordered join of numbers (sums/join_order.h), as text.
  struct NumberSum {
    bool is_exact = false;  // f64: also adds up the rounding errors of its additions
    std::string_view type;
    [[nodiscard]] std::size_t parts() const { return is_exact ? 2 : 1; }
    [[nodiscard]] std::string add(std::string_view total, std::string_view lost,
                                  std::string_view value) const;
    [[nodiscard]] std::string value(std::string_view total, std::string_view lost) const;
  };
  [[nodiscard]] NumberSum number_sum(NodeId id) const;
  void search_nest(NodeId id);
  void nonzero_nest(NodeId id);
  /// Returns the user's text after declarations of the names that it may use. `threads` declares
  /// this thread's number and the number of threads.
  [[nodiscard]] std::string own_body(NodeId id, std::string_view threads, std::string_view text);

  Emission emission_;

 private:
  [[nodiscard]] std::string_view c_type_of(NodeId id) const;
  void arg_max(NodeId id, const Access& access, int level);

  const Graph& graph_;
  const Plan& plan_;
  KernelBody body_;
};

/// C++ for the host's processor: loops in order, the innermost one vectorised.
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
  /// Adds the kernel of the nest. Threads share its first `loops` loops, which are free.
  void add_shared(std::size_t loops, const KernelText::Sharing& sharing);
  /// Adds the kernel of a nest of free loops over `sizes`.
  void add_free(std::span<const shapes::Expr> sizes);
  /// Returns whether threads share a kernel over so many elements.
  [[nodiscard]] static bool worth_sharing(const shapes::Expr& elements);
  /// Adds a kernel of which threads share the iterations from "first" to before "last".
  void add_part(const std::string& loops, KernelText::Sharing sharing);
  void sum_all(NodeId id, const Loops& loops);
};

}  // namespace lockstep::worker
