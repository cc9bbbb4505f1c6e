// Scans, order and counts. The ops work along the last dim: another dim is swapped with it before
// and after.
#include <fmt/format.h>

#include <lockstep/worker/tensor/language/index_ops.h>
#include <lockstep/worker/tensor/language/op_builder.h>
#include <lockstep/worker/tensor/language/order_ops.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// `dim` counted from the front. A 0-d tensor counts as a tensor of one element.
std::int64_t dim_of(std::string_view what, const Tensor& x, std::int64_t dim, const Line& where) {
  (void)trace_of(what, std::vector{x}, where);
  if (x.ndim() == 0 && (dim == 0 || dim == -1)) return 0;
  return checked_dim(what, x, dim, where);
}

/// The result of `op`, which works along the last dim, on `x` along `dim`. It has the sizes of x.
template <class RowOp>
Tensor along(std::string_view what, const Tensor& x, std::int64_t dim, const Line& where,
             RowOp op) {
  const std::int64_t d = dim_of(what, x, dim, where), last = x.ndim() - 1;
  if (x.ndim() == 0) return view(op(view(x, {Expr(1)}, where)), {}, where);
  if (d == last) return op(x);
  return transpose(op(transpose(x, d, last, where)), d, last, where);
}

Tensor row_scan(Op op, const Tensor& x, std::int64_t dim, Direction direction, const Line& where) {
  return along(op_row(op).name, x, dim, where, [&](const Tensor& rows) {
    if (direction == Direction::Forward) return emit(op, {rows}, {}, where);
    return flip(emit(op, {flip(rows, {-1}, where)}, {}, where), {-1}, where);
  });
}

/// Indices into a flipped dim, as indices into the dim.
Tensor turned_indices(const Tensor& indices, const Line& where) {
  return TensorOperand(indices.size(-1) - 1, where) -
         TensorOperand(flip(indices, {-1}, where), where);
}

Taken taken(const Tensor& x, std::int64_t dim, const Tensor& indices, const Line& where) {
  return {gather(x, dim, indices, where), indices};
}

/// Values whose order is reversed: negated floats, and inverted ints, whose lowest has no negative.
Tensor reversed_order(const Tensor& x, const Line& where) {
  return is_float(x.dtype()) ? neg(x, where) : bitwise_not(x, where);
}

/// Places of the largest of `keys` so far, and the elements of `x` there.
Taken extremum_scan(std::string_view what, const Tensor& x, const Tensor& keys, std::int64_t dim,
                    Direction direction, const Line& where) {
  if (!is_number(x.dtype())) refuse(where, what, "takes numbers, not bools; cast first");
  const Tensor indices = along(what, keys, dim, where, [&](const Tensor& rows) {
    if (direction == Direction::Forward) return emit(Op::CumArgmax, {rows}, {}, where);
    return turned_indices(emit(Op::CumArgmax, {flip(rows, {-1}, where)}, {}, where), where);
  });
  return taken(x, dim, indices, where);
}

/// The index of a 0-d tensor's only element.
Tensor zero_index(const Tensor& x, const Line& where) {
  return filled(*x.trace(), {DType::I64, {}}, 0, where);
}

/// `x` without `dim`, whose size is 1.
Tensor without_dim(const Tensor& x, std::int64_t dim, const Line& where) {
  std::vector<Expr> sizes = meta_of(x).sizes;
  sizes.erase(sizes.begin() + dim);
  return view(x, std::move(sizes), where);
}

/// Requires that the dim has at least `count` elements.
void need_elements(std::string_view what, const Tensor& x, std::int64_t dim, const SymInt& count,
                   const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of(what, std::vector{x}, {count}, where);
  const Expr left = meta_of(x).sizes[static_cast<std::size_t>(dim)] - count.expr();
  if (left.constant().value_or(0) < 0)
    refuse(where, what,
           fmt::format("needs at least {} along dim {}, but the tensor is {}", count.text(), dim,
                       meta_text(meta_of(x))));
  trace->env().check(shapes::greater_equal(left, 0), trace->here(where),
                     fmt::format("{} needs enough elements along its dim", what));
}

