// Text of graphs for readers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/tensor/graph/graph.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {
namespace {

std::string list_text(const std::vector<shapes::Expr>& exprs) {
  std::vector<std::string> texts;
  for (const shapes::Expr& expr : exprs) texts.push_back(expr.text());
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

/// Adds what is printed between the parentheses besides operands.
void add_attributes(const Node& node, std::vector<std::string>& parts) {
  if (node.op == Op::Input) parts.push_back(fmt::format("\"{}\"", node.text));
  if (node.op == Op::Full) parts.push_back(fmt::format("{}", node.number));
  if (node.op == Op::AllToAll) {
    const auto middle = node.exprs.begin() + static_cast<std::ptrdiff_t>(node.exprs.size() / 2);
    parts.push_back("in=" + list_text({node.exprs.begin(), middle}));
    parts.push_back("out=" + list_text({middle, node.exprs.end()}));
  } else if (!node.exprs.empty()) {
    parts.push_back(list_text(node.exprs));
  }
  if (op_row(node.op).kind == OpClass::Collective && !node.text.empty())
    parts.push_back(fmt::format("group \"{}\"", node.text));
  if (node.op == Op::Item && !node.text.empty()) parts.push_back(fmt::format("\"{}\"", node.text));
  const bool dims = op_row(node.op).ints != 0;
  if (dims) parts.push_back(fmt::format("{{{}}}", fmt::join(node.ints, ", ")));
  for (const shapes::DeferredAssert& a : node.asserts) {
    parts.push_back(a.predicate.text());
    if (!a.message.empty()) parts.push_back(fmt::format("\"{}\"", a.message));
  }
}

std::string indented(const std::string& lines) {
  std::string out = "    ";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    out += lines[i];
    if (lines[i] == '\n' && i + 1 < lines.size()) out += "    ";
  }
  return out;
}

}  // namespace

std::string meta_text(const TensorMeta& meta) {
  return std::string(dtype_name(meta.dtype)) + list_text(meta.sizes);
}

std::string Graph::node_text(NodeId id) const {
  const Node& node = nodes.at(id);
  std::vector<std::string> parts;
  for (const NodeId input : node.inputs) parts.push_back(fmt::format("%{}", input));
  add_attributes(node, parts);
  // The digest distinguishes definitions with one name.
  const std::string which = node.own ? fmt::format("{} \"{}\" {}", op_row(node.op).name, node.text,
                                                   node.own->fingerprint().text().substr(0, 8))
                                     : std::string(op_row(node.op).name);
  const std::string call = fmt::format("{}({})", which, fmt::join(parts, ", "));
  if (node.op == Op::Assert) return call;
  if (op_row(node.op).kind == OpClass::Control) return fmt::format("%{} = {}", id, call);
  if (node.op == Op::ToList || node.op == Op::Item) {
    std::vector<std::string> names;
    for (const shapes::Symbol symbol : node.binds) names.push_back(symbol.name());
    return fmt::format("{} = {}", fmt::join(names, ", "), call);
  }
  return fmt::format("%{}: {} = {}", id, meta_text(node.meta), call);
}

std::string Graph::text() const {
  std::string out = fmt::format("graph {}\n", name);
  for (const SymbolBinding& binding : symbols)
    out += fmt::format("  {} = {}\n", binding.symbol.name(), binding.source);
  for (const shapes::Guard& guard : guards)
    out += fmt::format("  guard {}   # {}{}{}\n", guard.predicate.text(), guard.where.text(),
                       guard.note.empty() ? "" : ": ", guard.note);
  for (const GroupGuard& guard : group_guards)
    out += fmt::format("  guard {} of the group: {} is {}   # {}\n",
                       guard.over == GroupGuard::Over::Any ? "any" : "all", guard.predicate.text(),
                       guard.value, guard.where.text());
  for (const UniformSize& size : uniform)
    out += fmt::format("  uniform {}{}   # {} at {}\n", size.expr.text(),
                       size.group.empty() ? "" : " over group " + size.group, size.what,
                       size.where.text());
  for (NodeId id = 0; id < nodes.size(); ++id) {
    const shapes::Location& where = nodes[id].where;
    out += "  " + node_text(id);
    out += where.file.empty() ? "\n" : fmt::format("   # {}\n", where.text());
    for (const auto& body : nodes[id].bodies) out += indented(body->text());
  }
  for (const Output& output : outputs) out += fmt::format("  {} = %{}\n", output.name, output.node);
  return out;
}

}  // namespace lockstep::worker
