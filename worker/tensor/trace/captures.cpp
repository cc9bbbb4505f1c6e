#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <lockstep/worker/tensor/trace/captures.h>

namespace lockstep::worker {
namespace {

/// One item that a trace recorded, and its line.
struct Recorded {
  std::string text, where;
};

std::vector<Recorded> recorded(const Graph& graph);

/// Adds the node and the contents of its bodies.
void add_node(const Graph& graph, NodeId id, std::vector<Recorded>& out) {
  out.push_back({graph.node_text(id), graph.nodes[id].where.text()});
  for (const auto& body : graph.nodes[id].bodies)
    for (Recorded& inner : recorded(*body)) {
      inner.text = "in a body " + inner.text;
      out.push_back(std::move(inner));
    }
}

std::vector<Recorded> recorded(const Graph& graph) {
  const auto named = [&](shapes::Symbol symbol) {
    for (const SymbolBinding& known : graph.symbols)
      if (known.symbol == symbol) return known.source;
    return symbol.name();
  };
  std::vector<Recorded> out;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) add_node(graph, id, out);
  for (const shapes::Guard& guard : graph.guards)
    out.push_back({"the branch " + guard.predicate.text(named), guard.where.text()});
  for (const GroupGuard& guard : graph.group_guards)
    out.push_back(
        {fmt::format("{}({})", guard.over == GroupGuard::Over::Any ? "group_any" : "group_all",
                     guard.predicate.text(named)),
         guard.where.text()});
  for (const Graph::Output& output : graph.outputs)
    out.push_back({fmt::format("the output {} = %{}", output.name, output.node),
                   graph.nodes[output.node].where.text()});
  return out;
}

}  // namespace

std::string capture_text(const Graph& then, const Graph& now) {
  const std::vector<Recorded> before = recorded(then), after = recorded(now);
  const auto [old, fresh] =
      std::ranges::mismatch(before, after, {}, &Recorded::text, &Recorded::text);
  if (old == before.end() && fresh == after.end()) return "what it records reads the same";
  if (old == before.end())
    return fmt::format("{} records {} now, and did not then", fresh->where, fresh->text);
  if (fresh == after.end())
    return fmt::format("{} recorded {} then, and does not now", old->where, old->text);
  if (old->where == fresh->where)
    return fmt::format("{} recorded {} then, and {} now", old->where, old->text, fresh->text);
  return fmt::format("{} recorded {} then, where {} records {} now", old->where, old->text,
                     fresh->where, fresh->text);
}

}  // namespace lockstep::worker
