#include <fmt/format.h>

#include <lockstep/worker/tensor/language/index_places.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// x with elements repeated; the repeats add up to `total`.
Tensor repeated(const Tensor& x, const Tensor& repeats, const SymInt& total, std::int64_t dim,
                const Line& where) {
  const Tensor rows = segment_ids(repeats, total, where);
  return from_front(index_select(to_front(x, dim, where), rows, where), dim, where);
}

/// For sorted `keys`, [n] or [n, m], one row of `sorted` for each run of equal keys. `order`: place
/// of each row before sorting.
Unique runs_of(const Tensor& keys, const Tensor& sorted, const Tensor& order, const Line& where) {
  const std::shared_ptr<Trace> trace = keys.trace();
  const SymInt n = keys.size(0);
  const Tensor place = arange(*trace, n, where);
  const Tensor none = filled(*trace, meta_of(place), 0, where),
               one = filled(*trace, meta_of(place), 1, where);
  // The element before; the first element is compared with itself.
  const Tensor before = index_select(
      keys, emit(Op::Maximum, {emit(Op::Sub, {place, one}, {}, where), none}, {}, where), where);
  const Tensor at_first = emit(Op::Eq, {place, none}, {}, where);
  Tensor differs = emit(Op::Ne, {keys, before}, {}, where);
  if (keys.ndim() > 1) differs = any(differs, {1}, Keep::Drop, where);
  const Tensor first = emit(Op::Or, {at_first, differs}, {}, where);
  const bool some = trace->env().statically_true(shapes::greater(n.expr(), 0));
  const Tensor starts = true_positions(first, "unique()", where, some ? 1 : 0);
  const Tensor segment =
      emit(Op::Sub, {cumsum(cast(first, DType::I64, where), where), one}, {}, where);
  const Tensor inverse = index_add(n, order, segment, where);
  return {index_select(sorted, starts, where), inverse,
          index_add(starts.size(0), segment, one, where)};
}

}  // namespace

Tensor nonzero(const Tensor& x, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("nonzero", std::vector{x}, where);
  const Tensor mask =
      x.dtype() == DType::Bool ? x : TensorOperand(x, where) != TensorOperand(0, where);
  Tensor rest = true_positions(mask, "nonzero()", where);
  const Expr count = meta_of(rest).sizes[0];
  if (x.ndim() == 0) return filled(*trace, {DType::I64, {count, 0}}, 0, where);
  std::vector<Tensor> columns(static_cast<std::size_t>(x.ndim()));
  for (std::size_t d = columns.size(); d-- > 0;) {
    const TensorOperand size(scalar(*trace, x.size(static_cast<std::int64_t>(d)), where), where);
    const Tensor column = d == 0 ? rest : TensorOperand(rest, where) % size;
    columns[d] = view(column, {count, Expr(1)}, where);
    if (d > 0) rest = TensorOperand(rest, where) / size;
  }
  return cat(columns, 1, where);
}

Tensor masked_select(const Tensor& x, const Tensor& mask, Line where) {
  (void)trace_of("masked_select", std::vector{x, mask}, where);
  need_mask("masked_select", mask, where);
  const std::vector<Tensor> both = broadcast_together("masked_select", {x, mask}, where);
  return index_select(flat_view(both[0], where), true_positions(both[1], "masked_select()", where),
                      where);
}

Tensor Tensor::operator[](const TensorOperand& at) const {
  const Line& where = at.where;
  const Tensor& mask = at.tensor;
  if (at.plain)
    refuse(where, "x[mask]",
           "takes a mask of bools, not a number; write slice() or index_select()");
  const std::shared_ptr<Trace> trace = trace_of("x[mask]", std::vector{*this, mask}, where);
  if (mask.dtype() == DType::I64 || mask.dtype() == DType::I32) return index(*this, {mask}, where);
  need_mask("x[mask]", mask, where);
  if (mask.ndim() > ndim())
    refuse(where, "x[mask]",
           fmt::format("{} has fewer dims than the mask {}", meta_text(meta_of(*this)),
                       meta_text(meta_of(mask))));
  for (int d = 0; d < mask.ndim(); ++d)
    trace->env().check(shapes::equal(size(d).expr(), mask.size(d).expr()), trace->here(where),
                       "x[mask] needs a mask of the sizes of x");
  const auto leading = static_cast<std::size_t>(mask.ndim());
  return index_select(flattened(*this, leading, where), true_positions(mask, "x[mask]", where),
                      where);
}

Unique unique(const Tensor& x, Line where) {
  (void)trace_of("unique", std::vector{x}, where);
  if (x.dtype() == DType::Bool) {
    Unique numbers = unique(cast(x, DType::U8, where), where);
    numbers.values = cast(numbers.values, DType::Bool, where);
    return numbers;
  }
  const Tensor flat = flat_view(x, where);
  const Tensor order = argsort(flat, where), sorted = index_select(flat, order, where);
  Unique all = runs_of(sorted, sorted, order, where);
  all.inverse = view(all.inverse, meta_of(x).sizes, where);
  return all;
}

