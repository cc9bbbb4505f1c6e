#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/own_op.h>
#include <lockstep/worker/tensor/trace/read_backs.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Symbol;

bool mentions_any(const Expr& expr, const std::vector<Symbol>& symbols) {
  return std::ranges::any_of(expr.symbols(), [&](Symbol symbol) {
    return std::ranges::find(symbols, symbol) != symbols.end();
  });
}

/// ": matmul in train.cpp:41 needs it", with the first node, check or uniform size that needs it.
std::string need_of(const Recording& recording, const Node& sync,
                    const std::vector<shapes::DeferredAssert>& asserts,
                    const std::vector<UniformSize>& uniform) {
  const auto of = [&](const Expr& expr) { return mentions_any(expr, sync.binds); };
  const auto needs = [](std::string_view what, const shapes::Location& where) {
    return fmt::format(": {} in {} needs it", what, where.text());
  };
  for (const Node& node : recording.nodes)
    if (std::ranges::any_of(node.meta.sizes, of) || std::ranges::any_of(node.exprs, of))
      return needs(op_name(node), node.where);
  for (const shapes::DeferredAssert& deferred : asserts)
    if (of(deferred.predicate.expr)) return needs("a check", deferred.where);
  for (const UniformSize& size : uniform)
    if (of(size.expr)) return needs("a size that all ranks need alike", sync.where);
  return ", though nothing needs it";
}

}  // namespace

std::vector<std::string> read_back_lines(const Recording& recording,
                                         const std::vector<shapes::DeferredAssert>& asserts,
                                         const std::vector<UniformSize>& uniform,
                                         std::map<Symbol, std::string> of_masks) {
  std::map<Symbol, std::string> lines = std::move(of_masks);
  std::vector<std::string> without_values;  // lists without elements
  for (const Node& node : recording.nodes) {
    if (op_row(node.op).kind != OpClass::HostSync) continue;
    if (!node.binds.empty() && lines.contains(node.binds[0])) continue;
    const std::string name = node.text.empty() ? fmt::format("{}()", op_name(node)) : node.text;
    std::string line = fmt::format("{} of {} is read back{}", name, node.where.text(),
                                   need_of(recording, node, asserts, uniform));
    if (node.binds.empty())
      without_values.push_back(std::move(line));
    else
      lines[node.binds[0]] = std::move(line);
  }
  std::vector<std::string> out;
  for (auto& [symbol, line] : lines) out.push_back(std::move(line));
  out.insert(out.end(), without_values.begin(), without_values.end());
  return out;
}

}  // namespace lockstep::worker
