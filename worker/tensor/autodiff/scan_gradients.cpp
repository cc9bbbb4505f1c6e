#include <algorithm>
#include <limits>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/custom_backward.h>
#include <lockstep/worker/tensor/autodiff/gradients.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using Pair = std::vector<Tensor>;  // x and the incoming gradient

Tensor of(Op op, const std::vector<Tensor>& operands, Node attributes = {}) {
  return emit(op, operands, std::move(attributes), Line::current());
}
Tensor times(const Tensor& a, const Tensor& b) { return of(Op::Mul, {a, b}); }
Tensor chosen(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return of(Op::Where, {condition, a, b});
}
Tensor same(const Tensor& a, const Tensor& b) { return of(Op::Eq, {a, b}); }
Tensor value_like(const Tensor& x, double value) {
  return filled(*x.trace(), meta_of(x), value, Line::current());
}

/// A scan from the last element of each row to the first.
Tensor scanned_back(Op op, const Tensor& x) {
  const Node last{.ints = {x.ndim() - 1}};
  return of(Op::Flip, {of(op, {of(Op::Flip, {x}, last)})}, last);
}

/// `fast` of the operands, with the gradient of `plain`. Both are the same function of x and the
/// incoming gradient. `fast` selects by what is zero, and selections have no slope; `plain` has no
/// selections.
Tensor with_gradient_of(const std::function<Tensor(const Pair&)>& fast,
                        const std::function<Tensor(const Pair&)>& plain, const Pair& operands,
                        const shapes::Location& line) {
  const auto own = custom_backward(
      [fast](const Pair& in) { return Pair{fast(in)}; },
      [plain, line](const BackwardCall& call) {
        call.inputs[0].trace()->set_line(line);  // grad() has reset the line
        Pair apart;                              // copies, cut off from the incoming gradient
        for (const Tensor& x : call.inputs)
          apart.push_back(
              of(Op::Reshape, {x},
                 {.number = static_cast<double>(x.trace()->own_number()), .meta = meta_of(x)}));
        const Tensor product = times(plain(apart), call.grads[0]);
        return grad(sum(product, {}, Keep::Drop, Line::current()), apart, Line::current());
      });
  return own(operands, Line::current())[0];
}

/// [.., n] to [.., n, n]: row i is x with a one in place of element i.
Tensor each_left_out(const Tensor& x) {
  TensorMeta square = meta_of(x);
  const Expr n = square.sizes.back();
  std::vector<Expr> row = square.sizes;
  row.insert(row.end() - 1, Expr(1));
  square.sizes.push_back(n);
  const auto place = [&](std::int64_t dim) {
    Node node{.ints = {dim}, .meta = {DType::I64, square.sizes}};
    node.op = Op::Iota;
    return x.trace()->add_node(std::move(node), Line::current());
  };
  const std::int64_t last = x.ndim();
  const Tensor rows = expanded(view(x, row, Line::current()), square.sizes, Line::current());
  return chosen(same(place(last - 1), place(last)), value_like(rows, 1), rows);
}

/// For [.., n], over the last dim: the product of all other elements, times the gradient.
Tensor plain_product(const Pair& in) {
  const Tensor others = of(Op::Prod, {each_left_out(in[0])}, {.ints = {in[0].ndim()}});
  return times(others, in[1]);
}

/// Let p be the product of the elements that are not zero. Without a zero, each element gets p
/// divided by the element. A single zero gets p, and the other elements 0. With more zeros all get
/// 0.
Tensor fast_product(const Pair& in) {
  const Tensor& x = in[0];
  const auto over_row = [&](Op op, const Tensor& t) {
    std::vector<Expr> kept = meta_of(x).sizes;
    kept.back() = 1;
    const Tensor out = of(op, {t}, {.ints = {x.ndim() - 1}});
    return expanded(view(out, kept, Line::current()), meta_of(x).sizes, Line::current());
  };
  const Tensor none = value_like(x, 0), one = value_like(x, 1);
  const Tensor is_zero = same(x, none), safe = chosen(is_zero, one, x);
  const Tensor others = over_row(Op::Prod, safe),
               zeros = over_row(Op::Sum, cast(is_zero, x.dtype(), Line::current()));
  const Tensor alone = of(Op::And, {is_zero, same(zeros, one)});
  const Tensor without =
      chosen(same(zeros, none), of(Op::Div, {others, safe}), chosen(alone, others, none));
  return times(in[1], without);
}

