#include <lockstep/worker/tensor/language/op_builder.h>
#include <lockstep/worker/tensor/user_ops/host_call.h>

namespace lockstep::worker {

OwnDefinition host_definition(std::string name, OwnShapeRule shape_rule, OwnReference function) {
  return {
      .name = std::move(name),
      .version = {},
      .shape_rule = std::move(shape_rule),
      .reference = std::move(function),
      .claims = {.pure = false, .deterministic = false, .may_alias = true},
  };
}

Tensor host_call(std::string name, const std::vector<Tensor>& inputs, OwnShapeRule shape_rule,
                 OwnReference function, Line where) {
  OwnDefinition definition =
      host_definition(std::move(name), std::move(shape_rule), std::move(function));
  if (const auto flaw = definition.flaw()) refuse(where, "host_call", *flaw);
  Node node{.text = definition.name};
  node.own = std::make_shared<const OwnDefinition>(std::move(definition));
  return emit(Op::HostCall, inputs, std::move(node), where);
}

}  // namespace lockstep::worker
