#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/codegen/cuda_nest.h>
#include <lockstep/worker/compile/codegen/emit_attention.h>
#include <lockstep/worker/compile/codegen/emit_cuda.h>
#include <lockstep/worker/compile/codegen/emitter.h>
#include <lockstep/worker/compile/codegen/plan.h>
#include <lockstep/worker/compile/codegen/prelude.h>
#include <lockstep/worker/compile/codegen/row_chains.h>
#include <lockstep/worker/tensor/graph/index_range.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/own_op.h>
#include <lockstep/worker/tensor/graph/shape_rules.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

// Text per unit. A unit costs a compiler start (about 40 ms); more text is worth another unit.
constexpr std::size_t kUnitBytes = 6 * 1024;
constexpr std::size_t kMaxUnits = 8;
// Most counts that one thread of a device checks.
constexpr std::int64_t kMaxReportedCounts = 1024;

Status unsupported(const Node& node, std::string_view what) {
  return bad_input(fmt::format("{} at {} has dtype {}, {}; cast to f32 or f64",
                               op_row(node.op).name,
                               node.where.file.empty() ? "the graph" : node.where.text(),
                               dtype_name(node.meta.dtype), what));
}

std::vector<shapes::Symbol> all_symbols(const Graph& graph) {
  std::vector<shapes::Symbol> out;
  for (const SymbolBinding& binding : graph.symbols) out.push_back(binding.symbol);
  for (const Node& node : graph.nodes) out.insert(out.end(), node.binds.begin(), node.binds.end());
  return out;
}

class Generator {
 public:
  Generator(Graph graph, Target target) {
    program_.graph = std::move(graph);
    program_.target = target;
  }

  Result<Program> run() {
    const Graph& graph = program_.graph;
    for (const Node& node : graph.nodes)
      if (op_row(node.op).kind == OpClass::Product && !is_float(node.meta.dtype))
        return unsupported(node, "but products are of floats");
    program_.exprs = ExprTable(all_symbols(graph));
    plan_ = plan(graph);
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
      if (plan_.live[id] && graph.nodes[id].op == Op::Input) add_input(id);
    for (const PlannedStep& step : plan_.steps) {
      if (step.kind == Step::Kind::Control)
        if (auto added = add_bodies(graph.nodes[step.node]); !added) return added.error();
      if (step.kind != Step::Kind::Kernel || !step.roots.empty()) add_step(step);
    }
    add_chains();
    add_outputs();
    set_lifetimes();
    add_sizes();
    if (!graph.is_body) make_units();
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
      program_.nodes_compiled += plan_.live[id] ? 1 : 0;
    for (const Program& body : program_.bodies) program_.nodes_compiled += body.nodes_compiled;
    return std::move(program_);
  }

 private:
  [[nodiscard]] const Node& node(NodeId id) const { return program_.graph.nodes[id]; }

  ExprSlot slot(const Expr& expr) { return program_.exprs.intern(expr); }
  std::vector<ExprSlot> slots(std::span<const Expr> exprs) {
    std::vector<ExprSlot> out;
    for (const Expr& expr : exprs) out.push_back(slot(expr));
    return out;
  }

  BufferId buffer(NodeId id) {
    const NodeId storage = plan_.storage[id];
    const auto found = buffers_.find(storage);
    if (found != buffers_.end()) return found->second;
    return buffers_[storage] = add_buffer(storage, node(storage).meta.dtype, Buffer::Kind::Arena);
  }

  BufferId add_buffer(NodeId id, DType dtype, Buffer::Kind kind) {
    const BufferId at = add_buffer(id, dtype, shapes::product(node(id).meta.sizes));
    program_.buffers[at].kind = kind;
    return at;
  }
  BufferId add_buffer(NodeId id, DType dtype, const Expr& elements) {
    program_.buffers.push_back({Buffer::Kind::Arena, dtype, slot(elements), id, 0, 0});
    return static_cast<BufferId>(program_.buffers.size() - 1);
  }

  void add_input(NodeId id) {
    const BufferId at = buffers_[id] = add_buffer(id, node(id).meta.dtype, Buffer::Kind::Input);
    program_.inputs.push_back({at, id, slots(node(id).meta.sizes)});
  }

  /// Kernels for CUDA are not shared, so they form no chains.
  void add_chains() {
    shared_.resize(program_.steps.size());
    for (const RowChain& chain : row_chains(program_.graph, plan_, shared_))
      program_.steps[chain.first].chain =
          Step::Chain{static_cast<std::uint32_t>(chain.length), slot(chain.rows)};
  }

  void add_planned_kernel(const PlannedStep& planned) {
    const std::size_t before = program_.steps.size();
    add_kernels(planned.node, emit(program_.graph, plan_, planned, program_.target));
    shared_.resize(program_.steps.size());
    if (shared_.size() == before + 1 && program_.steps[before].sharing) shared_[before] = &planned;
  }

