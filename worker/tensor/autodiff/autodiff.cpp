#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/gradients.h>
#include <lockstep/worker/tensor/graph/own_op.h>
#include <lockstep/worker/tensor/trace/own_gradient.h>

namespace lockstep::worker {
namespace {

/// The gradients of one loss: from its node down to the lowest wanted node.
class Sweep {
 public:
  Sweep(Trace& trace, NodeId loss, std::span<const NodeId> wrt)
      : trace_(trace), autocast_(trace.autocast()), wanted_(loss + 1, false), grads_(loss + 1) {
    trace_.set_autocast(std::nullopt);
    for (const NodeId id : wrt)
      if (id <= loss) wanted_[id] = true;
    for (NodeId id = 0; id <= loss; ++id) {
      const OwnGradient* own = trace.own_gradient(id);
      for (const NodeId input : own != nullptr ? own->inputs : trace.node(id).inputs)
        if (wanted_[input] && is_float(trace.node(id).meta.dtype) && !trace.gradient_stops(id))
          wanted_[id] = true;
    }
  }
  /// Resets the line and autocast, also when a rule throws.
  ~Sweep() {
    trace_.set_line(std::nullopt);
    trace_.set_autocast(autocast_);
  }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  void run(const Tensor& loss) {
    trace_.set_line(trace_.node(loss.node()).where);
    grads_[loss.node()] = ones_like(loss);
    walk();
  }
  /// Adds a gradient of `id` besides those that the walk finds.
  void start(NodeId id, const Tensor& gradient) { add(id, gradient); }
  void walk() {
    for (auto id = static_cast<NodeId>(grads_.size()); id-- > 0;) {
      if (const OwnGradient* own = trace_.own_gradient(id)) {
        // The walk reaches this output last: all others have their gradients.
        if (id == own->outputs.front()) step(*own);
      } else if (wanted_[id] && grads_[id].traced() && !trace_.gradient_stops(id)) {
        step(id);
      }
    }
  }
  /// Empty if the loss does not depend on the node.
  [[nodiscard]] Tensor grad(NodeId id) const { return id < grads_.size() ? grads_[id] : Tensor(); }

 private:
  void step(NodeId id) {
    const Node node = trace_.node(id);  // a copy: recording moves nodes
    Backward back{trace_, node, Tensor(trace_.shared_from_this(), id), grads_[id], {}, {}};
    bool any = false;
    for (const NodeId input : node.inputs) {
      back.inputs.emplace_back(trace_.shared_from_this(), input);
      back.wanted.push_back(wanted_[input] && is_float(trace_.node(input).meta.dtype));
      any = any || back.wanted.back();
    }
    if (!any) return;
    const GradientRule rule = gradient_rule(node.op);
    if (!rule)
      throw TraceUsageError(fmt::format(
          "{}: {} has no gradient; {}detach() what goes into it", node.where.text(), op_name(node),
          node.op == Op::Own        ? "give it one, or "
          : node.op == Op::HostCall ? "give it one by custom_backward, or "
                                    : ""));
    trace_.set_line(node.where);
    const std::vector<Tensor> grads = rule(back);
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (back.wanted[i] && grads[i].traced())
        add(node.inputs[i], cast(grads[i], back.inputs[i].dtype()));
  }

