#include <algorithm>

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/row_symbols.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Symbol;

class Rows {
 public:
  Rows(const Graph& graph, Symbol symbol) : graph_(graph), symbol_(symbol) {}

  [[nodiscard]] bool only() const {
    return std::ranges::all_of(
        graph_.nodes, [&](const Node& node) { return mentions_rows_only(node) && by_rows(node); });
  }

 private:
  [[nodiscard]] bool in(const Expr& expr) const {
    const auto symbols = expr.symbols();
    return std::ranges::find(symbols, symbol_) != symbols.end();
  }
  [[nodiscard]] bool has_rows(const Node& node) const {
    return !node.meta.sizes.empty() && node.meta.sizes[0] == Expr::symbol(symbol_);
  }
  [[nodiscard]] bool has_rows(const Node& node, std::size_t operand) const {
    return has_rows(graph_.nodes[node.inputs[operand]]);
  }

  [[nodiscard]] bool mentions_rows_only(const Node& node) const {
    for (std::size_t d = 0; d < node.meta.sizes.size(); ++d)
      if (in(node.meta.sizes[d]) && !(d == 0 && has_rows(node))) return false;
    for (const Expr& expr : node.exprs)
      if (in(expr)) return false;
    return std::ranges::none_of(node.asserts, [&](const shapes::DeferredAssert& asserted) {
      return in(asserted.predicate.expr);
    });
  }

  /// True if the node makes row i of its value from rows i of the operands that have such rows.
  [[nodiscard]] bool by_rows(const Node& node) const {
    const bool rows = has_rows(node);
    bool any = rows;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) any = any || has_rows(node, k);
    if (!any) return true;
    switch (op_row(node.op).kind) {
      case OpClass::Source:
        return true;
      case OpClass::Elementwise:
        // Not where integers would be divided by the appended zeros.
        return (node.op != Op::Div && node.op != Op::Mod) || is_float(node.meta.dtype);
      case OpClass::View:
        if (node.op == Op::Expand) return rows;
        if (node.op == Op::Reshape) return rows && has_rows(node, 0);
        return rows && (node.ints[0] == 0) == (node.op == Op::Permute);
      case OpClass::Reduction:
        return rows;
      case OpClass::Product:
        if (node.op == Op::Attention) return attends_by_rows(node);
        if (node.op != Op::Matmul || !rows || !has_rows(node, 0)) return false;
        return has_rows(node, 1) == (node.meta.sizes.size() == 3);
      case OpClass::Index:
        // Appended indices must be in range, and only those of an input are known to be 0.
        return node.op == Op::IndexSelect && rows && !has_rows(node, 0) &&
               graph_.nodes[node.inputs[1]].op == Op::Input;
      case OpClass::Collective:
      case OpClass::HostSync:
      case OpClass::Check:
      case OpClass::Control:
      case OpClass::Result:
      case OpClass::Own:
        return false;
    }
    return false;
  }

  /// True if the first dim of all operands is one of the leading dims; the mask may repeat itself.
  [[nodiscard]] bool attends_by_rows(const Node& node) const {
    if (node.meta.sizes.size() < 4 || !has_rows(node)) return false;
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      if (!has_rows(node, k) && (k < 3 || graph_.nodes[node.inputs[k]].meta.sizes[0] != Expr(1)))
        return false;
    return true;
  }

  const Graph& graph_;
  Symbol symbol_;
};

}  // namespace

std::vector<Symbol> row_symbols(const Graph& graph) {
  std::vector<Symbol> out;
  for (const SymbolBinding& binding : graph.symbols)
    if (Rows(graph, binding.symbol).only()) out.push_back(binding.symbol);
  return out;
}

}  // namespace lockstep::worker
