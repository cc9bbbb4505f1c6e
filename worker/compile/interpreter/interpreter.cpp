#include <cstring>
#include <map>
#include <new>

#include <fmt/format.h>

#include <lockstep/worker/compile/interpreter/interpret.h>
#include <lockstep/worker/compile/interpreter/interpreter.h>
#include <lockstep/worker/compile/run/comparison.h>
#include <lockstep/worker/compile/run/control_run.h>
#include <lockstep/worker/compile/run/joint_run.h>
#include <lockstep/worker/compile/run/own_call.h>
#include <lockstep/worker/compile/run/run_failure.h>
#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/error_sync_points.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/shape_rules.h>

namespace lockstep::worker {
namespace {

/// One run of one graph.
class Interpretation {
 public:
  Interpretation(const Graph& graph, const Inputs& inputs, collectives::Communicator& communicator,
                 RunHost& host)
      : graph_(graph),
        inputs_(inputs),
        communicator_(communicator),
        host_(host),
        points_(error_sync_points(graph)),
        joint_(graph),
        values_(graph.nodes.size()) {
    joint_.begin(communicator, host);
  }

  Result<std::vector<Array>> run() {
    if (auto bound = bind(); !bound) return bound.error();
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const OpClass kind = op_row(graph_.nodes[id].op).kind;
      host_.poke();
      if (most_elements_ > RunHost::kQuickElements)
        host_.announce_step_size(0);  // the rank may wait next
      if (runs_collectives(graph_.nodes[id]) || kind == OpClass::HostSync) joint_.fail_on_input(id);
      if (runs_collectives(graph_.nodes[id]))
        for (const JointAct act : points_.acts_before(graph_, id))
          if (auto done = carry_out(act, id); !done) return done.error();
      if (joint_.failed() && kind == OpClass::Collective)
        if (auto done = take_part(id); !done) return done.error();
      if (!joint_.goes_on(kind == OpClass::Check || kind == OpClass::Source)) continue;
      try {
        if (auto done = step(id); !done) return done.error();
      } catch (const std::bad_alloc&) {
        joint_.fail(id, no_memory(id));
      }
    }
    joint_.fail_on_input(0);
    if (points_.at_end)
      if (auto settled = joint_.settle(); !settled) return settled.error();
    if (auto ended = joint_.end(); !ended) return ended.error();
    std::vector<Array> outputs;
    for (const Graph::Output& output : graph_.outputs) outputs.push_back(values_[output.node]);
    return outputs;
  }

 private:
  Result<void> bind() {
    for (const SymbolBinding& binding : graph_.symbols) {
      const auto value = bound_value(binding, inputs_);
      if (!value) return value.error();
      symbols_[binding.symbol] = *value;
    }
    for (const Node& node : graph_.nodes)
      if (node.op == Op::Input)
        if (auto array = bound_input(node, inputs_); !array) return array.error();
    return {};
  }

  [[nodiscard]] std::optional<std::int64_t> value_of(shapes::Symbol symbol) const {
    const auto found = symbols_.find(symbol);
    return found == symbols_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] shapes::Valuation valuation() const {
    return [this](shapes::Symbol symbol) { return value_of(symbol); };
  }

  [[nodiscard]] Status no_memory(NodeId id) const {
    const TensorMeta& meta = graph_.nodes[id].meta;
    const auto elements = elements_of(meta);
    const auto count = elements ? elements->evaluate(valuation()) : std::nullopt;
    return memory_failure(graph_, id,
                          static_cast<std::size_t>(count.value_or(0)) * dtype_size(meta.dtype));
  }

  Result<void> carry_out(JointAct act, NodeId id) {
    const Node& node = graph_.nodes[id];
    switch (act) {
      case JointAct::CheckSplits:
        if (NodeCall call; !joint_.failed() && prepare(id, call))
          joint_.check_splits(id, call.exprs, call.operands[0]->sizes()[0], call.sizes[0]);
        return {};
      case JointAct::CompareSizes:
        return joint_.compare_sizes(id, points_.same[id], sizes_to_compare(id),
                                    size_comparison_label(node));
      case JointAct::CompareSplits: {
        NodeCall call;
        if (!joint_.failed()) prepare(id, call);
        return joint_.compare_splits(id, call.exprs, split_comparison_label(node));
      }
      case JointAct::Vote:
        return joint_.settle();
    }
    return {};
  }

