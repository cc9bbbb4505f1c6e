#include <lockstep/worker/tensor/graph/count_limit.h>

namespace lockstep::worker {

std::optional<shapes::Expr> count_limit(std::span<const Node> nodes, NodeId id) {
  const Node& node = nodes[id];
  if (node.meta.dtype != DType::I64 || node.inputs.size() != 1) return std::nullopt;
  const Node& operand = nodes[node.inputs[0]];
  if (node.op == Op::Cast && operand.meta.dtype == DType::Bool) return shapes::Expr(1);
  if (node.op == Op::Reshape) return count_limit(nodes, node.inputs[0]);
  if (node.op != Op::Sum) return std::nullopt;
  std::optional<shapes::Expr> limit = count_limit(nodes, node.inputs[0]);
  for (const std::int64_t dim : node.ints)
    if (limit) limit = *limit * operand.meta.sizes[static_cast<std::size_t>(dim)];
  return limit;
}

}  // namespace lockstep::worker
