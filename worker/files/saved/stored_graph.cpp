#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <lockstep/worker/files/saved/saved_bytes.h>
#include <lockstep/worker/files/saved/stored_graph.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

/// Returns the nesting among the groups that the graph or its bodies name (groups_of()). Other
/// groups may differ in the job that loads the program.
Nesting named_nesting(const Graph& graph) {
  const std::vector<std::string> named = groups_of(graph);
  const auto is_named = [&](const std::string& group) {
    return std::ranges::find(named, group) != named.end();
  };
  Nesting out;
  for (const auto& [group, within] : graph.nesting)
    for (const std::string& other : within)
      if (is_named(group) && is_named(other)) out[group].insert(other);
  return out;
}

/// Returns a definition that can be shown and cannot run.
std::shared_ptr<const OwnDefinition> stand_in(const std::string& name,
                                              const shapes::Fingerprint& definition,
                                              const TensorMeta& meta) {
  OwnDefinition out;
  out.name = name;
  out.stands_for = definition;
  out.shape_rule = [meta](std::span<const TensorMeta>) { return meta; };
  out.reference = [](std::span<const Array>, Array&) {
    throw std::runtime_error("an op that is only shown cannot run");
  };
  return std::make_shared<const OwnDefinition>(std::move(out));
}

}  // namespace

std::uint32_t GraphWriter::own_number(const OwnDefinition& own) {
  const StoredOwn made{texts_.id(own.name), own.fingerprint()};
  const auto known = std::ranges::find_if(out_.own, [&](const StoredOwn& other) {
    return other.name == made.name && other.definition == made.definition;
  });
  if (known != out_.own.end()) return static_cast<std::uint32_t>(known - out_.own.begin()) + 1;
  out_.own.push_back(made);
  return static_cast<std::uint32_t>(out_.own.size());
}

StoredNode GraphWriter::stored_node(const Node& node) {
  const auto id = [&](const shapes::Expr& expr) { return texts_.id(expr); };
  StoredNode out;
  out.op = static_cast<std::uint8_t>(node.op);
  out.dtype = static_cast<std::uint8_t>(node.meta.dtype);
  out.inputs = node.inputs;
  out.sizes = each<TextId>(node.meta.sizes, id);
  out.exprs = each<TextId>(node.exprs, id);
  out.ints = node.ints;
  out.number = std::bit_cast<std::uint64_t>(node.number);
  out.text = texts_.id(node.text);
  out.asserts = each<StoredGuard>(node.asserts, [&](const auto& a) { return stored(texts_, a); });
  out.binds = each<StoredSymbol>(node.binds, [](const auto& symbol) { return stored(symbol); });
  if (node.own) out.own = own_number(*node.own);
  for (const auto& body : node.bodies) out.bodies.push_back(add(*body));
  out.where = stored(texts_, node.where);
  return out;
}

std::uint32_t GraphWriter::add(const Graph& graph) {
  const auto same = [&](const auto& one) { return stored(texts_, one); };
  const auto text = [&](const std::string& one) { return texts_.id(one); };
  StoredGraph out;
  out.name = texts_.id(graph.name);
  out.peers_may_differ = graph.peers_may_differ ? 1 : 0;
  out.is_body = graph.is_body ? 1 : 0;
  for (const Node& node : graph.nodes) out.nodes.push_back(stored_node(node));
  for (const Graph::Output& output : graph.outputs)
    out.outputs.push_back({texts_.id(output.name), output.node});
  for (const SymbolBinding& binding : graph.symbols)
    out.symbols.push_back({stored(binding.symbol), texts_.id(binding.source), binding.hint,
                           stored(texts_, binding.value)});
  out.guards = each<StoredGuard>(graph.guards, same);
  out.group_guards = each<StoredGroupGuard>(graph.group_guards, same);
  out.uniform = each<StoredUniform>(graph.uniform, same);
  for (const auto& [group, within] : named_nesting(graph))
    out.nesting.push_back(
        {texts_.id(group),
         each<TextId>(std::vector<std::string>(within.begin(), within.end()), text)});
  out.answers = graph.answers;
  out.read_backs = each<TextId>(graph.read_backs, text);
  out_.graphs.push_back(std::move(out));
  return static_cast<std::uint32_t>(out_.graphs.size()) - 1;
}

GraphReader::GraphReader(TextReader& texts, const StoredProgram& from, const OwnOps& own)
    : texts_(texts), from_(from), own_(own), taken_(from.graphs.size(), false) {}

void GraphReader::take_once(std::uint32_t number) {
  if (number >= taken_.size())
    throw StoredFlaw(fmt::format("it asks for graph {} of {}", number, taken_.size()));
  if (taken_[number]) throw StoredFlaw(fmt::format("graph {} has two places", number));
  taken_[number] = true;
}