  std::vector<std::int64_t> sizes_to_compare(NodeId id) {
    std::vector<std::int64_t> values;
    for (const shapes::Expr& size : points_.same[id]) {
      const auto value = size.evaluate(valuation());
      if (!value || *value < 0) joint_.fail(id, size_failure(graph_, size, value));
      values.push_back(value.value_or(0));
    }
    return values;
  }

  [[nodiscard]] JointRun::Exchange exchange(NodeId id, std::string_view label) const {
    return {id, label, points_.before[id] == ErrorSync::Piggybacked, points_.told_from(id)};
  }

  Result<void> take_part(NodeId id) {
    const std::string label = collective_label(graph_.nodes[id]);
    NodeCall call;
    bool knows = prepare(id, call);
    std::vector<std::int64_t> operand_sizes;
    for (const shapes::Expr& size : graph_.nodes[graph_.nodes[id].inputs[0]].meta.sizes) {
      const auto value = size.evaluate(valuation());
      knows = knows && value && *value >= 0;
      operand_sizes.push_back(value.value_or(0));
    }
    std::optional<NodeBuffers> sizes;
    if (knows) sizes = NodeBuffers{nullptr, nullptr, operand_sizes, call.sizes, call.exprs};
    return joint_.take_part(exchange(id, label), sizes);
  }

  /// Evaluates the node's sizes and attributes. If one has no value or is invalid, records this
  /// rank's failure and returns false.
  bool prepare(NodeId id, NodeCall& call) {
    const Node& node = graph_.nodes[id];
    call.graph = &graph_;
    call.id = id;
    for (NodeId operand : node.inputs) call.operands.push_back(&values_[operand]);
    for (const shapes::Expr& size : node.meta.sizes) {
      const auto value = size.evaluate(valuation());
      if (!value || *value < 0) {
        joint_.fail(id, size_failure(graph_, size, value));
        return false;
      }
      call.sizes.push_back(*value);
    }
    std::vector<std::optional<shapes::Expr>> totals{elements_of(node.meta)};
    if (is_attention(node.op)) totals.emplace_back(attention_scores(graph_, node));
    for (const auto& elements : totals) {
      const auto count = elements ? elements->evaluate(valuation()) : std::nullopt;
      if (!count || *count > kMostElements) {
        joint_.fail(id, size_failure(graph_, elements.value_or(node.meta.sizes[0]), count));
        return false;
      }
      most_elements_ = std::max(most_elements_, *count);
    }
    if (most_elements_ > RunHost::kQuickElements)
      host_.announce_step_size(op_row(node.op).kind == OpClass::Collective ? 0 : most_elements_);
    for (const shapes::Expr& expr : node.exprs) {
      const auto value = expr.evaluate(valuation());
      if (!value) {
        joint_.fail(id, size_failure(graph_, expr, value));
        return false;
      }
      call.exprs.push_back(*value);
    }
    return true;
  }

  /// Runs a node. A failure of the node itself is recorded as this rank's; an error returned here
  /// ends the run.
  Result<void> step(NodeId id) {
    NodeCall call;
    const Node& node = graph_.nodes[id];
    if (!prepare(id, call)) return {};
    switch (op_row(node.op).kind) {
      case OpClass::Source:
        return source(call);
      case OpClass::Elementwise:
        values_[id] = interpret_elementwise(call);
        return {};
      case OpClass::View:
        values_[id] = interpret_view(call);
        return {};
      case OpClass::Reduction:
        values_[id] = interpret_reduction(call);
        return {};
      case OpClass::Product:
        return keep(id, interpret_product(call));
      case OpClass::Index:
        return keep(id, interpret_index(call));
      case OpClass::Collective:
        return collective(call);
      case OpClass::HostSync:
        for (std::size_t k = 0; k < node.binds.size(); ++k)
          symbols_[node.binds[k]] = call.operands[0]->data_as<std::int64_t>()[k];
        return {};
      case OpClass::Check:
        if (node.asserts.at(0).predicate.evaluate(valuation()) != std::optional<bool>(true))
          joint_.fail(id, assert_failure(graph_, node, valuation()));
        return {};
      case OpClass::Control:
        return control(call);
      case OpClass::Result:
        return {};
      case OpClass::Own:
        return keep(id, own_value(call));
    }
    return {};
  }

