// Matrix products, plain and by segments.
#include <fmt/format.h>

#include <lockstep/worker/trace/op_builder.h>

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

void need_dtype(std::string_view what, const Tensor& x, const Tensor& y, const Line& where) {
  if (x.dtype() != y.dtype())
    refuse(where, what,
           fmt::format("dtypes differ: {} and {}; cast() one of them", dtype_name(x.dtype()),
                       dtype_name(y.dtype())));
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("matmul", std::vector{a, b}, where);
  need_dtype("matmul", a, b, where);
  const std::vector<Expr> x = meta_of(a).sizes, y = meta_of(b).sizes;
  const bool batched = x.size() == 3 && y.size() == 3;
  if (!batched && (y.size() != 2 || (x.size() != 2 && x.size() != 3)))
    refuse(where, "matmul",
           fmt::format("takes 2-D or 3-D tensors, not {} and {}", meta_text(meta_of(a)),
                       meta_text(meta_of(b))));
  const Expr& inner = y[y.size() - 2];
  need_equal(*trace, "matmul", x.back(), inner, where);
  if (batched) {
    need_equal(*trace, "matmul", x[0], y[0], where);
    return emit(Op::Matmul, {view(a, {y[0], x[1], inner}, where), b}, {}, where);
  }
  if (x.size() == 2) return emit(Op::Matmul, {view(a, {x[0], inner}, where), b}, {}, where);
  const Tensor rows = view(a, {trace->env().simplify(x[0] * x[1]), inner}, where);
  return view(emit(Op::Matmul, {rows, b}, {}, where), {x[0], x[1], y[1]}, where);
}

Tensor segment_matmul(const Tensor& x, const Tensor& w, const Tensor& counts, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("segment_matmul", std::vector{x, w, counts}, where);
  need_dtype("segment_matmul", x, w, where);
  const std::vector<Expr> rows = meta_of(x).sizes, weights = meta_of(w).sizes,
                          segments = meta_of(counts).sizes;
  if (rows.size() != 2 || weights.size() != 3 || segments.size() != 1)
    refuse(where, "segment_matmul", "takes x [N, K], w [E, K, M] and counts [E]");
  need_equal(*trace, "segment_matmul", rows[1], weights[1], where);
  need_equal(*trace, "segment_matmul", segments[0], weights[0], where);
  return emit(Op::SegmentMatmul,
              {view(x, {rows[0], weights[1]}, where), w, view(counts, {weights[0]}, where)}, {},
              where);
}

}  // namespace lockstep::worker
