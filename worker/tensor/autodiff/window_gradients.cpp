#include <algorithm>

#include <lockstep/worker/tensor/autodiff/gradients.h>
#include <lockstep/worker/tensor/language/movement_ops.h>

namespace lockstep::worker {

using shapes::Expr;

std::vector<Tensor> unfold_gradient(const Backward& b) {
  const Line here = Line::current();
  const std::vector<Expr> from = meta_of(b.inputs[0]).sizes, to = meta_of(b.value).sizes;
  Node node{.ints = b.node.ints, .meta = {b.grad.dtype(), to}};
  std::copy(from.begin(), from.end(), node.meta.sizes.begin());
  const Tensor apart = emit(Op::Overlay, {b.grad}, std::move(node), here);
  // Window dims move in front of the windowed dims, so that rows are added to rows.
  const std::int64_t first = b.node.ints[0];
  Dims order, windows;
  for (std::int64_t d = 0; d < first; ++d) order.push_back(d);
  for (std::size_t d = from.size(); d < to.size(); ++d) {
    windows.push_back(static_cast<std::int64_t>(order.size()));
    order.push_back(static_cast<std::int64_t>(d));
  }
  for (auto d = first; d < static_cast<std::int64_t>(from.size()); ++d) order.push_back(d);
  return {emit(Op::Sum, {permute(apart, order, here)}, Node{.ints = windows}, here)};
}

// Takes the gradient of window element k from plane k of the result: a diagonal of all windows.
std::vector<Tensor> overlay_gradient(const Backward& b) {
  const Line here = Line::current();
  const auto ndim = static_cast<std::int64_t>(meta_of(b.value).sizes.size());
  const auto count = static_cast<std::int64_t>(b.node.ints.size() / 3);
  Node node{.ints = b.node.ints, .meta = {b.grad.dtype(), meta_of(b.inputs[0]).sizes}};
  const std::vector<Expr> sizes = node.meta.sizes;
  node.meta.sizes.insert(node.meta.sizes.end(), sizes.end() - count, sizes.end());
  Tensor seen = emit(Op::Unfold, {b.grad}, std::move(node), here);
  for (std::int64_t i = 0; i < count; ++i) seen = diagonal(seen, 0, ndim - count, ndim - i, here);
  return {seen};
}

}  // namespace lockstep::worker