Graph GraphReader::take(std::uint32_t number) {
  take_once(number);
  if (flag_of(from_.graphs[number].is_body))
    throw StoredFlaw(fmt::format("graph {} is a body of a node", number));
  return graph_of(from_.graphs[number], number, 0);
}

std::shared_ptr<const Graph> GraphReader::body_of(std::uint32_t number, std::uint32_t within,
                                                  int depth) {
  if (number >= within)
    throw StoredFlaw(fmt::format("graph {} does not stand before its node's", number));
  take_once(number);
  if (!flag_of(from_.graphs[number].is_body))
    throw StoredFlaw(fmt::format("graph {} is no body of a node", number));
  if (depth > kMostBodies)
    throw StoredFlaw(fmt::format("its bodies lie in more than {} others", kMostBodies));
  return std::make_shared<const Graph>(graph_of(from_.graphs[number], number, depth));
}

Graph GraphReader::graph_of(const StoredGraph& from, std::uint32_t number, int depth) {
  Graph out;
  out.name = texts_.text(from.name);
  out.peers_may_differ = flag_of(from.peers_may_differ);
  out.is_body = flag_of(from.is_body);
  for (const StoredNode& node : from.nodes) out.nodes.push_back(node_of(node, number, depth));
  for (const StoredOutput& output : from.outputs)
    out.outputs.push_back({texts_.text(output.name), output.node});
  for (const StoredBinding& binding : from.symbols)
    out.symbols.push_back({symbol_of(binding.symbol), texts_.text(binding.source), binding.hint,
                           host_value_of(texts_, binding.value)});
  for (const StoredGuard& guard : from.guards) out.guards.push_back(guard_of(texts_, guard));
  for (const StoredGroupGuard& guard : from.group_guards)
    out.group_guards.push_back(group_guard_of(texts_, guard));
  for (const StoredUniform& size : from.uniform) out.uniform.push_back(uniform_of(texts_, size));
  for (const StoredNesting& nesting : from.nesting)
    for (const TextId within : nesting.within)
      out.nesting[texts_.text(nesting.group)].insert(texts_.text(within));
  out.answers = from.answers;
  for (const TextId mask : from.read_backs) out.read_backs.push_back(texts_.text(mask));
  return out;
}

Node GraphReader::node_of(const StoredNode& from, std::uint32_t graph, int depth) {
  Node out;
  out.op = enum_of<Op>(from.op, static_cast<int>(kOps.size()), "such op");
  out.inputs = from.inputs;
  for (const TextId expr : from.exprs) out.exprs.push_back(texts_.expr(expr));
  out.ints = from.ints;
  out.number = std::bit_cast<double>(from.number);
  out.text = texts_.text(from.text);
  for (const StoredGuard& check : from.asserts) out.asserts.push_back(assert_of(texts_, check));
  out.meta.dtype = dtype_of(from.dtype);
  for (const TextId size : from.sizes) out.meta.sizes.push_back(texts_.expr(size));
  for (const StoredSymbol& symbol : from.binds) out.binds.push_back(symbol_of(symbol));
  out.where = location_of(texts_, from.where);
  for (const std::uint32_t body : from.bodies)
    out.bodies.push_back(body_of(body, graph, depth + 1));
  if (from.own != 0) out.own = own_of(from, out);
  return out;
}

std::shared_ptr<const OwnDefinition> GraphReader::own_of(const StoredNode& from, const Node& node) {
  if (from.own > from_.own.size())
    throw StoredFlaw(fmt::format("it asks for definition {} of {}", from.own, from_.own.size()));
  const StoredOwn& stored_own = from_.own[from.own - 1];
  const std::string& name = texts_.text(stored_own.name);
  const auto known = std::ranges::find(own_.known, name, &OwnDefinition::name);
  const bool same = known != own_.known.end() && known->fingerprint() == stored_own.definition;
  if (same) return std::make_shared<const OwnDefinition>(*known);
  if (own_.stand_ins) return stand_in(name, stored_own.definition, node.meta);
  const char* kind = node.op == Op::HostCall ? "host call" : "op";
  if (known == own_.known.end())
    throw UnknownOwn{fmt::format(
        "uses the {} {}, which this process has not registered; load it in a program that gives "
        "its definition (LoadOptions::own_ops)",
        kind, name)};
  throw UnknownOwn{
      fmt::format("uses the {} {} of another definition than the one registered here ({} in the "
                  "file, {} here); "
                  "register the one that it was traced with, or trace it again",
                  kind, name, stored_own.definition.text().substr(0, 8),
                  known->fingerprint().text().substr(0, 8))};
}

}  // namespace lockstep::worker