/// The elements at `index`, which has size 1 along the dim.
Taken single_place(const Tensor& x, std::int64_t dim, const Tensor& index, Keep keep,
                   const Line& where) {
  const Taken kept = taken(x, dim, index, where);
  if (keep == Keep::Keep) return kept;
  return {without_dim(kept.values, dim, where), without_dim(kept.indices, dim, where)};
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t dim, Direction direction, Line where) {
  return row_scan(Op::Cumsum, x, dim, direction, where);
}
Tensor cumsum(const Tensor& x, Line where) {
  (void)trace_of("cumsum", std::vector{x}, where);
  if (x.ndim() != 1)
    refuse(where, "cumsum", fmt::format("which dim of {}? name it", meta_text(meta_of(x))));
  return cumsum(x, 0, Direction::Forward, where);
}
Tensor cumprod(const Tensor& x, std::int64_t dim, Direction direction, Line where) {
  const NamedCall call("cumprod");
  return row_scan(Op::Cumprod, x, dim, direction, where);
}
Tensor logcumsumexp(const Tensor& x, std::int64_t dim, Direction direction, Line where) {
  return row_scan(Op::LogCumsumExp, x, dim, direction, where);
}
Taken cummax(const Tensor& x, std::int64_t dim, Direction direction, Line where) {
  return extremum_scan("cummax", x, x, dim, direction, where);
}
Taken cummin(const Tensor& x, std::int64_t dim, Direction direction, Line where) {
  (void)trace_of("cummin", std::vector{x}, where);
  return extremum_scan("cummin", x, reversed_order(x, where), dim, direction, where);
}

/// Made of slices that lie in x whatever its length, so there is nothing to check.
Tensor diff(const Tensor& x, std::int64_t dim, Line where) {
  const NamedCall call("diff");
  const std::int64_t d = checked_dim("diff", x, dim, where);
  const Expr n = meta_of(x).sizes[static_cast<std::size_t>(d)];
  Node part;
  part.ints = {d};
  part.meta = meta_of(x);
  part.meta.sizes[static_cast<std::size_t>(d)] = shapes::max(n - 1, Expr(0));
  Node rest = part;
  part.exprs = {0};
  rest.exprs = {shapes::min(n, Expr(1))};
  return TensorOperand(emit(Op::Slice, {x}, std::move(rest), where), where) -
         TensorOperand(emit(Op::Slice, {x}, std::move(part), where), where);
}

Tensor argsort(const Tensor& x, std::int64_t dim, bool descending, Line where) {
  return along("argsort", x, dim, where, [&](const Tensor& rows) {
    if (!descending) return emit(Op::Argsort, {rows}, {}, where);
    // A stable sort of the flipped row, flipped back, descends and keeps the order of equal
    // elements.
    const Tensor turned = emit(Op::Argsort, {flip(rows, {-1}, where)}, {}, where);
    return turned_indices(turned, where);
  });
}
Tensor argsort(const Tensor& x, Line where) { return argsort(x, -1, false, where); }

Taken sort(const Tensor& x, std::int64_t dim, bool descending, Line where) {
  const NamedCall call("sort");
  return taken(x, dim, argsort(x, dim, descending, where), where);
}

Taken topk(const Tensor& x, const SymInt& k, std::int64_t dim, bool largest, Line where) {
  const NamedCall call("topk");
  const std::int64_t d = dim_of("topk", x, dim, where);
  if (x.ndim() == 0 && k.expr() == Expr(1)) return {x, zero_index(x, where)};
  if (x.ndim() == 0) refuse(where, "topk", fmt::format("a number has no {} elements", k.text()));
  if (k.expr().constant().value_or(0) < 0)
    refuse(where, "topk", fmt::format("there are no {} elements", k.text()));
  need_elements("topk", x, d, k, where);
  return taken(x, d, slice(argsort(x, d, largest, where), d, 0, k, where), where);
}

Taken kthvalue(const Tensor& x, const SymInt& k, std::int64_t dim, Keep keep, Line where) {
  const NamedCall call("kthvalue");
  const std::int64_t d = dim_of("kthvalue", x, dim, where);
  if (x.ndim() == 0 && k.expr() == Expr(1)) return {x, zero_index(x, where)};
  if (x.ndim() == 0)
    refuse(where, "kthvalue", fmt::format("a number has no {} elements", k.text()));
  if (k.expr().constant().value_or(1) < 1)
    refuse(where, "kthvalue", fmt::format("k is {}, and 1 means the smallest", k.text()));
  need_elements("kthvalue", x, d, k, where);
  x.trace()->env().check(shapes::greater_equal(k.expr(), 1), x.trace()->here(where),
                         "kthvalue counts k from 1, the smallest");
  const Tensor index = slice(argsort(x, d, false, where), d, k - 1, 1, where);
  return single_place(x, d, index, keep, where);
}

