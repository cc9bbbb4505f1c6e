#include <lockstep/worker/trace/index_gradients.h>
#include <lockstep/worker/trace/index_places.h>

namespace lockstep::worker {

using shapes::Expr;

// Added up at the places that were read. The gather itself may not be part of the graph, so the
// indices are checked here as well.
std::vector<Tensor> gather_gradient(const Backward& b) {
  const Line here = Line::current();
  const std::vector<Expr> sizes = meta_of(b.inputs[0]).sizes;
  const Expr limit = sizes[static_cast<std::size_t>(b.node.ints[0])];
  const Tensor index =
      sizes.size() == 1 ? b.inputs[1] : checked_index("gather", b.inputs[1], limit, false, here);
  const Tensor places = places_along(sizes, b.node.ints[0], index, here);
  Node node;
  node.exprs = {shapes::product(sizes)};
  const Tensor added =
      emit(Op::IndexAdd, {flat_view(places, here), flat_view(b.grad, here)}, std::move(node), here);
  return {view(added, sizes, here), Tensor()};
}

}  // namespace lockstep::worker
