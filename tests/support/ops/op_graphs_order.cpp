#include "graph_builder.h"
#include "op_graphs.h"

#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// Elements whose products stay in range: ints wrap, floats are moved close to 1.
NodeId factors_of(GraphBuilder& g, NodeId x) {
  const TensorMeta meta = g.meta(x);
  if (!is_float(meta.dtype)) return x;
  const NodeId part = g.op(Op::Mul, {g.op(Op::Tanh, {x}), g.full(meta.dtype, meta.sizes, 0.125)});
  return g.op(Op::Add, {part, g.full(meta.dtype, meta.sizes, 1)});
}
/// Elements from -1 to 1, zeros among them.
NodeId clipped(GraphBuilder& g, NodeId x) {
  const TensorMeta meta = g.meta(x);
  const NodeId high = g.full(meta.dtype, meta.sizes, 1),
               low = meta.dtype == DType::U8 ? g.full(meta.dtype, meta.sizes, 0)
                                             : g.full(meta.dtype, meta.sizes, -1);
  return g.op(Op::Maximum, {g.op(Op::Minimum, {x, high}), low});
}

}  // namespace

Graph order_graph(DType dtype, const std::optional<Extent>& fixed) {
  GraphBuilder g("order");
  const Extent e = fixed ? *fixed : Extent{g.symbol("x.size(0)"), g.symbol("x.size(1)")};
  const NodeId x = g.input("x", dtype, {e.a, e.b}), y = g.input("y", dtype, {e.a, e.b}),
               v = g.input("v", dtype, {e.b});
  const NodeId sum = g.op(Op::Add, {x, y}), down = g.permute(x, {1, 0});
  const NodeId cube = g.expand(g.reshape(sum, {e.a, Expr(1), e.b}), {e.a, Expr(3), e.b});
  const NodeId single = g.reshape(v, {Expr(1), e.b}), column = g.reshape(v, {e.b, Expr(1)});
  for (const NodeId z : {x, sum, down, v, cube, single, column}) {
    g.output(g.op(Op::Argsort, {z}));
    g.output(g.op(Op::Cumsum, {z}));
    g.output(g.op(Op::CumArgmax, {z}));
    g.output(g.op(Op::Cumprod, {factors_of(g, z)}));
    g.output(g.op(Op::Cumprod, {clipped(g, z)}));
    if (is_float(dtype)) g.output(g.op(Op::LogCumsumExp, {z}));
    const auto rank = static_cast<std::int64_t>(g.meta(z).sizes.size());
    for (std::int64_t dim = 0; dim < rank; ++dim)
      g.output(g.reduce(Op::Prod, factors_of(g, z), {dim}));
    g.output(g.reduce(Op::Prod, clipped(g, z), {rank - 1}));
  }
  for (std::int64_t right : {0, 1}) {
    g.output(g.search_sorted(x, y, right));
    g.output(g.search_sorted(x, g.op(Op::Mul, {sum, y}), right));
    g.output(g.search_sorted(v, g.reshape(sum, {e.a * e.b}), right));
    g.output(g.search_sorted(down, g.permute(y, {1, 0}), right));
  }
  // Flipped, scanned and flipped back.
  g.output(g.flip(g.op(Op::Cumsum, {g.flip(x, {1})}), {1}));
  g.output(g.reduce(Op::Prod, factors_of(g, sum), {0, 1}));
  return g.take();
}

}  // namespace lockstep::worker
