#include "op_graphs.h"

#include <vector>

#include "compiled_graph.h"
#include "graph_builder.h"

#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

Extent symbolic(GraphBuilder& g) { return {g.symbol("x.size(0)"), g.symbol("x.size(1)")}; }

bool fits(Takes takes, DType dtype) {
  switch (takes) {
    case Takes::Any:
      return true;
    case Takes::Number:
      return is_number(dtype);
    case Takes::Float:
      return is_float(dtype);
    case Takes::Integer:
      return is_number(dtype) && !is_float(dtype);
    case Takes::Bool:
      return dtype == DType::Bool;
    case Takes::I64:
      return dtype == DType::I64;
  }
  return false;
}

/// Ops that compute a value of `dtype` from one, two or three values of it.
std::vector<Op> elementwise_ops(DType dtype) {
  std::vector<Op> ops;
  if (is_half(dtype)) return ops;
  for (const OpRow& row : kOps)
    if (row.kind == OpClass::Elementwise && row.op != Op::Cast && row.op != Op::Where &&
        fits(row.takes, dtype))
      ops.push_back(row.op);
  return ops;
}

}  // namespace

Graph elementwise_graph(DType dtype, const std::optional<Extent>& fixed) {
  GraphBuilder g("elementwise");
  const Extent e = fixed ? *fixed : symbolic(g);
  const NodeId x = g.input("x", dtype, {e.a, e.b}), y = g.input("y", dtype, {e.a, e.b});
  const NodeId c = g.input("c", DType::Bool, {e.a, e.b});
  for (Op op : elementwise_ops(dtype))
    g.output(op_row(op).operands == 3   ? g.op(op, {x, y, x})
             : op_row(op).operands == 2 ? g.op(op, {x, y})
                                        : g.op(op, {x}));
  g.output(g.op(Op::Where, {c, x, y}));
  for (DType to : {DType::F64, DType::F32, DType::I64, DType::I32, DType::I8, DType::U8,
                   DType::Bool, DType::F16, DType::BF16})
    g.output(g.cast(x, to));
  for (DType by : {DType::F16, DType::BF16}) g.output(g.cast(g.cast(y, by), dtype));
  g.output(g.cast(g.op(Op::Where, {c, y, g.full(dtype, {e.a, e.b}, 1)}), DType::F64));
  return g.take();
}