/// Before the first zero of a row, an element is a factor of all products from its place on. The
/// first zero gets the sum of the products up to the second zero, with this zero left out as a
/// factor. Elements behind the first zero get 0.
Tensor fast_running_product(const Pair& in) {
  const auto& [x, gradient] = std::tie(in[0], in[1]);
  const Tensor none = value_like(x, 0), one = value_like(x, 1);
  const Tensor is_zero = same(x, none);
  const Tensor zeros = of(Op::Cumsum, {cast(is_zero, DType::I64, Line::current())});
  const Tensor before = same(zeros, value_like(zeros, 0)),
               between = same(zeros, value_like(zeros, 1));
  const Tensor first = of(Op::And, {is_zero, between});
  const Tensor product = of(Op::Cumprod, {x});
  const Tensor factors = scanned_back(Op::Cumsum, chosen(before, times(gradient, product), none));
  const Tensor rest = times(gradient, of(Op::Cumprod, {chosen(first, one, x)}));
  const Tensor at_zero = scanned_back(Op::Cumsum, chosen(between, rest, none));
  return chosen(before, of(Op::Div, {factors, chosen(is_zero, one, x)}),
                chosen(first, at_zero, none));
}

/// For [.., n]: for each element the sum over the products that have it as a factor.
Tensor plain_running_product(const Pair& in) {
  const Tensor products = of(Op::Cumprod, {each_left_out(in[0])});
  const std::vector<Expr> sizes = meta_of(products).sizes;
  const auto place = [&](std::int64_t dim) {
    Node node{.ints = {dim}, .meta = {DType::I64, sizes}};
    node.op = Op::Iota;
    return in[0].trace()->add_node(std::move(node), Line::current());
  };
  const std::int64_t last = in[0].ndim();
  std::vector<Expr> row = meta_of(in[1]).sizes;
  row.insert(row.end() - 1, Expr(1));
  const Tensor gradient = expanded(view(in[1], row, Line::current()), sizes, Line::current());
  const Tensor has_it = of(Op::Ge, {place(last), place(last - 1)});
  const Tensor parts = chosen(has_it, times(products, gradient), value_like(products, 0));
  return of(Op::Sum, {parts}, {.ints = {last}});
}

}  // namespace

std::vector<Tensor> prod_gradient(const Backward& b) {
  const Line here = Line::current();
  const std::vector<Expr> sizes = meta_of(b.inputs[0]).sizes;
  // The reduced dims become one last dim.
  Dims order, back(sizes.size());
  std::vector<Expr> kept, gone, moved;
  const auto take = [&](bool reduced, std::vector<Expr>& into) {
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if ((std::ranges::count(b.node.ints, static_cast<std::int64_t>(d)) > 0) == reduced) {
        back[d] = static_cast<std::int64_t>(order.size());
        order.push_back(static_cast<std::int64_t>(d));
        into.push_back(sizes[d]);
      }
  };
  take(false, kept);
  take(true, gone);
  moved = kept;
  moved.insert(moved.end(), gone.begin(), gone.end());
  std::vector<Expr> rows = kept, columns = kept;
  rows.push_back(shapes::product(gone));
  columns.push_back(Expr(1));
  const auto reordered = [&](const Tensor& t, const Dims& dims) {
    return std::ranges::is_sorted(dims) ? t : permute(t, dims, here);
  };
  const Tensor x = view(reordered(b.inputs[0], order), rows, here);
  const Tensor gradient = expanded(view(b.grad, columns, here), rows, here);
  const Tensor out = with_gradient_of(fast_product, plain_product, {x, gradient}, b.node.where);
  return {reordered(view(out, moved, here), back)};
}

std::vector<Tensor> cumsum_gradient(const Backward& b) {
  return {scanned_back(Op::Cumsum, b.grad)};
}

std::vector<Tensor> cumprod_gradient(const Backward& b) {
  return {with_gradient_of(fast_running_product, plain_running_product, {b.inputs[0], b.grad},
                           b.node.where)};
}

// exp(x - value) times the gradients of later elements, computed in logarithms: separately for
// gradients above 0 and below.
std::vector<Tensor> logcumsumexp_gradient(const Backward& b) {
  const bool wide = b.grad.dtype() == DType::F64;
  const Tensor lowest = value_like(
      b.grad, wide ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest());
  const Tensor none = value_like(b.grad, 0), size = of(Op::Log, {of(Op::Abs, {b.grad})});
  // If a value is minus infinity, so are all elements up to its place. With 0 in its place, their
  // exponentials are still 0.
  const Tensor empty = same(b.value, value_like(b.value, -std::numeric_limits<double>::infinity()));
  const Tensor value = chosen(empty, none, b.value);
  const auto side = [&](Op has_sign) {
    const Tensor mine = chosen(of(has_sign, {b.grad, none}), size, lowest);
    const Tensor all = scanned_back(Op::LogCumsumExp, of(Op::Sub, {mine, value}));
    return of(Op::Exp, {of(Op::Add, {all, b.inputs[0]})});
  };
  return {of(Op::Sub, {side(Op::Gt), side(Op::Lt)})};
}

}  // namespace lockstep::worker
