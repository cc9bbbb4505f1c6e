#include <fmt/format.h>

#include <lockstep/worker/tensor/bounded/bounded.h>
#include <lockstep/worker/tensor/language/index_places.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

Tensor first_rows(const Tensor& count, const Expr& rows, const Line& where) {
  const At at{where};
  return at(arange(*count.trace(), count.trace()->integer(rows), where)) < at(count);
}

/// Places of the mask's trues, and their count. `name`: the function that the user called.
Bounded places_of(std::string_view name, const Tensor& mask, const AtMost& bound,
                  const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of(name, std::vector{mask}, {bound.bound}, where);
  const Expr most = trace->env().simplify(bound.bound.expr());
  if (most.constant().value_or(0) < 0)
    refuse(where, name, fmt::format("at_most({}): a bound is not negative", bound.bound.text()));
  trace->env().check(shapes::greater_equal(most, 0), trace->here(where), "a bound is not negative");
  const Tensor all = sum(cast(mask, DType::I64, where), {}, Keep::Drop, where);
  const Tensor count = checked_count(name, all, most, where);
  Node node;
  node.exprs = {most};
  const Tensor at = emit(Op::Nonzero, {mask}, std::move(node), where);
  return {at, count};
}

/// Rows of x [R, ..] at the places.
Bounded rows_at(const Tensor& x, const Bounded& places, const Line& where) {
  Trace& trace = *x.trace();
  const Expr rows = meta_of(places.values).sizes[0];
  const Tensor there = first_rows(places.count, rows, where);
  // If x may have no rows, a row of zeros is put in front.
  const bool some = trace.env().statically_true(shapes::greater(meta_of(x).sizes[0], 0));
  const At at{where};
  const TensorOperand from = some ? at(places.values) : at(at(places.values) + at(1));
  const Tensor taken = index_select(some ? x : pad(x, 0, 1, 0, where),
                                    lockstep::worker::where(there, from, at(0)), where);
  std::vector<Expr> column(meta_of(taken).sizes.size(), Expr(1));
  column[0] = rows;
  const Tensor kept = expanded(view(there, std::move(column), where), meta_of(taken).sizes, where);
  return {emit(Op::Where, {kept, taken, filled(trace, meta_of(taken), 0, where)}, {}, where),
          places.count};
}

}  // namespace

Tensor present(const Bounded& x, Line where) {
  (void)trace_of("present", std::vector{x.values, x.count}, where);
  return first_rows(x.count, meta_of(x.values).sizes.at(0), where);
}

Bounded nonzero(const Tensor& x, const AtMost& bound, Line where) {
  (void)trace_of("nonzero", std::vector{x}, where);
  const At at{where};
  const Tensor mask = x.dtype() == DType::Bool ? x : at(x) != at(0);
  const Bounded places = places_of("nonzero", mask, bound, where);
  const Expr rows = meta_of(places.values).sizes[0];
  // Rows that are not present are at place 0 already; where() makes `rest` depend on the check,
  // too.
  Tensor rest =
      lockstep::worker::where(first_rows(places.count, rows, where), at(places.values), at(0));
  if (x.ndim() == 0) return {filled(*x.trace(), {DType::I64, {rows, 0}}, 0, where), places.count};
  std::vector<Tensor> columns(static_cast<std::size_t>(x.ndim()));
  for (std::size_t d = columns.size(); d-- > 0;) {
    const TensorOperand size = at(x.size(static_cast<std::int64_t>(d)));
    const Tensor column = d == 0 ? rest : at(rest) % size;
    columns[d] = view(column, {rows, Expr(1)}, where);
    if (d > 0) rest = at(rest) / size;
  }
  return {cat(columns, 1, where), places.count};
}

Bounded masked_select(const Tensor& x, const Tensor& mask, const AtMost& bound, Line where) {
  (void)trace_of("masked_select", std::vector{x, mask}, where);
  need_mask("masked_select", mask, where);
  const std::vector<Tensor> both = broadcast_together("masked_select", {x, mask}, where);
  return rows_at(flat_view(both[0], where), places_of("masked_select", both[1], bound, where),
                 where);
}

Bounded select_rows(const Tensor& x, const Tensor& mask, const AtMost& bound, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("select_rows", std::vector{x, mask}, where);
  need_mask("select_rows", mask, where);
  if (mask.ndim() == 0 || mask.ndim() > x.ndim())
    refuse(where, "select_rows",
           fmt::format("takes a mask of leading dims of x; {} has not those of {}",
                       meta_text(meta_of(x)), meta_text(meta_of(mask))));
  for (int d = 0; d < mask.ndim(); ++d)
    trace->env().check(shapes::equal(x.size(d).expr(), mask.size(d).expr()), trace->here(where),
                       "select_rows needs a mask of the sizes of x");
  return rows_at(flattened(x, static_cast<std::size_t>(mask.ndim()), where),
                 places_of("select_rows", mask, bound, where), where);
}

}  // namespace lockstep::worker