Graph view_graph(DType dtype, const std::optional<Extent>& fixed) {
  GraphBuilder g("views");
  const Extent e = fixed ? *fixed : symbolic(g);
  const NodeId x = g.input("x", dtype, {e.a, e.b}), y = g.input("y", dtype, {e.a, e.b});
  const NodeId differ =
      is_half(dtype) ? g.input("c", DType::Bool, {e.a, e.b}) : g.op(Op::Ne, {x, y});
  const NodeId w = g.op(Op::Where, {differ, x, y});  // a value to be computed inline
  const auto both = [&](NodeId id) {
    g.output(id);
    g.output(is_half(dtype) ? g.cast(id, DType::F32)
                            : g.op(Op::Where, {g.op(Op::Eq, {id, id}), id, id}));
  };
  for (NodeId v : {x, w}) {
    both(g.permute(v, {1, 0}));
    both(g.reshape(v, {e.a * e.b}));
    both(g.reshape(v, {e.b, Expr(1), e.a}));
    both(g.reshape(g.permute(v, {1, 0}), {e.a, e.b}));
    both(g.expand(g.reshape(v, {e.a, Expr(1), e.b}), {e.a, Expr(3), e.b}));
    both(g.permute(g.expand(g.reshape(v, {Expr(1), e.a, e.b}), {Expr(2), e.a, e.b}), {2, 0, 1}));
    both(g.slice(v, 0, floor_div(e.a, 2), e.a - floor_div(e.a, 2)));
    both(g.slice(g.slice(v, 1, 0, floor_div(e.b, 2)), 0, 0, e.a));
    both(g.pad(v, 0, 1, 2));
    both(g.pad(g.pad(v, 1, 2, 0), 0, 0, 1));
    both(g.slice(g.pad(g.slice(v, 1, floor_div(e.b, 2), e.b - floor_div(e.b, 2)), 1, 1, 1), 0, 0,
                 e.a));
    both(g.cat({v, x, g.pad(v, 0, 1, 0)}, 0));
    for (const auto& dims : {GraphBuilder::Dims{0}, {1}, {0, 1}}) both(g.flip(v, dims));
    both(g.pad(g.flip(g.slice(v, 0, 0, floor_div(e.a, 2)), {0}), 0, 1, 1));
    both(g.flip(g.pad(g.flip(v, {1}), 1, 1, 2), {1}));
    both(g.cat({v, g.permute(g.permute(y, {1, 0}), {1, 0})}, 1));
    const NodeId wide = g.pad(g.pad(v, 0, 1, 2), 1, 2, 2);
    const Expr places = floor_div(e.b + 1, 2) + 1;
    both(g.windows(Op::Unfold, wide, {1, 2, 2}, {e.a + 3, places, Expr(2)}));
    both(g.windows(Op::Unfold, wide, {0, 1, 1, 1, 2, 1}, {e.a + 2, places, Expr(2), Expr(3)}));
    const NodeId parts =
        g.expand(g.reshape(v, {e.a, e.b, Expr(1), Expr(1)}), {e.a, e.b, Expr(3), Expr(2)});
    both(g.windows(Op::Overlay, parts, {1, 2, 1}, {e.a, e.b * 2 + 2, Expr(3), Expr(2)}));
    both(g.windows(Op::Overlay, parts, {0, 1, 2, 1, 3, 1},
                   {e.a + 5, e.b * 3 + 1, Expr(3), Expr(2)}));
  }
  g.output(g.iota({e.a, e.b}, 0));
  g.output(g.iota({e.a, e.b}, 1));
  g.output(g.permute(g.iota({e.a, e.b}, 1), {1, 0}));
  g.output(g.iota({e.a}, 0));
  g.output(g.scalar(e.a * e.b + 7));
  g.output(g.expand(g.reshape(g.scalar(e.a - 3), {Expr(1), Expr(1)}), {e.a, e.b}));
  g.output(g.full(dtype, {e.a, e.b}, 1));
  g.output(x);
  g.output(g.reshape(x, {e.b * e.a, Expr(1)}));
  return g.take();
}

Graph reduction_graph(DType dtype, const std::optional<Extent>& fixed) {
  GraphBuilder g("reductions");
  const Extent e = fixed ? *fixed : symbolic(g);
  const NodeId x = g.input("x", dtype, {e.a, e.b}), y = g.input("y", dtype, {e.a, e.b});
  const NodeId sum = g.op(Op::Add, {x, y});
  const NodeId cube =
      g.op(Op::Add, {g.expand(g.reshape(x, {e.a, Expr(1), e.b}), {e.a, Expr(3), e.b}),
                     g.expand(g.reshape(y, {e.a, Expr(1), e.b}), {e.a, Expr(3), e.b})});
  for (Op op : {Op::Sum, Op::Amax, Op::Amin}) {
    for (NodeId v : {x, sum})
      for (const auto& dims : {GraphBuilder::Dims{}, {0}, {1}, {0, 1}})
        g.output(g.reduce(op, v, dims));
    for (const auto& dims : {GraphBuilder::Dims{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1}, {0, 1, 2}})
      g.output(g.reduce(op, cube, dims));
    const NodeId rows = g.reduce(op, g.permute(sum, {1, 0}), {1});
    g.output(g.op(Op::Add, {rows, rows}));
  }
  // A value minus its row's maximum, as in softmax.
  const NodeId top = g.expand(g.reshape(g.reduce(Op::Amax, sum, {1}), {e.a, Expr(1)}), {e.a, e.b});
  g.output(g.reduce(Op::Sum, g.op(Op::Sub, {sum, top}), {1}));
  for (std::int64_t dim : {0, 1}) {
    g.output(g.reduce(Op::Argmax, x, {dim}));
    g.output(g.reduce(Op::Argmax, sum, {dim}));
    g.output(g.reduce(Op::Argmax, cube, {dim + 1}));
  }
  return g.take();
}

