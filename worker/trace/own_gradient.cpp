#include <fmt/format.h>

#include <lockstep/worker/trace/op_builder.h>
#include <lockstep/worker/trace/own_gradient.h>

namespace lockstep::worker {

std::vector<Tensor> CustomBackward::operator()(const std::vector<Tensor>& inputs,
                                               Line where) const {
  const std::shared_ptr<Trace> trace = trace_of("custom_backward", inputs, where);
  const std::vector<Tensor> results = forward_(inputs);
  (void)trace_of("custom_backward", results, where);
  OwnGradient own{{}, {}, backward_, trace->here(where)};
  for (const Tensor& input : inputs) own.inputs.push_back(trace->operand(input, where));
  std::vector<Tensor> outputs;
  for (const Tensor& result : results) {
    // A number of its own keeps it apart from equal values that are made without this function.
    Node same{.ints = {trace->own_gradients()}, .meta = meta_of(result)};
    outputs.push_back(emit(Op::Reshape, {result}, std::move(same), where));
    own.outputs.push_back(outputs.back().node());
  }
  trace->add_own_gradient(std::move(own));
  return outputs;
}

void Trace::add_own_gradient(OwnGradient gradient) {
  ++own_count_;
  const auto shared = std::make_shared<const OwnGradient>(std::move(gradient));
  for (const NodeId output : shared->outputs) own_gradients_[output] = shared;
}

const OwnGradient* Trace::own_gradient(NodeId id) const {
  const auto found = own_gradients_.find(id);
  return found == own_gradients_.end() ? nullptr : found->second.get();
}

}  // namespace lockstep::worker