Taken median(const Tensor& x, std::int64_t dim, Keep keep, Line where) {
  const NamedCall call("median");
  const std::int64_t d = dim_of("median", x, dim, where);
  if (x.ndim() == 0) return {x, zero_index(x, where)};
  need_elements("median", x, d, 1, where);
  const Tensor order = argsort(x, d, false, where);
  const SymInt n = x.size(d), middle = (n - 1) / 2;
  if (!is_float(x.dtype()))
    return single_place(x, d, slice(order, d, middle, 1, where), keep, where);
  const TensorOperand nans(sum(cast(isnan(x, where), DType::I64, where), {d}, Keep::Keep, where),
                           where);
  const Tensor place = lockstep::worker::where(
      nans > TensorOperand(0, where), TensorOperand(n, where) - nans, TensorOperand(middle, where));
  return single_place(x, d, gather(order, d, place, where), keep, where);
}

Tensor searchsorted(const Tensor& sequence, const Tensor& given, bool right, Line where) {
  const std::shared_ptr<Trace> trace =
      trace_of("searchsorted", std::vector{sequence, given}, where);
  const std::vector<Tensor> both = of_one_dtype("searchsorted", {sequence, given}, where);
  const Tensor &sorted = both[0], &values = both[1];
  std::vector<Expr> sizes = meta_of(sorted).sizes;
  const std::vector<Expr> result = meta_of(values).sizes;
  if (sizes.empty() || (sizes.size() != 1 && sizes.size() != result.size()))
    refuse(where, "searchsorted",
           fmt::format("takes a 1-D sequence, or one per row of {}, not {}",
                       meta_text(meta_of(values)), meta_text(meta_of(sorted))));
  for (std::size_t d = 0; d + 1 < sizes.size(); ++d)
    trace->env().check(shapes::equal(sizes[d], result[d]), trace->here(where),
                       "searchsorted needs one sorted sequence per row of values");
  sizes.back() = sizes.size() == 1 ? shapes::product(result) : result.back();
  Node node;
  node.ints = {right ? 1 : 0};
  const Tensor found = emit(Op::SearchSorted, {sorted, view(values, std::move(sizes), where)},
                            std::move(node), where);
  return view(found, result, where);
}

Tensor bucketize(const Tensor& values, const Tensor& boundaries, bool right, Line where) {
  const NamedCall call("bucketize");
  if (boundaries.ndim(where) != 1)
    refuse(where, "bucketize",
           fmt::format("takes 1-D boundaries, not {}", meta_text(meta_of(boundaries))));
  return searchsorted(boundaries, values, right, where);
}

Tensor bincount(const Tensor& x, const std::optional<SymInt>& length,
                const std::optional<Tensor>& weights, Line where) {
  const NamedCall call("bincount");
  const std::shared_ptr<Trace> trace = trace_of("bincount", std::vector{x}, where);
  if (x.ndim() != 1 || is_float(x.dtype()) || x.dtype() == DType::Bool)
    refuse(where, "bincount", fmt::format("takes 1-D ints, not {}", meta_text(meta_of(x))));
  if (weights) {
    if (weights->ndim(where) != 1)
      refuse(where, "bincount",
             fmt::format("takes one weight per element, not {}", meta_text(meta_of(*weights))));
    trace->env().check(shapes::equal(meta_of(x).sizes[0], meta_of(*weights).sizes[0]),
                       trace->here(where), "bincount needs one weight per element");
  }
  const Tensor index = cast(x, DType::I64, where);
  SymInt rows = length.value_or(0);
  if (!length) {
    // One more than the largest int would overflow.
    const Tensor last = scalar(*trace, SymInt(std::numeric_limits<std::int64_t>::max() - 1), where);
    const TensorOperand most(minimum(TensorOperand(amax(index, {}, Keep::Drop, where), where),
                                     TensorOperand(last, where)),
                             where);
    const Tensor count =
        maximum(TensorOperand(most + TensorOperand(1, where), where), TensorOperand(0, where));
    rows = trace->read_back(Op::Item, count, where, "bincount().size(0)", 0).at(0);
  }
  Tensor each = filled(*trace, meta_of(index), 1, where);
  if (weights)
    each = is_float(weights->dtype(where)) ? *weights : cast(*weights, DType::F64, where);
  return index_add(rows, index, each, where);
}

}  // namespace lockstep::worker
