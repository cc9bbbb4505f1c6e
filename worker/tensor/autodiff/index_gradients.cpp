#include <lockstep/worker/tensor/autodiff/gradients.h>
#include <lockstep/worker/tensor/language/index_places.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

Tensor on(Op op, const std::vector<Tensor>& operands, Node attributes = {}) {
  return emit(op, operands, std::move(attributes), Line::current());
}
Tensor number_like(const Tensor& x, double value) {
  return filled(*x.trace(), meta_of(x), value, Line::current());
}

/// The gradient of an IndexPut node.
class Returned {
 public:
  explicit Returned(const Backward& b)
      : b_(b), x_(b.inputs[0]), index_(b.inputs[1]), rows_(b.inputs[2]) {}

  std::vector<Tensor> run() const {
    switch (static_cast<Put>(b_.node.ints[0])) {
      case Put::Set:
        return set();
      case Put::Multiply:
        return multiplied();
      case Put::Max:
      case Put::Min:
        break;
    }
    return extreme();
  }

 private:
  /// The rows at the index, of a tensor of x's sizes.
  [[nodiscard]] Tensor taken(const Tensor& of) const { return on(Op::IndexSelect, {of, index_}); }
  [[nodiscard]] Tensor added(const Tensor& rows) const {
    return on(Op::IndexAdd, {index_, rows}, Node{.exprs = {meta_of(x_).sizes[0]}});
  }
  [[nodiscard]] Tensor put(const Tensor& x, const Tensor& rows, Put mode) const {
    return on(Op::IndexPut, {x, index_, rows}, Node{.ints = {static_cast<std::int64_t>(mode)}});
  }

  [[nodiscard]] std::vector<Tensor> set() const {
    std::vector<Tensor> out(3);
    const Tensor none = number_like(rows_, 0);
    if (b_.wanted[0]) out[0] = put(b_.grad, none, Put::Set);
    if (!b_.wanted[2]) return out;
    if (b_.trace.node(index_.node()).op == Op::Nonzero) {  // one row at each place
      out[2] = taken(b_.grad);
      return out;
    }
    // Finds the last row at each place.
    Node order{.ints = {0}, .meta = {DType::I64, meta_of(index_).sizes}};
    order.op = Op::Iota;
    const Tensor number = b_.trace.add_node(std::move(order), Line::current());
    const Tensor nobody =
        filled(b_.trace, {DType::I64, {meta_of(x_).sizes[0]}}, -1, Line::current());
    std::vector<Expr> column(meta_of(rows_).sizes.size(), Expr(1));
    column[0] = meta_of(rows_).sizes[0];
    const Tensor won =
        view(on(Op::Eq, {taken(put(nobody, number, Put::Set)), number}), column, Line::current());
    out[2] =
        on(Op::Where, {expanded(won, meta_of(rows_).sizes, Line::current()), taken(b_.grad), none});
    return out;
  }

  // A factor that is zero gets the product of the others if it is the only zero. Any other factor
  // gets the product divided by itself if no factor is zero.
  [[nodiscard]] std::vector<Tensor> multiplied() const {
    const auto is_zero = [](const Tensor& t) { return on(Op::Eq, {t, number_like(t, 0)}); };
    const auto counted = [&](const Tensor& t) {
      return cast(is_zero(t), t.dtype(), Line::current());
    };
    const auto safe = [&](const Tensor& t) {
      return on(Op::Where, {is_zero(t), number_like(t, 1), t});
    };
    const Tensor product = put(safe(x_), safe(rows_), Put::Multiply);
    const Tensor zeros = on(Op::Add, {counted(x_), added(counted(rows_))});
    const auto part = [&](const Tensor& t, const Tensor& grad, const Tensor& all,
                          const Tensor& count) {
      const Tensor none = number_like(t, 0);
      const Tensor alone = on(Op::Where, {on(Op::Eq, {count, number_like(t, 1)}), all, none});
      const Tensor over =
          on(Op::Where, {on(Op::Eq, {count, none}), on(Op::Div, {all, safe(t)}), none});
      return on(Op::Mul, {grad, on(Op::Where, {is_zero(t), alone, over})});
    };
    return {b_.wanted[0] ? part(x_, b_.grad, product, zeros) : Tensor(), Tensor(),
            b_.wanted[2] ? part(rows_, taken(b_.grad), taken(product), taken(zeros)) : Tensor()};
  }

  [[nodiscard]] std::vector<Tensor> extreme() const {
    const auto best = [](const Tensor& t, const Tensor& result) {
      return cast(on(Op::Eq, {t, result}), t.dtype(), Line::current());
    };
    const Tensor mine = best(x_, b_.value), theirs = best(rows_, taken(b_.value));
    const Tensor share = on(Op::Div, {b_.grad, on(Op::Add, {mine, added(theirs)})});
    return {b_.wanted[0] ? on(Op::Mul, {share, mine}) : Tensor(), Tensor(),
            b_.wanted[2] ? on(Op::Mul, {taken(share), theirs}) : Tensor()};
  }

  const Backward& b_;
  const Tensor &x_, &index_, &rows_;
};

}  // namespace

// Adds up the gradient at the places that were read; with one index along the dim, `where` selects
// element by element. The gather node may not be in the graph, so the indices are checked here,
// too.
std::vector<Tensor> gather_gradient(const Backward& b) {
  const Line here = Line::current();
  const std::vector<Expr> sizes = meta_of(b.inputs[0]).sizes;
  const auto dim = static_cast<std::size_t>(b.node.ints[0]);
  const Expr limit = sizes[dim];
  if (sizes.size() > 1 && meta_of(b.inputs[1]).sizes[dim] == Expr(1)) {
    Node along{.ints = b.node.ints, .meta = {DType::I64, sizes}};
    along.op = Op::Iota;
    const Tensor number = b.trace.add_node(std::move(along), here);
    const Tensor index = checked_index("gather", b.inputs[1], limit, false, here);
    const Tensor read = on(Op::Eq, {number, expanded(index, sizes, here)});
    return {on(Op::Where, {read, expanded(b.grad, sizes, here), number_like(b.inputs[0], 0)}),
            Tensor()};
  }
  const Tensor index =
      sizes.size() == 1 ? b.inputs[1] : checked_index("gather", b.inputs[1], limit, false, here);
  const Tensor places = places_along(sizes, b.node.ints[0], index, here);
  return {view(on(Op::IndexAdd, {flat_view(places, here), flat_view(b.grad, here)},
                  Node{.exprs = {shapes::product(sizes)}}),
               sizes, here),
          Tensor()};
}

std::vector<Tensor> index_put_gradient(const Backward& b) { return Returned(b).run(); }

}  // namespace lockstep::worker
