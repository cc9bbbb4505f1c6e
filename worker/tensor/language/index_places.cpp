#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/index_places.h>

namespace lockstep::worker {

using shapes::Expr;

Tensor wide_index(std::string_view what, const Tensor& index, const Line& where) {
  if (index.dtype() != DType::I64 && index.dtype() != DType::I32)
    refuse(where, what,
           fmt::format("takes i64 or i32 indices, not {}; cast first", meta_text(meta_of(index))));
  return cast(index, DType::I64, where);
}

namespace {

/// `size` as a 0-d tensor.
Tensor size_of(Trace& trace, const Expr& size, const Line& where) {
  if (const auto constant = size.constant())
    return filled(trace, {DType::I64, {}}, static_cast<double>(*constant), where);
  Node node;
  node.op = Op::Scalar;
  node.exprs = {size};
  return trace.add_node(std::move(node), where);
}

}  // namespace

Tensor checked_index(std::string_view what, const Tensor& index, const Expr& limit, bool from_end,
                     const Line& where) {
  Node node;
  node.exprs = {limit};
  node.ints = {from_end ? 1 : 0};
  node.text = what;
  return emit(Op::CheckedIndex, {index}, std::move(node), where);
}

Tensor checked_count(std::string_view what, const Tensor& count, const Expr& most,
                     const Line& where) {
  Node node;
  node.exprs = {most + Expr(1)};
  node.ints = {2};
  node.text = what;
  return emit(Op::CheckedIndex, {count}, std::move(node), where);
}

Tensor checked_lengths(std::string_view what, const Tensor& lengths, const Expr& rows,
                       const Line& where) {
  Node node;
  node.exprs = {rows + Expr(1)};
  node.ints = {3};
  node.text = what;
  return emit(Op::CheckedIndex, {lengths}, std::move(node), where);
}

Tensor checked_steps(std::string_view what, const Tensor& steps, const Line& where) {
  Node node;
  node.exprs = {Expr(std::numeric_limits<std::int64_t>::max())};
  node.ints = {4};
  node.text = what;
  return emit(Op::CheckedIndex, {steps}, std::move(node), where);
}

Tensor wrapped_index(std::string_view what, const Tensor& index, const Expr& limit,
                     const Line& where) {
  const std::vector<Expr> sizes = meta_of(index).sizes;
  const Tensor zero = filled(*index.trace(), meta_of(index), 0, where);
  const Tensor from_end = emit(
      Op::Add, {index, expanded(size_of(*index.trace(), limit, where), sizes, where)}, {}, where);
  const Tensor wrapped =
      emit(Op::Where, {emit(Op::Lt, {index, zero}, {}, where), from_end, index}, {}, where);
  return checked_index(what, wrapped, limit, true, where);
}

void need_no_larger(std::string_view what, const Expr& size, const Expr& bound, std::string_view of,
                    Trace& trace, const Line& where) {
  const Expr rest = bound - size;
  if (rest.constant().value_or(0) < 0)
    refuse(where, what,
           fmt::format("the index is larger than {} ({} and {})", of, size.text(), bound.text()));
  trace.env().check(shapes::greater_equal(rest, 0), trace.here(where),
                    fmt::format("{} needs an index no larger than {}", what, of));
}

Tensor shortened(std::string_view what, const Tensor& x, const std::vector<Expr>& sizes,
                 std::int64_t dim, std::string_view of, const Line& where) {
  Tensor out = x;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    Node node;
    node.meta = meta_of(out);
    Expr& size = node.meta.sizes[d];
    if (static_cast<std::int64_t>(d) == dim || size == sizes[d]) continue;
    need_no_larger(what, sizes[d], size, of, *x.trace(), where);
    size = sizes[d];
    node.ints = {static_cast<std::int64_t>(d)};
    node.exprs = {0};
    out = emit(Op::Slice, {out}, std::move(node), where);
  }
  return out;
}

Tensor scaled(const Tensor& x, const Expr& size, const Line& where) {
  if (size == Expr(1)) return x;
  const Tensor factor = size_of(*x.trace(), size, where);
  return emit(Op::Mul, {x, expanded(factor, meta_of(x).sizes, where)}, {}, where);
}

Tensor places_along(const std::vector<Expr>& sizes, std::int64_t dim, const Tensor& index,
                    const Line& where) {
  Tensor place;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    Node node;
    node.op = Op::Iota;
    node.ints = {static_cast<std::int64_t>(d)};
    node.meta = meta_of(index);
    const Tensor along = static_cast<std::int64_t>(d) == dim
                             ? index
                             : index.trace()->add_node(std::move(node), where);
    place = d == 0 ? along : emit(Op::Add, {scaled(place, sizes[d], where), along}, {}, where);
  }
  return place;
}

