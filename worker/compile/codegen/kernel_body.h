// The text of one kernel while it is written: values of nodes at an index, computed once per loop
// level, and the kernel's buffers and numbers. Used by the emitters only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/compile/codegen/loop_nest.h>
#include <lockstep/worker/compile/codegen/plan.h>

namespace lockstep::worker {

/// An element of a row-major array of `sizes`: its index in each dim. The sizes may be those of the
/// value or of any reshape of it.
struct Access {
  std::vector<shapes::Expr> sizes;
  std::vector<IndexText> index;
};

/// Whether indices that are read from tensors are known to be in range when the kernel runs.
/// Checked: they are. Unchecked: the outcome of the check may not be known yet, so an index out of
/// range must touch no memory; its result is arbitrary.
enum class Indices : std::uint8_t { Checked, Unchecked };

class KernelBody {
 public:
  KernelBody(const Graph& graph, const Plan& plan, Indices indices)
      : graph_(graph), plan_(plan), indices_(indices) {}

  /// Clears everything.
  void start_kernel();
  /// Starts a new loop nest: clears values, keeps buffers and numbers.
  void start_nest();
  [[nodiscard]] LoopNest& nest() { return nest_; }
  /// Opens a loop over each size except the constant 1. Returns the index of an element.
  Access open_loops(std::span<const shapes::Expr> sizes);

  /// Returns the name of the value of `id` at `access`; its statements are added to the nest.
  std::string value(NodeId id, const Access& access);
  /// Returns the value of a root: computed here, although the root has memory.
  std::string root_value(NodeId id, const Access& access);

  /// Returns a size as the kernel sees it: a literal, or one of its arguments.
  IndexText number(const shapes::Expr& expr);
  /// "b3": the pointer to the memory of `id`.
  std::string buffer(NodeId id, bool written = false);
  /// "b3[(i0 * 64) + i1]"
  std::string element(NodeId id, const Access& access, bool written = false);
  /// "p0": the pointer to the scratch memory `which` of the step.
  std::string scratch(std::size_t which, DType dtype);
  /// Returns the row-major position.
  IndexText offset(const Access& access);

  /// Returns the function's body: declarations of buffers and numbers, then `loops`.
  [[nodiscard]] std::string text(const std::string& loops) const;
  /// Returns the parameters: "const float* __restrict b0, long* __restrict p0, long n0".
  [[nodiscard]] std::string parameters() const;
  /// Returns statements that tell the compiler that buffers are aligned to 16 bytes.
  [[nodiscard]] std::string aligned_text() const;
  [[nodiscard]] const std::vector<NodeId>& buffers() const { return buffers_; }
  [[nodiscard]] const std::vector<shapes::Expr>& arguments() const { return arguments_; }
  /// Indices of the scratch memory that the kernel uses, in the order of first use.
  [[nodiscard]] const std::vector<std::size_t>& scratches() const { return scratches_; }

 private:
  struct Value {
    std::string name;
    int level = -1;
  };
  /// The condition under which the element exists, a bool of the nest; empty if it always exists.
  using Mask = std::optional<Value>;
  Value compute(NodeId id, const Access& access, const Mask& mask);
  Value compute_op(NodeId id, const Access& access, const Mask& mask);
  Value load(NodeId id, const Access& access, const Mask& mask);
  Value elementwise(NodeId id, const Access& access, const Mask& mask);
  Value moved(NodeId id, const Access& access, const Mask& mask);
  Value scalar(NodeId id, const Access& access, const Mask& mask);
  Value full(NodeId id, const Access& access, const Mask& mask);
  Value iota(NodeId id, const Access& access, const Mask& mask);
  Value reshaped(NodeId id, const Access& access, const Mask& mask);
  Value padded(NodeId id, const Access& access, const Mask& mask);
  Value unfolded(NodeId id, const Access& access, const Mask& mask);
  Value overlaid(NodeId id, const Access& access, const Mask& mask);
  Value selected(NodeId id, const Access& access, const Mask& mask);
  /// Returns the index, in the value's own sizes, of the element at `access`.
  Access own_access(NodeId id, const Access& access);
  [[nodiscard]] Access single_access(NodeId id) const;
  Value define(std::string_view type, const std::string& text, int level);
  [[nodiscard]] std::string pointer_type(std::size_t buffer) const;
  std::string key(NodeId id, const Access& access, const Mask& mask) const;

  const Graph& graph_;
  const Plan& plan_;
  Indices indices_;
  LoopNest nest_;
  std::map<std::string, Value> known_;
  std::vector<NodeId> buffers_;
  std::vector<bool> written_;
  std::vector<std::size_t> scratches_;
  std::vector<DType> scratch_types_;
  std::vector<shapes::Expr> arguments_;
  int names_ = 0;
};

}  // namespace lockstep::worker