Unique unique(const Tensor& x, std::int64_t dim, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("unique", std::vector{x}, where);
  if (x.dtype() == DType::Bool) {
    Unique numbers = unique(cast(x, DType::U8, where), dim, where);
    numbers.values = cast(numbers.values, DType::Bool, where);
    return numbers;
  }
  const std::int64_t along = checked_dim("unique", x, dim, where);
  const Tensor slices = to_front(x, along, where);
  const std::vector<Expr> sizes = meta_of(slices).sizes;
  Expr width(1);
  for (std::size_t d = 1; d < sizes.size(); ++d) width = width * sizes[d];
  const std::optional<std::int64_t> columns = trace->env().simplify(width).constant();
  if (!columns) refuse(where, "unique", "the sizes of all dims but that one have to be numbers");
  const Tensor rows = view(slices, {sizes[0], Expr(*columns)}, where);
  Tensor order = arange(*trace, rows.size(0), where);
  for (std::int64_t c = *columns - 1; c >= 0; --c) {  // stable, so the first column decides
    const Tensor column = squeeze(slice(rows, 1, c, 1, where), 1, where);
    order = index_select(order, argsort(index_select(column, order, where), where), where);
  }
  Unique all =
      runs_of(index_select(rows, order, where), index_select(slices, order, where), order, where);
  all.values = from_front(all.values, along, where);
  return all;
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::int64_t dim, Line where) {
  const NamedCall call("repeat_interleave");
  const std::shared_ptr<Trace> trace =
      trace_of("repeat_interleave", std::vector{x, repeats}, where);
  const std::int64_t d = checked_dim("repeat_interleave", x, dim, where);
  const Tensor each = expand(wide_index("repeat_interleave", repeats, where), {x.size(d)}, where);
  const Tensor sum_of = sum(each, {}, Keep::Drop, where);
  const SymInt total =
      trace->read_back(Op::Item, sum_of, where, fmt::format("repeat_interleave().size({})", d))
          .at(0);
  trace->env().check(shapes::greater_equal(total.expr(), 0), trace->here(where),
                     "repeats of repeat_interleave are not negative");
  return repeated(x, each, total, d, where);
}

Tensor repeat_interleave(const Tensor& x, const Sizes& repeats, std::int64_t dim, Line where) {
  const NamedCall call("repeat_interleave");
  const std::shared_ptr<Trace> trace =
      trace_of("repeat_interleave", std::vector{x}, repeats, where);
  const std::int64_t d = checked_dim("repeat_interleave", x, dim, where);
  const auto length = static_cast<std::int64_t>(repeats.size());
  if ((x.size(d).expr() - Expr(length)).constant().value_or(0) != 0)
    refuse(where, "repeat_interleave",
           fmt::format("{} repeats for dim {} of {}", length, d, meta_text(meta_of(x))));
  trace->env().check(shapes::equal(x.size(d).expr(), length), trace->here(where),
                     "repeat_interleave needs one repeat per element");
  std::vector<Tensor> counts;
  if (repeats.empty()) counts.push_back(zeros(*trace, {0}, DType::I64, where));
  for (const SymInt& repeat : repeats) {
    if (repeat.expr().constant().value_or(0) < 0)
      refuse(where, "repeat_interleave", fmt::format("a repeat is negative ({})", repeat.text()));
    trace->env().check(shapes::greater_equal(repeat.expr(), 0), trace->here(where),
                       "repeats of repeat_interleave are not negative");
    counts.push_back(view(scalar(*trace, repeat, where), {Expr(1)}, where));
  }
  const SymInt total = trace->integer(shapes::sum(exprs_of(repeats)));
  return repeated(x, cat(counts, 0, where), total, d, where);
}

Tensor repeat_interleave(const Tensor& x, const SymInt& repeats, std::int64_t dim, Line where) {
  const NamedCall call("repeat_interleave");
  const std::shared_ptr<Trace> trace =
      trace_of("repeat_interleave", std::vector{x}, {repeats}, where);
  const auto d = static_cast<std::size_t>(checked_dim("repeat_interleave", x, dim, where));
  if (repeats.expr().constant().value_or(0) < 0)
    refuse(where, "repeat_interleave", fmt::format("repeats are negative ({})", repeats.text()));
  trace->env().check(shapes::greater_equal(repeats.expr(), 0), trace->here(where),
                     "repeats of repeat_interleave are not negative");
  std::vector<Expr> sizes = meta_of(x).sizes;
  const Expr size = sizes[d], many = trace->env().simplify(repeats.expr());
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(d) + 1, Expr(1));
  const Tensor apart = view(x, sizes, where);
  sizes[d + 1] = many;
  const Tensor spread = expanded(apart, sizes, where);
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d));
  sizes[d] = size * many;
  return view(spread, std::move(sizes), where);
}

}  // namespace lockstep::worker