  void add_step(const PlannedStep& planned) {
    if (planned.kind == Step::Kind::Kernel) return add_planned_kernel(planned);
    if (planned.kind == Step::Kind::HostCall && !own_text(node(planned.node)).empty())
      return add_kernels(planned.node,
                         emit_own(program_.graph, plan_, planned.node, program_.target));
    if (program_.target == Target::Cuda && planned.kind == Step::Kind::IndexCheck) {
      const auto [index, limit] = *checked_list(program_.graph, planned.node);
      return add_deferred(planned, emit_index_check(program_.graph, plan_, index, limit), 2);
    }
    if (program_.target == Target::Cuda && planned.kind == Step::Kind::CountsCheck)
      if (const auto counts = deferred_counts(planned.node))
        return add_deferred(planned, emit_counts_check(program_.graph, plan_, planned.node),
                            1 + *counts);
    Step step;
    step.kind = planned.kind;
    step.node = planned.node;
    const Node& at = node(planned.node);
    const auto operand = [&](std::size_t k) -> const Node& { return node(at.inputs[k]); };
    switch (planned.kind) {
      case Step::Kind::Matmul:
        add_matmul(planned.node, step);
        break;
      case Step::Kind::SegmentMatmul:
      case Step::Kind::SegmentOuter:
        add_segments(planned.node, step);
        break;
      case Step::Kind::Attention:
        for (const NodeId input : at.inputs) add_operand(input, step);
        step.buffers.push_back(buffer(planned.node));
        if (program_.target == Target::Cuda) add_attention(planned.node, step);
        break;
      case Step::Kind::Collective:
        step.buffers = {buffer(at.inputs[0]), buffer(planned.node)};
        step.carries_status = planned.carries_status;
        add_collective_args(planned.node, step);
        break;
      case Step::Kind::HostSync:
        step.buffers = {buffer(at.inputs[0])};
        break;
      case Step::Kind::HostCall:
        for (const NodeId input : at.inputs) add_operand(input, step);
        add_operand(planned.node, step);
        break;
      case Step::Kind::IndexCheck: {
        const auto [index, limit] = *checked_list(program_.graph, planned.node);
        step.buffers = {buffer(index)};
        step.args = {slot(shapes::product(node(index).meta.sizes)), slot(limit)};
        break;
      }
      case Step::Kind::CountsCheck: {
        const NodeId counts = at.op == Op::SegmentIds ? at.inputs[0] : at.inputs[2];
        step.buffers = {buffer(counts)};
        step.args = {slot(node(counts).meta.sizes[0]),
                     slot(at.op == Op::SegmentIds ? at.meta.sizes[0] : operand(0).meta.sizes[0])};
        break;
      }
      case Step::Kind::SplitsCheck:
        step.args = {slot(operand(0).meta.sizes[0]), slot(at.meta.sizes[0])};
        for (const Expr& expr : at.exprs) step.args.push_back(slot(expr));
        break;
      case Step::Kind::SizesExchange:
        step.args = slots(planned.sizes);
        break;
      case Step::Kind::SplitsExchange:
        step.args = slots(at.exprs);
        break;
      case Step::Kind::Control:
        add_control(planned, step);
        break;
      case Step::Kind::Kernel:
      case Step::Kind::Assert:
      case Step::Kind::Settle:
        break;
    }
    program_.steps.push_back(std::move(step));
  }

  /// Generates the programs of the node's bodies, and notes the number of the first.
  Result<void> add_bodies(const Node& control) {
    first_body_ = static_cast<std::uint32_t>(program_.bodies.size());
    for (const auto& body : control.bodies) {
      auto program = generate(*body, program_.target);
      if (!program) return program.error();
      program_.bodies.push_back(*std::move(program));
    }
    return {};
  }

  void add_control(const PlannedStep& planned, Step& step) {
    step.compares = planned.compares;
    step.bodies = first_body_;
    step.args = slots(node(planned.node).exprs);
    for (const NodeId operand : node(planned.node).inputs) {
      step.buffers.push_back(buffer(operand));
      for (ExprSlot at : slots(node(operand).meta.sizes)) step.args.push_back(at);
    }
    for (const NodeId result : planned.roots) {
      step.buffers.push_back(buffer(result));
      step.results.push_back(static_cast<std::uint32_t>(node(result).ints[0]));
    }
  }

  /// Returns the own op's text for this target; empty if it has none.
  [[nodiscard]] std::string_view own_text(const Node& own) const {
    if (own.op != Op::Own) return {};
    return program_.target == Target::Host ? own.own->host_text : own.own->cuda_text;
  }