Graph index_graph(DType dtype, const std::optional<Extent>& fixed) {
  GraphBuilder g("indexing");
  const Extent e = fixed ? *fixed : symbolic(g);
  const NodeId x = g.input("x", dtype, {e.a, e.b}), v = g.input("v", dtype, {e.b});
  const NodeId rows = g.input("rows", DType::I64, {e.b}),
               counts = g.input("counts", DType::I64, {Expr(4)}),
               c = g.input("c", DType::Bool, {e.a, e.b});
  const NodeId picked = g.op(Op::IndexSelect, {x, rows});
  const NodeId ids = g.segment_ids(counts, e.a);
  g.output(picked);
  g.output(g.pad(picked, 0, 1, 0));
  g.output(g.op(Op::IndexSelect, {v, g.op(Op::IndexSelect, {rows, rows})}));
  g.output(ids);
  g.output(g.op(Op::Argsort, {g.op(Op::Argsort, {ids})}));
  g.output(g.nonzero(c, e.a * e.b + 1));
  const NodeId flat = g.reshape(rows, {Expr(1), e.b});
  const NodeId down = g.gather(x, 0, g.expand(flat, {Expr(3), e.b})),
               along = g.gather(x, 1, g.expand(flat, {e.a, e.b}));
  g.output(down);
  g.output(g.pad(along, 1, 1, 2));
  g.output(g.permute(
      g.gather(g.permute(x, {1, 0}), 1, g.expand(g.reshape(rows, {e.b, Expr(1)}), {e.b, Expr(2)})),
      {1, 0}));
  const NodeId checked = g.checked_index(rows, e.b);
  g.output(checked);
  g.output(g.op(Op::IndexSelect,
                {v, g.op(Op::Mod, {g.op(Op::Add, {checked, checked}),
                                   g.expand(g.reshape(g.scalar(e.b), {Expr(1)}), {e.b})})}));
  const NodeId square = g.iota({e.b, e.b}, 0);
  const NodeId others = g.op(Op::IndexSelect, {x, g.op(Op::IndexSelect, {rows, rows})});
  g.output(g.index_put(x, rows, others, Put::Set));
  g.output(g.index_put(g.pad(x, 0, 2, 1), rows,
                       g.op(Op::Where, {g.op(Op::Eq, {square, square}), others, picked}),
                       Put::Set));
  if (is_half(dtype)) return g.take();
  g.output(g.op(Op::Ne, {picked, picked}));
  // nonzero() with more places than there can be, and with fewer.
  const NodeId truths = g.op(Op::Ne, {x, g.op(Op::Where, {c, x, g.full(dtype, {e.a, e.b}, 1)})});
  g.output(g.nonzero(truths, e.a));
  g.output(g.nonzero(g.permute(truths, {1, 0}), Expr(3)));
  if (dtype == DType::Bool) return g.take();
  g.output(g.index_add(rows, g.op(Op::Add, {picked, picked}), e.a + 2));
  g.output(g.index_add(rows, v, e.a));
  for (const Put mode : {Put::Multiply, Put::Max, Put::Min}) {
    g.output(g.index_put(x, rows, others, mode));
    g.output(g.index_put(g.op(Op::Add, {x, x}), rows, g.op(Op::Mul, {others, picked}), mode));
    g.output(g.index_put(v, g.op(Op::IndexSelect, {rows, rows}), v, mode));
  }
  g.output(g.op(Op::Argsort, {v}));
  g.output(g.op(Op::Cumsum, {v}));
  g.output(g.op(Op::Cumsum, {g.op(Op::Mul, {v, v})}));
  return g.take();
}

