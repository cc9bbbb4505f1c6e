// Graphs in the language of graphviz.
#include <fmt/format.h>

#include <lockstep/worker/files/saved/program_text.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/own_op.h>

namespace lockstep::worker {
namespace {

/// Escapes `text` for double quotes.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

std::string_view colour_of(const Node& node) {
  switch (op_row(node.op).kind) {
    case OpClass::Source:
      return "#d9ead3";
    case OpClass::Collective:
      return "#f4cccc";
    case OpClass::HostSync:
    case OpClass::Check:
      return "#fff2cc";
    case OpClass::Product:
      return "#cfe2f3";
    case OpClass::Own:
    case OpClass::Control:
      return "#d9d2e9";
    default:
      return "#ffffff";
  }
}

class Picture {
 public:
  std::string of(const SavedProgram& program) {
    out_ = fmt::format(
        "digraph \"{}\" {{\n  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\", "
        "fontsize=10];\n  edge [color=\"#666666\"];\n",
        escaped(program.frame));
    for (std::size_t i = 0; i < program.entries.size(); ++i) {
      const SavedEntry& entry = program.entries[i];
      cluster(entry.graph, fmt::format("e{}", i),
              fmt::format("{}, entry {}\n{}", program.frame, i, decision_text(entry.decision)), 1);
    }
    return out_ + "}\n";
  }

 private:
  void line(int depth, std::string_view text) {
    out_.append(static_cast<std::size_t>(2 * depth), ' ');
    out_ += text;
    out_ += '\n';
  }

  /// Writes a graph as a cluster. Names of its nodes begin with `path`, so they are unique.
  void cluster(const Graph& graph, const std::string& path, const std::string& title, int depth) {
    line(depth, fmt::format("subgraph \"cluster_{}\" {{", path));
    line(depth + 1,
         fmt::format("label=\"{}\"; labeljust=l; fontname=\"sans-serif\";", escaped(title)));
    for (NodeId id = 0; id < graph.nodes.size(); ++id) node(graph, id, path, depth + 1);
    for (const Graph::Output& output : graph.outputs) {
      const std::string name = fmt::format("{}_out_{}", path, &output - graph.outputs.data());
      line(depth + 1, fmt::format("\"{}\" [label=\"{}\", shape=ellipse, fillcolor=\"#d9ead3\"];",
                                  name, escaped(output.name)));
      line(depth + 1, fmt::format("\"{}_{}\" -> \"{}\";", path, output.node, name));
    }
    line(depth, "}");
  }

  void node(const Graph& graph, NodeId id, const std::string& path, int depth) {
    const Node& node = graph.nodes[id];
    const std::string name = fmt::format("{}_{}", path, id);
    std::string label = fmt::format("%{} {}", id, op_name(node));
    if (node.op == Op::Input) label += " " + node.text;
    const OpClass kind = op_row(node.op).kind;
    if (kind != OpClass::Check && kind != OpClass::HostSync && kind != OpClass::Control)
      label += "\n" + meta_text(node.meta);
    line(depth, fmt::format("\"{}\" [label=\"{}\", tooltip=\"{}   {}\", fillcolor=\"{}\"];", name,
                            escaped(label), escaped(graph.node_text(id)),
                            escaped(node.where.text()), colour_of(node)));
    for (const NodeId input : node.inputs)
      line(depth, fmt::format("\"{}_{}\" -> \"{}\";", path, input, name));
    for (std::size_t b = 0; b < node.bodies.size(); ++b)
      cluster(*node.bodies[b], fmt::format("{}_b{}", name, b),
              fmt::format("body {} of %{} {}", b, id, op_name(node)), depth);
  }

  std::string out_;
};

}  // namespace

std::string program_dot(const SavedProgram& program) { return Picture().of(program); }

}  // namespace lockstep::worker