  void add_operand(NodeId id, Step& step) {
    step.buffers.push_back(buffer(id));
    for (const Expr& size : node(id).meta.sizes) step.args.push_back(slot(size));
  }

  void add_collective_args(NodeId id, Step& step) {
    step.args = slots(node(node(id).inputs[0]).meta.sizes);
    for (std::span<const Expr> more :
         {std::span<const Expr>(node(id).meta.sizes), std::span<const Expr>(node(id).exprs)})
      for (const Expr& expr : more) step.args.push_back(slot(expr));
  }

  /// Returns the number of counts that the device checks by itself; nullopt if the host reads them
  /// anyway, or if they are too many to report.
  [[nodiscard]] std::optional<std::uint32_t> deferred_counts(NodeId id) const {
    if (node(id).op != Op::SegmentIds) return std::nullopt;
    const NodeId list = plan_.storage[node(id).inputs[0]];
    for (const PlannedStep& step : plan_.steps) {
      const Node& at = node(step.node);
      const bool is_product =
          step.kind == Step::Kind::SegmentMatmul || step.kind == Step::Kind::SegmentOuter;
      if ((is_product && plan_.storage[at.inputs[2]] == list) ||
          (step.kind == Step::Kind::HostSync && plan_.storage[at.inputs[0]] == list))
        return std::nullopt;
    }
    const auto count = node(node(id).inputs[0]).meta.sizes[0].constant();
    if (!count || *count > kMaxReportedCounts) return std::nullopt;
    return static_cast<std::uint32_t>(*count);
  }

  /// Adds a check whose last kernel writes the outcome, as `numbers` integers.
  void add_deferred(const PlannedStep& check, const Emission& emission, std::uint32_t numbers) {
    add_kernels(check.node, emission);
    program_.steps.back().kind = check.kind;
    program_.steps.back().outcome = program_.outcomes;
    program_.outcomes += numbers;
  }

  void add_kernels(NodeId at, const Emission& emission) {
    std::vector<std::optional<BufferId>> scratch(emission.scratch.size());
    for (const KernelText& text : emission.kernels) {
      Step step;
      step.node = at;
      step.kernel = kernel(text);
      for (NodeId id : text.buffers) step.buffers.push_back(buffer(id));
      for (std::size_t which : text.scratch) {
        const Emission::Scratch& memory = emission.scratch[which];
        if (!scratch[which]) scratch[which] = add_buffer(at, memory.dtype, memory.elements);
        if (memory.of_thread)
          step.of_thread.push_back(static_cast<std::uint32_t>(step.buffers.size()));
        step.buffers.push_back(*scratch[which]);
      }
      step.args = slots(text.arguments);
      if (text.sharing)
        step.sharing = Sharing{slot(text.sharing->iterations), slot(text.sharing->elements),
                               text.sharing->unit};
      if (program_.target == Target::Cuda) {
        step.launch = Launch{slot(text.blocks), kCudaBlock, {}};
        if (text.merged) step.launch->merged = slot(*text.merged);
      }
      program_.steps.push_back(std::move(step));
    }
  }

  /// Returns the number of the kernel with this text; equal kernels are shared.
  std::uint32_t kernel(const KernelText& text) {
    const bool host = program_.target == Target::Host;
    const auto digest = host ? shapes::fingerprint(text.body)
                             : shapes::fingerprint(text.parameters + "\n" + text.body);
    const std::string name = "k_" + digest.text();
    const auto [found, is_new] =
        kernels_.try_emplace(name, static_cast<std::uint32_t>(program_.kernels.size()));
    if (is_new)
      program_.kernels.push_back(
          {name,
           fmt::format(
               "extern \"C\" {} {}({}) {{\n{}}}\n",
               host ? "void" : fmt::format("__global__ void __launch_bounds__({})", kCudaBlock),
               name, text.parameters, text.body),
           0});
    return found->second;
  }

  /// Returns the buffer of a product's operand. Sets `transposed` if the buffer holds the operand's
  /// transpose.
  BufferId product_operand(NodeId id, bool& transposed) {
    transposed = !plan_.in_memory(id);
    return buffer(transposed ? node(id).inputs[0] : id);
  }

  void add_matmul(NodeId id, Step& step) {
    const auto& a = node(node(id).inputs[0]).meta.sizes;
    const auto& b = node(node(id).inputs[1]).meta.sizes;
    const std::size_t last = a.size() - 1;
    step.buffers = {product_operand(node(id).inputs[0], step.transpose_a),
                    product_operand(node(id).inputs[1], step.transpose_b), buffer(id)};
    step.args = {slot(shapes::product(std::span(a).first(last - 1))), slot(a[last - 1]),
                 slot(a[last]), slot(b[last])};
  }