/// Attention over wide [4, a, b] as two batches of two groups, plain, causal and with masks, and
/// its gradients.
void add_attention(GraphBuilder& g, NodeId wide, const Extent& e) {
  const DType dtype = g.meta(wide).dtype;
  const GraphBuilder::Sizes sizes{Expr(2), Expr(2), e.a, e.b};
  const NodeId query = g.op(Op::Mul, {g.reshape(wide, sizes), g.full(dtype, sizes, 0.125)});
  const NodeId key = g.slice(wide, 0, Expr(1), Expr(2)),
               value = g.slice(g.op(Op::Mul, {wide, wide}), 0, Expr(0), Expr(2));
  const GraphBuilder::Sizes square{e.a, e.a}, row{Expr(1), Expr(1), Expr(1), e.a};
  const NodeId seen = g.op(Op::Gt, {g.iota(square, 0), g.iota(square, 1)});
  const NodeId of_heads =
      g.expand(g.reshape(seen, {Expr(1), Expr(1), e.a, e.a}), {Expr(1), Expr(2), e.a, e.a});
  const NodeId added = g.op(Op::Mul, {g.cast(g.iota(row, 3), dtype), g.full(dtype, row, -0.01)});
  const auto both = [&](std::vector<NodeId> operands, bool causal) {
    const NodeId made = g.attention(Op::Attention, operands, causal);
    g.output(made);
    operands.insert(operands.begin() + 3, {made, g.op(Op::Mul, {made, made})});
    g.output(g.attention(Op::AttentionGradient, operands, causal));
  };
  both({query, key, value}, false);
  both({query, key, value}, true);
  both({query, key, value, of_heads}, false);
  both({query, key, value, added}, false);
}

Graph product_graph(DType dtype, const std::optional<Extent>& fixed) {
  GraphBuilder g("products");
  const Extent e = fixed ? *fixed : symbolic(g);
  const NodeId x = g.input("x", dtype, {e.a, e.b}),
               counts = g.input("counts", DType::I64, {Expr(4)});
  const NodeId wide = g.expand(g.reshape(x, {Expr(1), e.a, e.b}), {Expr(4), e.a, e.b});
  const NodeId weights = g.permute(wide, {0, 2, 1});  // [4, b, a]
  g.output(g.op(Op::SegmentMatmul, {x, weights, counts}));
  g.output(g.op(Op::SegmentMatmul, {x, g.op(Op::Add, {weights, weights}), counts}));
  g.output(g.op(Op::SegmentOuter, {x, g.op(Op::Add, {x, x}), counts}));
  g.output(g.op(Op::Matmul, {x, g.permute(x, {1, 0})}));
  g.output(g.op(Op::Matmul, {g.permute(x, {1, 0}), x}));
  g.output(g.op(Op::Matmul, {g.permute(g.op(Op::Mul, {x, x}), {1, 0}), g.op(Op::Relu, {x})}));
  g.output(g.op(Op::Matmul, {wide, g.permute(wide, {0, 2, 1})}));
  g.output(g.op(Op::Matmul, {g.permute(wide, {0, 2, 1}), wide}));
  g.output(g.op(Op::Matmul,
                {g.permute(wide, {0, 2, 1}), g.permute(g.permute(wide, {0, 2, 1}), {0, 2, 1})}));
  add_attention(g, wide, e);
  return g.take();
}

Inputs inputs_for(std::mt19937_64& random, DType dtype, std::int64_t a, std::int64_t b,
                  bool special) {
  Inputs inputs;
  inputs["x"] = random_array(random, dtype, {a, b}, special);
  inputs["y"] = random_array(random, dtype, {a, b}, special);
  inputs["v"] = random_array(random, dtype, {b}, special);
  inputs["c"] = random_array(random, DType::Bool, {a, b});
  inputs["rows"] = random_indices(random, b, std::min(a, b));
  std::vector<std::int64_t> counts(4, 0);
  for (std::int64_t i = 0; i < a; ++i) ++counts[random() % 4];
  inputs["counts"] = integers({4}, counts);
  return inputs;
}

}  // namespace lockstep::worker