Tensor in_order(const Tensor& x, Dims order, const Line& where) {
  if (std::is_sorted(order.begin(), order.end())) return x;
  Node node;
  node.ints = std::move(order);
  return emit(Op::Permute, {x}, std::move(node), where);
}

Tensor to_front(const Tensor& x, std::int64_t dim, const Line& where) {
  Dims order{dim};
  for (std::int64_t d = 0; d < x.ndim(); ++d)
    if (d != dim) order.push_back(d);
  return in_order(x, std::move(order), where);
}
Tensor from_front(const Tensor& x, std::int64_t dim, const Line& where) {
  Dims order;
  for (std::int64_t d = 1; d < x.ndim(); ++d) order.push_back(d);
  order.insert(order.begin() + dim, 0);
  return in_order(x, std::move(order), where);
}

Tensor value_of(std::string_view what, const TensorOperand& value, Trace& trace, DType dtype,
                const Line& where) {
  if (!is_float(dtype) && (value.fraction || value.weak))
    refuse(where, what,
           fmt::format("a floating-point number meets a tensor of {}; cast() the tensor",
                       dtype_name(dtype)));
  if (value.plain && !value.fraction && std::abs(value.number) >= 0x1p53)
    refuse(where, what, "an integer this large is not exact here; write scalar()");
  if (value.plain) return filled(trace, {dtype, {}}, value.number, where);
  if (value.count) return cast(scalar(trace, *value.count, where), dtype, where);
  if (value.weak) return cast(value.tensor, dtype, where);
  (void)trace.operand(value.tensor, where);
  if (trace.autocast() && is_float(dtype) && is_float(value.tensor.dtype()))
    return cast(value.tensor, dtype, where);
  if (value.tensor.dtype() != dtype)
    refuse(where, what,
           fmt::format("dtypes differ: {} and {}; cast() one of them", dtype_name(dtype),
                       dtype_name(value.tensor.dtype())));
  return value.tensor;
}

Tensor put_rows(const Tensor& x, const Tensor& places, const Tensor& rows, Put mode,
                const Line& where) {
  Node node;
  node.ints = {static_cast<std::int64_t>(mode)};
  return emit(Op::IndexPut, {x, places, rows}, std::move(node), where);
}

Tensor add_rows(const Tensor& x, const Tensor& places, const Tensor& rows, const Line& where) {
  if (is_low(x) && x.dtype() == rows.dtype())
    return cast(add_rows(widened(x, where), places, widened(rows, where), where), x.dtype(), where);
  Node node;
  node.exprs = {meta_of(x).sizes[0]};
  const Tensor added = emit(Op::IndexAdd, {places, rows}, std::move(node), where);
  return emit(Op::Add, {x, added}, {}, where);
}

Tensor true_positions(const Tensor& mask, std::string_view what, const Line& where,
                      std::int64_t least) {
  const std::shared_ptr<Trace> trace = trace_of(what, std::vector{mask}, where);
  const Expr elements = trace->env().simplify(shapes::product(meta_of(mask).sizes));
  if (elements == Expr(0)) return zeros(*trace, {0}, DType::I64, where);
  const Tensor count = sum(cast(mask, DType::I64, where), {}, Keep::Drop, where);
  const SymInt u =
      trace->read_back(Op::Item, count, where, fmt::format("{}.size(0)", what), least).at(0);
  Node node;
  node.exprs = {u.expr()};
  return emit(Op::Nonzero, {mask}, std::move(node), where);
}

void need_mask(std::string_view what, const Tensor& mask, const Line& where) {
  if (mask.dtype() != DType::Bool)
    refuse(where, what,
           fmt::format("takes a mask of bools, not {}; compare first, or take rows by number with "
                       "an i64 tensor",
                       meta_text(meta_of(mask))));
}

Tensor flattened(const Tensor& x, std::size_t leading, const Line& where) {
  std::vector<Expr> sizes = meta_of(x).sizes;
  const auto behind = sizes.begin() + static_cast<std::ptrdiff_t>(leading);
  const Expr rows = shapes::product({sizes.begin(), behind});
  sizes.erase(sizes.begin(), behind);
  sizes.insert(sizes.begin(), rows);
  return view(x, std::move(sizes), where);
}
Tensor flat_view(const Tensor& x, const Line& where) {
  return flattened(x, static_cast<std::size_t>(x.ndim()), where);
}

}  // namespace lockstep::worker
