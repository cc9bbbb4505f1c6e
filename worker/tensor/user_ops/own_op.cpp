#include <lockstep/worker/tensor/language/op_builder.h>
#include <lockstep/worker/tensor/user_ops/own_op.h>

namespace lockstep::worker {

Tensor OwnOp::operator()(const std::vector<Tensor>& inputs, Line where) const {
  if (const auto flaw = definition_->flaw()) refuse(where, "own op", *flaw);
  const std::shared_ptr<Trace> trace = trace_of(definition_->name, inputs, where);
  Tensor result = emit(Op::Own, inputs, Node{.text = definition_->name, .own = definition_}, where);
  if (gradient_ == nullptr) return result;
  OwnGradient own{{}, {result.node()}, gradient_, trace->here(where), definition_->name};
  for (const Tensor& input : inputs) own.inputs.push_back(trace->operand(input, where));
  trace->add_own_gradient(std::move(own));
  return result;
}

}  // namespace lockstep::worker
