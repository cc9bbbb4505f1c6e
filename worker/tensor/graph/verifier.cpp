// The structural rules of a finished graph. A graph that breaks one is a bug of lockstep, found
// before anything is compiled.
#include <set>

#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/graph.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/shape_rules.h>

namespace lockstep::worker {
namespace {

using shapes::Symbol;

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  Result<void> run() {
    symbols();
    for (NodeId id = 0; id < graph_.nodes.size() && !status_; ++id) node(id);
    guards();
    outputs();
    if (status_) return *status_;
    return {};
  }

 private:
  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (!status_)
      status_ = internal_error(fmt::format("graph {} is broken: {}", graph_.name,
                                           fmt::format(format, std::forward<Args>(args)...)));
  }
  template <class... Args>
  void fail_at(NodeId id, fmt::format_string<Args...> format, Args&&... args) {
    fail("node %{} ({}) {}", id, op_row(graph_.nodes[id].op).name,
         fmt::format(format, std::forward<Args>(args)...));
  }

  void symbols() {
    std::uint32_t backed = 0, unbacked = 0;
    std::set<std::string> sources;
    for (const SymbolBinding& binding : graph_.symbols) {
      std::uint32_t& next = binding.symbol.unbacked ? unbacked : backed;
      if (graph_.is_body) {
        if (!bound_.insert(binding.symbol).second)
          fail("symbol {} is there twice", binding.symbol.name());
        continue;
      }
      if (binding.symbol.serial != next++) fail("symbol {} is out of order", binding.symbol.name());
      if (binding.source.empty() || !sources.insert(binding.source).second)
        fail("symbol {} has no source of its own", binding.symbol.name());
      bound_.insert(binding.symbol);
    }
  }

  void needs_bound(NodeId id, const shapes::Expr& expr) {
    for (const Symbol symbol : expr.symbols())
      if (!bound_.contains(symbol)) fail_at(id, "uses {}, which has no value yet", symbol.name());
  }

  void node(NodeId id) {
    const Node& node = graph_.nodes[id];
    if (node.op == Op::Input) input(id);
    std::vector<TensorMeta> operands;
    for (const NodeId input : node.inputs) {
      if (input >= id) return fail_at(id, "uses %{}, which comes later", input);
      const OpClass kind = op_row(graph_.nodes[input].op).kind;
      if (kind == OpClass::HostSync || kind == OpClass::Check ||
          (kind == OpClass::Control) != (node.op == Op::Result))
        return fail_at(id, "uses %{}, which has no value", input);
      operands.push_back(graph_.nodes[input].meta);
    }
    const Result<TensorMeta> meta = result_meta(node, operands);
    if (!meta) return fail_at(id, "breaks its rule: {}", meta.error().message);
    if (*meta != node.meta)
      return fail_at(id, "is {}, but its rule gives {}", meta_text(node.meta), meta_text(*meta));
    if (node.op == Op::Result) result(id);
    for (const auto& body : node.bodies)
      if (const Result<void> sound = body->verify(); !sound)
        return fail_at(id, "has a body: {}", sound.error().message);
    for (const shapes::Expr& expr : node.exprs) needs_bound(id, expr);
    for (const shapes::Expr& size : node.meta.sizes) needs_bound(id, size);
    for (const shapes::DeferredAssert& a : node.asserts) needs_bound(id, a.predicate.expr);
    for (const Symbol symbol : node.binds)
      if (!symbol.unbacked || !bound_.insert(symbol).second)
        fail_at(id, "binds {}, which it may not", symbol.name());
  }

  void result(NodeId id) {
    const Node& node = graph_.nodes[id];
    const std::vector<TensorMeta> results = result_metas(graph_.nodes[node.inputs[0]]);
    const auto which = static_cast<std::size_t>(node.ints[0]);
    if (which >= results.size()) return fail_at(id, "is a result that there is not");
    if (results[which] != node.meta)
      fail_at(id, "is {}, but the body gives {}", meta_text(node.meta), meta_text(results[which]));
  }

  void input(NodeId id) {
    if (id > 0 && graph_.nodes[id - 1].op != Op::Input) fail_at(id, "does not come first");
    if (!inputs_.insert(graph_.nodes[id].text).second)
      fail_at(id, "is the second one of {}", graph_.nodes[id].text);
  }

  void guards() {
    for (const shapes::Guard& guard : graph_.guards) predicate(guard.predicate);
    for (const GroupGuard& guard : graph_.group_guards) predicate(guard.predicate);
    for (const UniformSize& size : graph_.uniform)
      if (!graph_.is_body) predicate(shapes::equal(size.expr, 0));
  }
  void predicate(const shapes::Predicate& guard) {
    for (const Symbol symbol : guard.expr.symbols()) {
      const bool known = symbol.serial < graph_.symbols.size() && bound_.contains(symbol);
      if (symbol.unbacked || !known)
        fail("guard {} mentions {}, which no input gives", guard.text(), symbol.name());
    }
  }

  void outputs() {
    std::set<std::string> names;
    for (const Graph::Output& output : graph_.outputs) {
      if (output.node >= graph_.nodes.size()) return fail("output {} is no node", output.name);
      const OpClass kind = op_row(graph_.nodes[output.node].op).kind;
      if (kind == OpClass::HostSync || kind == OpClass::Check || kind == OpClass::Control)
        fail("output {} has no value", output.name);
      if (!names.insert(output.name).second) fail("two outputs are called {}", output.name);
    }
  }

  const Graph& graph_;
  std::set<Symbol> bound_;
  std::set<std::string> inputs_;
  std::optional<Status> status_;
};

}  // namespace

Result<void> Graph::verify() const { return Verifier(*this).run(); }

}  // namespace lockstep::worker
