// Which values of a graph get memory, and which kernels and other steps make them, in order. Pure:
// equal graphs give equal plans on every rank. Called by codegen; knows no text and no buffer
// sizes.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include <lockstep/worker/compile/codegen/program.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

struct PlannedStep {
  Step::Kind kind = Step::Kind::Kernel;
  NodeId node = 0;
  /// Kernel: the values it stores, in node order; several for elementwise values over the same
  /// sizes, else one. Control: the results that are used.
  std::vector<NodeId> roots;
  bool carries_status = false;  // Collective: ErrorSync::Piggybacked
  bool compares = false;        // Control: ErrorSyncPoints::compares
  /// Kernel of elementwise values: one flat loop is enough.
  bool flat = false;
  std::vector<shapes::Expr> sizes{};  // SizesExchange: the sizes to compare
};

struct Plan {
  std::vector<bool> live;
  /// The value has memory of its own. A value that is neither stored nor an alias is computed where
  /// it is used.
  std::vector<bool> stored;
  /// The node whose memory holds this value: the node itself if stored; for a reshape of a stored
  /// value, the storage of the operand. Meaningless otherwise.
  std::vector<NodeId> storage;
  /// The value's element i (in row-major order) depends only on element i of the values that it
  /// loads, and on values of one element; so one flat loop can compute it.
  std::vector<bool> flat;
  std::vector<PlannedStep> steps;

  [[nodiscard]] bool in_memory(NodeId node) const { return stored[storage[node]]; }
};

[[nodiscard]] Plan plan(const Graph& graph);

/// True if the value always has one element, whatever the symbols are.
[[nodiscard]] bool is_single(const Node& node);
/// Returns the sizes other than the constant 1.
[[nodiscard]] std::vector<shapes::Expr> long_sizes(std::span<const shapes::Expr> sizes);
/// True for a permutation that only swaps the last two dims.
[[nodiscard]] bool is_transposition(const Node& node);
/// The values and symbols that a kernel reads to compute `root`.
struct Reads {
  struct Load {
    NodeId storage = 0;
    bool pointwise = false;  // element i of the root reads element i of `storage`
    auto operator<=>(const Load&) const = default;
  };
  std::set<Load> loads;
  std::set<shapes::Symbol> symbols;
  std::set<NodeId> picks;  // nodes computed inline whose indices must be checked first
};
[[nodiscard]] Reads reads_of(const Graph& graph, const Plan& plan, NodeId root);

// The first half of planning: which values need memory (storage.cpp).

/// Sets live, stored, storage and flat. A value gets memory if an op needs it there (products,
/// collectives, outputs), if it cannot be computed per element (reductions), or if computing it
/// again for each use would cost more than storing it.
void choose_storage(const Graph& graph, Plan& plan);
/// Values that an op or an output needs in memory; excludes values stored only to save work.
[[nodiscard]] std::vector<bool> required_in_memory(const Graph& graph, const Plan& plan);

}  // namespace lockstep::worker
