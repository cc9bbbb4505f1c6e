#include <cstring>
#include <map>
#include <new>

#include <fmt/format.h>

#include <lockstep/worker/graph/control.h>
#include <lockstep/worker/graph/error_sync_points.h>
#include <lockstep/worker/graph/op.h>
#include <lockstep/worker/interpreter/interpret.h>
#include <lockstep/worker/interpreter/interpreter.h>
#include <lockstep/worker/run/carried_status.h>
#include <lockstep/worker/run/control_run.h>
#include <lockstep/worker/run/graph_collective.h>
#include <lockstep/worker/run/own_call.h>
#include <lockstep/worker/run/run_failure.h>
#include <lockstep/worker/run/size_comparison.h>
#include <lockstep/worker/run/split_comparison.h>

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
        values_(graph.nodes.size()) {}

  Result<std::vector<Array>> run() {
    if (auto bound = bind(); !bound) return bound.error();
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const OpClass kind = op_row(graph_.nodes[id].op).kind;
      host_.poke();
      if (most_elements_ > RunHost::kQuickElements) host_.works_on(0);  // it may wait next
      if (meets_peers(graph_.nodes[id]) || kind == OpClass::HostSync) fail_on_input_size(id);
      if (meets_peers(graph_.nodes[id])) {
        if (!failure_) check_splits(id);
        if (!points_.same[id].empty())
          if (auto compared = compare_with_peers(id); !compared) return compared.error();
        if (points_.compares[id] && kind == OpClass::Collective)
          if (auto compared = compare(id); !compared) return compared.error();
        if (points_.before[id] == ErrorSync::Vote)
          if (auto settled = settle(); !settled) return settled.error();
        if (failure_ && kind == OpClass::Collective) {
          if (auto done = take_part(id); !done) return done.error();
        }
      }
      if (failure_ || (input_size_error_ && kind != OpClass::Check && kind != OpClass::Source))
        continue;
      try {
        if (auto done = step(id); !done) return done.error();
      } catch (const std::bad_alloc&) {
        fail(id, no_memory(id));
      }
    }
    fail_on_input_size(0);
    if (points_.at_end)
      if (auto settled = settle(); !settled) return settled.error();
    if (failure_) return failure_->status;
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

  /// An input of other sizes breaks what the asserts ask, and they say so in the user's words; it
  /// is the failure where none of them did.
  void fail_on_input_size(NodeId id) {
    if (input_size_error_) fail(id, *input_size_error_);
  }

  /// Of several failures the first counts.
  void fail(NodeId id, Status status) {
    if (!failure_) failure_ = LocalFailure{std::move(status), id};
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

  Result<void> settle() {
    auto settled = host_.settle(failure_);
    if (settled && failure_) return failure_->status;
    return settled;
  }

  /// A peer, or this rank, has told by a counts exchange that it failed: who, and why.
  Status told() {
    const auto settled = settle();
    return settled ? told_but_not_found(graph_) : settled.error();
  }

  /// This rank's part in a collective after it has failed.
  Result<void> take_part(NodeId id) {
    const Node& node = graph_.nodes[id];
    const LocalFailure cause = *failure_;
    NodeCall call;
    if (!points_.told_from(id) || !host_.reaches_all() || !prepare(id, call)) return cause.status;
    const std::string label = collective_label(node);
    const TensorMeta& operand = graph_.nodes[node.inputs[0]].meta;
    std::vector<std::int64_t> operand_sizes;
    for (const shapes::Expr& size : operand.sizes) {
      const auto value = size.evaluate(valuation());
      if (!value || *value < 0) return cause.status;
      operand_sizes.push_back(*value);
    }
    const NodeBuffers buffers{nullptr, nullptr, operand_sizes, call.sizes, call.exprs};
    const auto ranks = ranks_of(node, communicator_, host_);
    if (!ranks) return ranks.error();
    if (points_.before[id] != ErrorSync::Piggybacked)
      return take_part_with_zeros(**ranks, node, buffers, operand.dtype, label);
    auto any = carried_.all_to_all_with_status(**ranks, collective_of(node, buffers, label), true);
    return any ? told() : any.error();
  }

  void check_splits(NodeId id) {
    NodeCall call;
    if (graph_.nodes[id].op != Op::AllToAll || !prepare(id, call)) return;
    const auto ranks = ranks_of(graph_.nodes[id], communicator_, host_);
    if (!ranks) return fail(id, ranks.error());
    if (auto failure = splits_failure(graph_, id, call.exprs, call.operands[0]->sizes()[0],
                                      call.sizes[0], (*ranks)->size()))
      fail(id, *std::move(failure));
  }

  /// A rank that has failed takes part, and tells at the vote that follows.
  Result<void> compare(NodeId id) {
    if (failure_ && !host_.reaches_all()) return {};
    const Node& node = graph_.nodes[id];
    NodeCall call;
    const bool well = !failure_ && prepare(id, call);
    const auto ranks = ranks_of(node, communicator_, host_);
    if (!ranks) return ranks.error();
    const auto splits =
        well ? std::span<const std::int64_t>(call.exprs) : std::span<const std::int64_t>();
    std::optional<Status> misfit;
    auto done = compare_splits(**ranks, host_, node, splits, split_comparison_label(node), misfit);
    if (misfit) fail(id, *std::move(misfit));
    return done;
  }

  /// The same for sizes.
  Result<void> compare_with_peers(NodeId id) {
    if (failure_ && !host_.reaches_all()) return {};
    const Node& node = graph_.nodes[id];
    std::vector<std::int64_t> values;
    for (const shapes::Expr& size : points_.same[id]) {
      const auto value = size.evaluate(valuation());
      if (!value || *value < 0) fail(id, size_failure(graph_, size, value));
      values.push_back(value.value_or(0));
    }
    if (failure_) values.clear();
    const auto ranks = ranks_of(node, communicator_, host_);
    if (!ranks) return ranks.error();
    std::optional<Status> misfit;
    auto done = compare_sizes(**ranks, host_, graph_, node, points_.same[id], values,
                              size_comparison_label(node), misfit);
    if (misfit) fail(id, *std::move(misfit));
    return done;
  }

  /// False, with failure_ set, where a size has no value.
  bool prepare(NodeId id, NodeCall& call) {
    const Node& node = graph_.nodes[id];
    call.graph = &graph_;
    call.id = id;
    for (NodeId operand : node.inputs) call.operands.push_back(&values_[operand]);
    for (const shapes::Expr& size : node.meta.sizes) {
      const auto value = size.evaluate(valuation());
      if (!value || *value < 0) {
        fail(id, size_failure(graph_, size, value));
        return false;
      }
      call.sizes.push_back(*value);
    }
    const auto elements = elements_of(node.meta);
    const auto count = elements ? elements->evaluate(valuation()) : std::nullopt;
    if (!count || *count > kMostElements) {
      fail(id, size_failure(graph_, elements.value_or(node.meta.sizes[0]), count));
      return false;
    }
    most_elements_ = std::max(most_elements_, *count);
    if (most_elements_ > RunHost::kQuickElements)
      host_.works_on(op_row(node.op).kind == OpClass::Collective ? 0 : most_elements_);
    for (const shapes::Expr& expr : node.exprs) {
      const auto value = expr.evaluate(valuation());
      if (!value) {
        fail(id, size_failure(graph_, expr, value));
        return false;
      }
      call.exprs.push_back(*value);
    }
    return true;
  }

  /// Failures of the node itself go to failure_; an error here ends the run.
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
          fail(id, assert_failure(graph_, node, valuation()));
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
    if (array->sizes() != call.sizes && !input_size_error_)
      input_size_error_ = input_size_failure(call.node(), array->sizes(), call.sizes);
    values_[call.id] = *array;
    return {};
  }

  Result<void> keep(NodeId id, Result<Array> result) {
    if (result)
      values_[id] = *std::move(result);
    else
      fail(id, result.error());
    return {};
  }

  Result<void> collective(const NodeCall& call) {
    Array result;
    try {
      result = Array(call.dtype(), call.sizes);
    } catch (const std::bad_alloc&) {  // peers count on this rank
      fail(call.id, no_memory(call.id));
      return take_part(call.id);
    }
    const Array& operand = *call.operands[0];
    const NodeBuffers buffers{operand.data(), result.data(), operand.sizes(), call.sizes,
                              call.exprs};
    const std::string label = collective_label(call.node());
    fill_root(call.node(), buffers);
    const collectives::Collective collective = collective_of(call.node(), buffers, label);
    const auto ranks = ranks_of(call.node(), communicator_, host_);
    if (!ranks) return ranks.error();
    if (points_.before[call.id] == ErrorSync::Piggybacked) {
      auto any = carried_.all_to_all_with_status(**ranks, collective, false);
      if (!any) return any.error();
      if (*any) return told();
    } else if (auto done = (*ranks)->run(collective); !done) {
      return done;
    }
    values_[call.id] = std::move(result);
    return {};
  }

  /// Its results are values from here on.
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
    if (!done && meets_peers(control.node())) return done;
    if (!done) fail(control.id, done.error());
    return {};
  }

  const Graph& graph_;
  const Inputs& inputs_;
  collectives::Communicator& communicator_;
  RunHost& host_;
  ErrorSyncPoints points_;
  CarriedStatus carried_;
  std::vector<Array> values_;
  std::map<shapes::Symbol, std::int64_t> symbols_;
  std::int64_t most_elements_ = 0;  // of the values so far
  std::optional<LocalFailure> failure_;
  std::optional<Status> input_size_error_;
};

}  // namespace

Result<std::vector<Array>> interpret(const Graph& graph, const Inputs& inputs,
                                     collectives::Communicator& communicator, RunHost& host) {
  return Interpretation(graph, inputs, communicator, host).run();
}

}  // namespace lockstep::worker
