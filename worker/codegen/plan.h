// Which values of a graph get memory, and which kernels and other steps make them, in order. Pure:
// the same graph gives the same plan on every rank. Called by codegen; knows no text and no buffer
// sizes.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include <lockstep/worker/codegen/program.h>
#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

struct PlannedStep {
  Step::Kind kind = Step::Kind::Kernel;
  NodeId node = 0;
  /// Kernel: the values it stores, in node order; several for elementwise values over the same
  /// sizes, else one. Control: the results that are wanted.
  std::vector<NodeId> roots;
  bool carries_status = false;  // Collective: ErrorSync::Piggybacked
  bool compares = false;        // Control: ErrorSyncPoints::compares
  /// Kernel of elementwise values: one flat loop will do.
  bool flat = false;
  std::vector<shapes::Expr> sizes{};  // SizesExchange: what is compared
};

struct Plan {
  std::vector<bool> live;
  /// The value has memory of its own. A value that is neither stored nor an alias is computed where
  /// it is used.
  std::vector<bool> stored;
  /// The node whose memory holds this value: itself if stored, the operand's for a reshape of a
  /// stored value; meaningless for the others.
  std::vector<NodeId> storage;
  /// The value's element i (in row-major order) depends only on element i of what it loads, and on
  /// single elements; so it can be computed in one flat loop.
  std::vector<bool> flat;
  std::vector<PlannedStep> steps;

  [[nodiscard]] bool in_memory(NodeId node) const { return stored[storage[node]]; }
};

[[nodiscard]] Plan plan(const Graph& graph);

/// One element, whatever the symbols are.
[[nodiscard]] bool is_single(const Node& node);
/// The sizes without those that are the constant 1.
[[nodiscard]] std::vector<shapes::Expr> long_sizes(std::span<const shapes::Expr> sizes);
/// A permutation that only swaps the last two dims.
[[nodiscard]] bool is_transposition(const Node& node);
/// What a kernel that computes `root` reads.
struct Reads {
  struct Load {
    NodeId storage = 0;
    bool pointwise = false;  // element i of the root reads element i of it
    auto operator<=>(const Load&) const = default;
  };
  std::set<Load> loads;
  std::set<shapes::Symbol> symbols;
  std::set<NodeId> picks;  // nodes computed inline whose indices have to be checked before
};
[[nodiscard]] Reads reads_of(const Graph& graph, const Plan& plan, NodeId root);

// The first half of planning: which values need memory. In storage.cpp.

/// Fills live, stored, storage and flat. A value gets memory where an op needs it there (products,
/// collectives, outputs), where it cannot be computed per element (reductions), and where computing
/// it again for each use would cost more than storing it.
void choose_storage(const Graph& graph, Plan& plan);
/// Stored because an op or an output needs it in memory, not only to save work.
[[nodiscard]] std::vector<bool> required_in_memory(const Graph& graph, const Plan& plan);

}  // namespace lockstep::worker
