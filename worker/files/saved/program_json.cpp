#include <nlohmann/json.hpp>

#include <lockstep/worker/agree/exchange/decision_json.h>
#include <lockstep/worker/files/saved/program_text.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using nlohmann::ordered_json;

ordered_json nodes_json(const Graph& graph) {
  ordered_json out = ordered_json::array();
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    ordered_json sizes = ordered_json::array();
    for (const shapes::Expr& size : node.meta.sizes) sizes.push_back(size.text());
    ordered_json one{{"id", id},
                     {"op", op_row(node.op).name},
                     {"inputs", node.inputs},
                     {"dtype", dtype_name(node.meta.dtype)},
                     {"sizes", std::move(sizes)},
                     {"text", graph.node_text(id)},
                     {"line", node.where.text()}};
    if (!node.text.empty()) one["name"] = node.text;
    for (const auto& body : node.bodies) one["bodies"].push_back(nodes_json(*body));
    out.push_back(std::move(one));
  }
  return out;
}

ordered_json entry_json(const SavedEntry& entry) {
  ordered_json out{{"graph", entry.graph.fingerprint().text()}};
  out.update(ordered_json::parse(decision_json(entry.decision)));
  for (std::size_t i = entry.decision.symbols.size(); i < entry.graph.symbols.size(); ++i)
    out["symbols"][entry.graph.symbols[i].symbol.name()] = {
        {"source", entry.graph.symbols[i].source}, {"hint", entry.graph.symbols[i].hint}};
  out["guards"] = guards_json(entry.graph.guards, entry.graph.group_guards,
                              entry.decision.source_namer(entry.graph.host_values()));
  out["uniform"] = ordered_json::array();
  for (const UniformSize& size : entry.graph.uniform)
    out["uniform"].push_back(
        {{"text", size.expr.text()}, {"group", size.group}, {"line", size.where.text()}});
  out["outputs"] = ordered_json::object();
  for (const Graph::Output& output : entry.graph.outputs) out["outputs"][output.name] = output.node;
  out["nodes"] = nodes_json(entry.graph);
  out["objects"] = entry.objects.size();
  return out;
}

}  // namespace

std::string program_json(const SavedProgram& program) {
  ordered_json out{{"format", "lockstep.program/1"},
                   {"frame", program.frame},
                   {"fingerprint", program.joint_fingerprint().text()},
                   {"ranks", program.ranks},
                   {"group", program.group},
                   {"consistency", consistency_name(program.consistency)},
                   {"audit", program.audit},
                   {"complex_branches", program.complex_as_asserts ? "assert" : "guard"},
                   {"constraints", program.constraints},
                   {"groups", program.groups},
                   {"own_ops", ordered_json::object()},
                   {"packed", nullptr},
                   {"entries", ordered_json::array()}};
  for (const auto& [name, node] : own_ops_of(program))
    out["own_ops"][name] = node->own->fingerprint().text();
  if (program.packed)
    out["packed"] = {{"processor", program.packed->processor},
                     {"toolchain", program.packed->toolchain.text()}};
  for (const SavedEntry& entry : program.entries) out["entries"].push_back(entry_json(entry));
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace lockstep::worker
