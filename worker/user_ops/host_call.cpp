#include <lockstep/worker/language/op_builder.h>
#include <lockstep/worker/user_ops/host_call.h>

namespace lockstep::worker {

Tensor host_call(std::string name, const std::vector<Tensor>& inputs, OwnShapeRule shape_rule,
                 OwnReference function, Line where) {
  OwnDefinition definition{
      .name = std::move(name),
      .version = {},
      .shape_rule = std::move(shape_rule),
      .reference = std::move(function),
      .claims = {.pure = false, .deterministic = false, .may_alias = true},
  };
  if (const auto flaw = definition.flaw()) refuse(where, "host_call", *flaw);
  Node node{.text = definition.name};
  node.own = std::make_shared<const OwnDefinition>(std::move(definition));
  return emit(Op::HostCall, inputs, std::move(node), where);
}

}  // namespace lockstep::worker