  void step(const OwnGradient& own) {
    const auto tensor = [&](NodeId id) { return Tensor(trace_.shared_from_this(), id); };
    if (std::ranges::none_of(own.inputs, [&](NodeId id) { return wanted_[id]; })) return;
    BackwardCall call;
    bool any = false;
    for (const NodeId id : own.outputs) {
      call.outputs.push_back(tensor(id));
      call.grads.push_back(grad(id));
      any = any || call.grads.back().traced();
    }
    if (!any) return;
    trace_.set_line(own.where);
    for (std::size_t i = 0; i < call.grads.size(); ++i)
      if (!call.grads[i].traced()) call.grads[i] = zeros_like(call.outputs[i]);
    for (const NodeId id : own.inputs) {
      call.inputs.push_back(tensor(id));
      call.wanted.push_back(wanted_[id]);
    }
    trace_.set_line(std::nullopt);  // the function records its own lines
    const std::vector<Tensor> grads = own.backward(call);
    trace_.set_line(own.where);
    if (grads.size() != own.inputs.size())
      throw TraceUsageError(
          fmt::format("{}: {}: {} gradients for {} inputs; give one "
                      "per input, empty where there is none",
                      own.where.text(), own.name, grads.size(), own.inputs.size()));
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].traced()) continue;
      const TensorMeta got = meta_of(grads[i]), wanted = meta_of(call.inputs[i]);
      if (got != wanted)
        throw TraceUsageError(fmt::format("{}: {}: gradient {} is {}, its input {}",
                                          own.where.text(), own.name, i, meta_text(got),
                                          meta_text(wanted)));
      if (wanted_[own.inputs[i]]) add(own.inputs[i], grads[i]);
    }
  }

  void add(NodeId id, const Tensor& contribution) {
    if (!grads_[id].traced()) {
      grads_[id] = contribution;
      return;
    }
    grads_[id] = emit(Op::Add, {grads_[id], contribution}, {}, Line::current());
  }

  Trace& trace_;
  std::optional<DType> autocast_;
  std::vector<bool> wanted_;
  std::vector<Tensor> grads_;
};

}  // namespace

std::vector<Tensor> grad(const Tensor& loss, std::span<const Tensor> wrt, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("grad", std::vector{loss}, where);
  if (loss.ndim() != 0 || !is_float(loss.dtype()))
    refuse(where, "grad",
           fmt::format("takes a 0-d floating-point loss, not {}; sum() it first",
                       meta_text(meta_of(loss))));
  if (trace->operand(loss, where) != loss.node())
    refuse(where, "grad", "the loss is made outside of this branch or loop's body; call it there");
  std::vector<NodeId> ids;
  for (const Tensor& x : wrt) {
    ids.push_back(trace->operand(x, where));
    if (!is_float(x.dtype()))
      refuse(
          where, "grad",
          fmt::format("{} has no gradient, only floating-point tensors do", meta_text(meta_of(x))));
  }
  std::vector<Tensor> grads;
  {
    Sweep sweep(*trace, loss.node(), ids);
    sweep.run(loss);
    for (const NodeId id : ids) grads.push_back(sweep.grad(id));
  }
  for (std::size_t i = 0; i < grads.size(); ++i)
    if (!grads[i].traced()) grads[i] = zeros_like(wrt[i], where);
  return grads;
}

std::vector<Tensor> pull_back(Trace& trace, const std::vector<Tensor>& outputs,
                              const std::vector<Tensor>& grads, const std::vector<Tensor>& wrt) {
  std::vector<NodeId> from, to;
  for (const Tensor& x : wrt) to.push_back(trace.operand(x, {}));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (grads[i].traced()) from.push_back(trace.operand(outputs[i], {}));
  std::vector<Tensor> found(wrt.size());
  if (!from.empty()) {
    Sweep sweep(trace, *std::ranges::max_element(from), to);
    for (std::size_t i = 0, k = 0; i < outputs.size(); ++i)
      if (grads[i].traced()) sweep.start(from[k++], grads[i]);
    sweep.walk();
    for (std::size_t i = 0; i < to.size(); ++i) found[i] = sweep.grad(to[i]);
  }
  for (std::size_t i = 0; i < to.size(); ++i)
    if (!found[i].traced()) found[i] = zeros_like(wrt[i]);
  return found;
}

std::vector<Tensor> grad(const Tensor& loss, std::initializer_list<Tensor> wrt, Line where) {
  return grad(loss, std::span<const Tensor>(wrt.begin(), wrt.size()), where);
}

}  // namespace lockstep::worker