  void add_segments(NodeId id, Step& step) {
    const auto& inputs = node(id).inputs;
    const auto& x = node(inputs[0]).meta.sizes;
    const auto& counts = node(inputs[2]).meta.sizes;
    step.buffers = {buffer(inputs[0]), product_operand(inputs[1], step.transpose_b),
                    buffer(inputs[2]), buffer(id)};
    step.args = {slot(x[0]), slot(x[1]), slot(node(inputs[1]).meta.sizes.back()), slot(counts[0])};
  }

  /// Adds what the step needs on a device.
  void add_attention(NodeId id, Step& step) {
    for (const Emission::Scratch& memory : attention_scratch(program_.graph, id))
      step.buffers.push_back(add_buffer(id, memory.dtype, memory.elements));
    for (const KernelText& text : attention_kernels(program_.graph, id))
      step.kernels.push_back(kernel(text));
  }

  void add_outputs() {
    for (const Graph::Output& output : program_.graph.outputs) {
      const BufferId at = buffer(output.node);
      if (program_.buffers[at].kind == Buffer::Kind::Arena)
        program_.buffers[at].kind = Buffer::Kind::Output;
      program_.outputs.push_back({at, slots(node(output.node).meta.sizes)});
    }
  }

  void add_sizes() {
    for (NodeId id = 0; id < program_.graph.nodes.size(); ++id)
      if (plan_.live[id])
        for (ExprSlot at : slots(node(id).meta.sizes)) program_.sizes.push_back(at);
    for (const Buffer& buffer : program_.buffers) program_.sizes.push_back(buffer.elements);
    for (NodeId id = 0; id < program_.graph.nodes.size(); ++id)
      if (plan_.live[id] && op_row(node(id).op).kind == OpClass::Reduction)
        program_.sizes.push_back(slot(shapes::product(node(node(id).inputs[0]).meta.sizes)));
    for (NodeId id = 0; id < program_.graph.nodes.size(); ++id)
      if (plan_.live[id] && is_attention(node(id).op))
        program_.sizes.push_back(slot(attention_scores(program_.graph, node(id))));
    std::ranges::sort(program_.sizes);
    program_.sizes.erase(std::unique(program_.sizes.begin(), program_.sizes.end()),
                         program_.sizes.end());
  }

  void set_lifetimes() {
    std::vector<bool> seen(program_.buffers.size(), false);
    for (std::uint32_t i = 0; i < program_.steps.size(); ++i)
      for (BufferId at : program_.steps[i].buffers) {
        if (!seen[at]) program_.buffers[at].first = i;
        seen[at] = true;
        program_.buffers[at].last = i;
      }
  }

  /// Adds the kernels of `body` and of its own bodies; equal kernels are shared.
  void take_kernels(const Program& body) {
    for (const Kernel& kernel : body.kernels)
      if (kernels_.try_emplace(kernel.name, program_.kernels.size()).second)
        program_.kernels.push_back(kernel);
    for (const Program& inner : body.bodies) take_kernels(inner);
  }
  void place_kernels(Program& body) const {
    for (Kernel& kernel : body.kernels)
      kernel.unit = program_.kernels[kernels_.at(kernel.name)].unit;
    for (Program& inner : body.bodies) place_kernels(inner);
  }

  /// Divides the kernels among units, the largest first, each to the unit with the least text: a
  /// pure function of the texts.
  void make_units() {
    for (const Program& body : program_.bodies) take_kernels(body);
    std::size_t total = 0;
    for (const Kernel& kernel : program_.kernels) total += kernel.text.size();
    if (total == 0) return;
    const std::size_t count =
        std::min({(total + kUnitBytes - 1) / kUnitBytes, kMaxUnits, program_.kernels.size()});
    std::vector<std::uint32_t> order(program_.kernels.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
      const Kernel &x = program_.kernels[a], &y = program_.kernels[b];
      return x.text.size() != y.text.size() ? x.text.size() > y.text.size() : x.name < y.name;
    });
    program_.units.assign(count, {});
    for (std::uint32_t i : order) {
      const auto least = std::ranges::min_element(program_.units, {}, &std::string::size);
      program_.kernels[i].unit = static_cast<std::uint32_t>(least - program_.units.begin());
      *least += "\n" + program_.kernels[i].text;
    }
    for (std::string& unit : program_.units) unit = unit_text(program_.target, unit);
    for (Program& body : program_.bodies) place_kernels(body);
  }

  Program program_;
  Plan plan_;
  std::map<NodeId, BufferId> buffers_;
  std::vector<const PlannedStep*> shared_;  // per step: see row_chains()
  std::uint32_t first_body_ = 0;
  std::map<std::string, std::uint32_t> kernels_;
};

}  // namespace

Result<Program> generate(Graph graph, Target target) {
  return Generator(std::move(graph), target).run();
}

}  // namespace lockstep::worker