  static Result<Array> own_value(const NodeCall& call) {
    std::vector<Array> inputs;
    for (const Array* operand : call.operands) inputs.push_back(*operand);
    Array result(call.dtype(), call.sizes);
    if (auto done = call_reference(call.node(), inputs, result); !done) return done.error();
    return result;
  }

  Result<void> source(const NodeCall& call) {
    if (call.node().op != Op::Input) {
      values_[call.id] = interpret_source(call);
      return {};
    }
    auto array = bound_input(call.node(), inputs_);
    if (!array) return array.error();
    if (array->sizes() != call.sizes)
      joint_.refuse_input(input_size_failure(call.node(), array->sizes(), call.sizes));
    values_[call.id] = *array;
    return {};
  }

  Result<void> keep(NodeId id, Result<Array> result) {
    if (result)
      values_[id] = *std::move(result);
    else
      joint_.fail(id, result.error());
    return {};
  }

  Result<void> collective(const NodeCall& call) {
    Array result;
    try {
      result = Array(call.dtype(), call.sizes);
    } catch (const std::bad_alloc&) {  // peers count on this rank
      joint_.fail(call.id, no_memory(call.id));
      return take_part(call.id);
    }
    const Array& operand = *call.operands[0];
    const NodeBuffers buffers{operand.data(), result.data(), operand.sizes(), call.sizes,
                              call.exprs};
    const auto any = joint_.exchange(exchange(call.id, collective_label(call.node())), buffers);
    if (!any) return any.error();
    if (*any) return joint_.told();
    values_[call.id] = std::move(result);
    return {};
  }

  /// Runs a node with bodies and sets the values of its Result nodes.
  Result<void> control(const NodeCall& control) {
    ControlCall call{graph_, control.id, control.exprs, {}, points_.compares[control.id], {}, {}};
    for (const Array* operand : control.operands) call.operands.push_back(*operand);
    std::map<std::size_t, NodeId> wanted;
    for (NodeId id = control.id + 1; id < graph_.nodes.size(); ++id) {
      if (graph_.nodes[id].op != Op::Result || graph_.nodes[id].inputs[0] != control.id) continue;
      NodeCall result;
      if (!prepare(id, result)) return {};
      values_[id] = Array(result.dtype(), result.sizes);
      wanted[static_cast<std::size_t>(graph_.nodes[id].ints[0])] = id;
    }
    call.run = [&](std::size_t body, const Inputs& inputs, RunHost& around) {
      return interpret(*control.node().bodies[body], inputs, communicator_, around);
    };
    call.place = [&](std::size_t result, std::int64_t block, const Array& value) -> Result<void> {
      const auto found = wanted.find(result);
      if (found != wanted.end() && value.bytes() > 0)
        std::memcpy(values_[found->second].data_as<std::byte>() +
                        static_cast<std::size_t>(block) * value.bytes(),
                    value.data(), value.bytes());
      return {};
    };
    const auto done = run_control(call, communicator_, host_);
    if (!done && runs_collectives(control.node())) return done;
    if (!done) joint_.fail(control.id, done.error());
    return {};
  }

  const Graph& graph_;
  const Inputs& inputs_;
  collectives::Communicator& communicator_;
  RunHost& host_;
  ErrorSyncPoints points_;
  JointRun joint_;
  std::vector<Array> values_;
  std::map<shapes::Symbol, std::int64_t> symbols_;
  std::int64_t most_elements_ = 0;  // elements of the largest value so far
};

}  // namespace

Result<std::vector<Array>> interpret(const Graph& graph, const Inputs& inputs,
                                     collectives::Communicator& communicator, RunHost& host) {
  return Interpretation(graph, inputs, communicator, host).run();
}

}  // namespace lockstep::worker
