// Matrix products, plain and by segments.
#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/index_places.h>
#include <lockstep/worker/tensor/language/product_ops.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

void need_equal(Trace& trace, std::string_view what, const Expr& a, const Expr& b,
                const Line& where) {
  if ((a - b).constant().value_or(0) != 0)
    refuse(where, what, fmt::format("sizes {} and {} do not fit", a.text(), b.text()));
  trace.env().check(shapes::equal(a, b), trace.here(where),
                    fmt::format("{} needs equal sizes", what));
}

std::vector<Expr> without(std::vector<Expr> sizes, std::ptrdiff_t from_end) {
  sizes.erase(sizes.end() - from_end);
  return sizes;
}

/// [.., M, K] x [K, N]: one product of all rows.
Tensor rows_times(const Tensor& a, const Tensor& b, const Line& where) {
  std::vector<Expr> sizes = meta_of(a).sizes;
  const std::vector<Expr> right = meta_of(b).sizes;
  sizes.pop_back();
  const Expr rows = a.trace()->env().simplify(shapes::product(sizes));
  const Tensor product = emit(Op::Matmul, {view(a, {rows, right[0]}, where), b}, {}, where);
  sizes.push_back(right[1]);
  return view(product, std::move(sizes), where);
}

/// [.., M, K] x [.., K, N], where b has batch dims.
Tensor batch_times(const Tensor& a, const Tensor& b, const Line& where) {
  const std::shared_ptr<Trace> trace = a.trace();
  const std::vector<Expr> x = meta_of(a).sizes, y = meta_of(b).sizes;
  const std::vector<Expr> right(y.begin(), y.end() - 2);
  std::vector<Expr> batch =
      broadcast_sizes("matmul", *trace, {{x.begin(), x.end() - 2}, right}, where);
  const Expr rows = *(x.end() - 2), inner = *(y.end() - 2), columns = y.back();
  const Expr folded = trace->env().simplify(shapes::product(batch));
  const auto part = [&](const Tensor& side, const Expr& m, const Expr& n) {
    std::vector<Expr> sizes = batch;
    sizes.insert(sizes.end(), {m, n});
    return view(expanded(side, sizes, where), {folded, m, n}, where);
  };
  const bool same_right =
      std::all_of(right.begin(), right.end(), [](const Expr& size) { return size == Expr(1); });
  const Tensor product =
      same_right ? rows_times(a, view(b, {inner, columns}, where), where)
                 : emit(Op::Matmul, {part(a, rows, inner), part(b, inner, columns)}, {}, where);
  batch.insert(batch.end(), {rows, columns});
  return view(product, std::move(batch), where);
}

/// [.., M, K] x [.., K, N] of ints, as a sum of products.
Tensor integer_times(const Tensor& a, const Tensor& b, const Line& where) {
  const Tensor columns = unsqueeze(a, -1, where), rows = unsqueeze(b, -3, where);
  return sum(TensorOperand(columns, where) * TensorOperand(rows, where), {-2}, Keep::Drop, where);
}

void need_dims(std::string_view what, const Tensor& a, int m, const Tensor& b, int n,
               const Line& where) {
  if (a.ndim() != m || b.ndim() != n)
    refuse(where, what,
           fmt::format("takes a {}-D and a {}-D tensor, not {} and {}", m, n, meta_text(meta_of(a)),
                       meta_text(meta_of(b))));
}

}  // namespace

