#include <algorithm>
#include <optional>
#include <set>

#include <lockstep/worker/compile/codegen/row_chains.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// Most steps of a chain, all of whose values live until it ends.
constexpr std::size_t kMostSteps = 8;

/// Returns how many leading dims have `rows` elements together; nullopt: no number of dims.
std::optional<std::size_t> dims_of_rows(std::span<const Expr> sizes, const Expr& rows) {
  for (std::size_t count = sizes.size(); count > 0; --count)
    if (shapes::product(sizes.first(count)) == rows) return count;
  return std::nullopt;
}

/// Returns the leading dims at which the loops of the step's kernel can be cut.
std::span<const Expr> cut_dims(const Graph& graph, const PlannedStep& step) {
  const Node& node = graph.nodes[step.node];
  const std::span<const Expr> sizes(node.meta.sizes);
  const OpRow& row = op_row(node.op);
  if (row.kind == OpClass::Reduction) {
    const std::size_t kept = sizes.size(), dims = kept + node.ints.size();
    for (std::size_t k = 0; k < node.ints.size(); ++k)
      if (node.ints[k] != static_cast<std::int64_t>(kept + k)) return {};  // not the last dims
    return graph.nodes[node.inputs[0]].meta.sizes.size() == dims ? sizes : std::span<const Expr>();
  }
  if (is_scan(row)) return sizes.first(sizes.size() - 1);
  if (row.kind == OpClass::Index && !picks(node.op)) return {};
  if (node.op == Op::Cat) return {};
  if (step.flat || long_sizes(sizes).size() <= 1) return sizes;
  // All loops but the innermost one.
  std::size_t last = sizes.size();
  while (sizes[last - 1].constant() == std::optional<std::int64_t>(1)) --last;
  return sizes.first(last - 1);
}

/// Whether a row of a step reads only the same row of some values.
class RowReader {
 public:
  RowReader(const Graph& graph, const Plan& plan, const std::set<NodeId>& made, Expr rows)
      : graph_(graph), plan_(plan), made_(made), rows_(std::move(rows)) {}

  [[nodiscard]] bool reads_its_rows(NodeId root) { return operands(root, true); }

 private:
  /// `same`: the row of the root is the row of this value. Without it no value in `made_` is read.
  bool value(NodeId id, bool same) {
    if (plan_.in_memory(id)) return same || !made_.contains(plan_.storage[id]);
    return !seen_.insert({id, same}).second || operands(id, same);
  }

  bool operands(NodeId id, bool same) {
    const Node& node = graph_.nodes[id];
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      if (!value(node.inputs[k], same && keeps_rows(node, k))) return false;
    return true;
  }

  /// Whether element [r, …] of the node reads only elements [r, …] of operand `k`.
  [[nodiscard]] bool keeps_rows(const Node& node, std::size_t k) const {
    const std::span<const Expr> to(node.meta.sizes), from(graph_.nodes[node.inputs[k]].meta.sizes);
    const auto dims = dims_of_rows(to, rows_), theirs = dims_of_rows(from, rows_);
    if (!dims || !theirs) return false;
    const auto inside = [&](std::int64_t dim) { return dim >= static_cast<std::int64_t>(*dims); };
    const auto all_inside = [&] { return std::ranges::all_of(node.ints, inside); };
    const bool same_dims =
        std::ranges::equal(to.first(*dims), from.first(std::min(*dims, from.size())));
    switch (op_row(node.op).kind) {
      case OpClass::Elementwise:
        return true;
      case OpClass::Reduction:
        return same_dims && all_inside();
      case OpClass::View:
        break;
      case OpClass::Index:
        if (node.op == Op::CheckedIndex) return true;
        if (node.op == Op::IndexSelect) return k == 1;
        if (node.op == Op::Gather) return k == 1 || (same_dims && inside(node.ints[0]));
        return is_scan(op_row(node.op)) && *dims < to.size();
      default:
        return false;
    }
    switch (node.op) {
      case Op::Reshape:
        return true;
      case Op::Expand:
      case Op::Slice:
      case Op::Pad:
        return same_dims;
      case Op::Flip:
        return all_inside();
      case Op::Permute:
        for (std::size_t d = 0; d < *dims; ++d)
          if (node.ints[d] != static_cast<std::int64_t>(d)) return false;
        return true;
      default:
        return false;
    }
  }

  const Graph& graph_;
  const Plan& plan_;
  const std::set<NodeId>& made_;
  Expr rows_;
  std::set<std::pair<NodeId, bool>> seen_;
};

/// A chain while steps are added to it.
class Chain {
 public:
  Chain(const Graph& graph, const Plan& plan) : graph_(graph), plan_(plan) {}

  /// Returns false if the step does not fit.
  bool add(const PlannedStep& step) {
    std::vector<Expr> left;
    const std::span<const Expr> dims = cut_dims(graph_, step);
    for (std::size_t count = dims.size(); count > 0; --count) {
      const Expr rows = shapes::product(dims.first(count));
      if (rows.constant() == std::optional<std::int64_t>(1)) continue;
      if (!made_.empty() && std::ranges::find(rows_, rows) == rows_.end()) continue;
      if (std::ranges::all_of(step.roots, [&](NodeId root) {
            return RowReader(graph_, plan_, made_, rows).reads_its_rows(root);
          }))
        left.push_back(rows);
    }
    if (left.empty() || !follows(step)) return false;
    rows_ = std::move(left);
    for (const NodeId root : step.roots) {
      made_.insert(root);
      for (const Reads::Load& load : reads_of(graph_, plan_, root).loads)
        read_.insert(load.storage);
    }
    return true;
  }
  /// The finest rows.
  [[nodiscard]] const Expr& rows() const { return rows_.front(); }

 private:
  /// Whether a row of something that the step reads is still in the cache.
  [[nodiscard]] bool follows(const PlannedStep& step) const {
    return made_.empty() || std::ranges::any_of(step.roots, [&](NodeId root) {
             return std::ranges::any_of(reads_of(graph_, plan_, root).loads, [&](const auto& load) {
               return !is_single(graph_.nodes[load.storage]) &&
                      (made_.contains(load.storage) || read_.contains(load.storage));
             });
           });
  }

  const Graph& graph_;
  const Plan& plan_;
  std::vector<Expr> rows_;
  std::set<NodeId> made_, read_;
};

}  // namespace

std::vector<RowChain> row_chains(const Graph& graph, const Plan& plan,
                                 std::span<const PlannedStep* const> kernels) {
  std::vector<RowChain> out;
  for (std::size_t first = 0; first < kernels.size();) {
    Chain chain(graph, plan);
    std::size_t end = first;
    while (end < std::min(kernels.size(), first + kMostSteps) && kernels[end] != nullptr &&
           chain.add(*kernels[end]))
      ++end;
    if (end > first + 1) out.push_back({first, end - first, chain.rows()});
    first = std::max(end, first + 1);
  }
  return out;
}

}  // namespace lockstep::worker
