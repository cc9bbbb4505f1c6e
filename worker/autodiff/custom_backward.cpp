#include <fmt/format.h>

#include <lockstep/worker/autodiff/custom_backward.h>
#include <lockstep/worker/language/op_builder.h>

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
    Node same{.number = static_cast<double>(trace->own_number()), .meta = meta_of(result)};
    outputs.push_back(emit(Op::Reshape, {result}, std::move(same), where));
    own.outputs.push_back(outputs.back().node());
  }
  trace->add_own_gradient(std::move(own));
  return outputs;
}

}  // namespace lockstep::worker