Tensor matmul(const Tensor& left, const Tensor& right, Line where) {
  const NamedCall call("matmul");
  const std::shared_ptr<Trace> trace = trace_of("matmul", std::vector{left, right}, where);
  const std::vector<Tensor> both = of_one_dtype("matmul", {left, right}, where);
  const Tensor &a = both[0], &b = both[1];
  const std::vector<Expr> x = meta_of(a).sizes, y = meta_of(b).sizes;
  if (x.empty() || y.empty())
    refuse(where, "matmul",
           fmt::format("takes tensors with dims, not {} and {}; write * for a product with one "
                       "number",
                       meta_text(meta_of(a)), meta_text(meta_of(b))));
  if (x.size() == 1 && y.size() == 1) return dot(a, b, where);
  if (x.size() == 1) {
    const Tensor product = matmul(view(a, {Expr(1), x[0]}, where), b, where);
    return view(product, without(meta_of(product).sizes, 2), where);
  }
  if (y.size() == 1) {
    const Tensor product = matmul(a, view(b, {y[0], Expr(1)}, where), where);
    return view(product, without(meta_of(product).sizes, 1), where);
  }
  need_equal(*trace, "matmul", x.back(), y[y.size() - 2], where);
  if (!is_float(a.dtype())) return integer_times(a, b, where);
  return y.size() == 2 ? rows_times(a, b, where) : batch_times(a, b, where);
}

Tensor dot(const Tensor& a, const Tensor& b, Line where) {
  const NamedCall call("dot");
  const std::shared_ptr<Trace> trace = trace_of("dot", std::vector{a, b}, where);
  need_dims("dot", a, 1, b, 1, where);
  need_equal(*trace, "dot", meta_of(a).sizes[0], meta_of(b).sizes[0], where);
  if (is_low(a) && is_low(b) && a.dtype() == b.dtype())
    return cast(dot(widened(a, where), widened(b, where), where), a.dtype(), where);
  return sum(TensorOperand(a, where) * TensorOperand(view(b, meta_of(a).sizes, where), where), {0},
             Keep::Drop, where);
}

Tensor outer(const Tensor& a, const Tensor& b, Line where) {
  const NamedCall call("outer");
  (void)trace_of("outer", std::vector{a, b}, where);
  need_dims("outer", a, 1, b, 1, where);
  return TensorOperand(unsqueeze(a, 1, where), where) *
         TensorOperand(unsqueeze(b, 0, where), where);
}

Tensor mv(const Tensor& a, const Tensor& x, Line where) {
  const NamedCall call("mv");
  (void)trace_of("mv", std::vector{a, x}, where);
  need_dims("mv", a, 2, x, 1, where);
  return matmul(a, x, where);
}

Tensor bmm(const Tensor& a, const Tensor& b, Line where) {
  const NamedCall call("bmm");
  const std::shared_ptr<Trace> trace = trace_of("bmm", std::vector{a, b}, where);
  need_dims("bmm", a, 3, b, 3, where);
  need_equal(*trace, "bmm", meta_of(a).sizes[0], meta_of(b).sizes[0], where);
  return matmul(view(a, {meta_of(b).sizes[0], meta_of(a).sizes[1], meta_of(a).sizes[2]}, where), b,
                where);
}

Tensor segment_matmul(const Tensor& left, const Tensor& right, const Tensor& counts, Line where) {
  const std::shared_ptr<Trace> trace =
      trace_of("segment_matmul", std::vector{left, right, counts}, where);
  const std::vector<Tensor> both = of_one_dtype("segment_matmul", {left, right}, where);
  const Tensor &x = both[0], &w = both[1];
  const std::vector<Expr> rows = meta_of(x).sizes, weights = meta_of(w).sizes,
                          segments = meta_of(counts).sizes;
  if (rows.size() != 2 || weights.size() != 3 || segments.size() != 1)
    refuse(where, "segment_matmul", "takes x [N, K], w [E, K, M] and counts [E]");
  need_equal(*trace, "segment_matmul", rows[1], weights[1], where);
  need_equal(*trace, "segment_matmul", segments[0], weights[0], where);
  return emit(Op::SegmentMatmul,
              {view(x, {rows[0], weights[1]}, where), w,
               view(wide_index("segment_matmul", counts, where), {weights[0]}, where)},
              {}, where);
}

}  // namespace lockstep::worker
