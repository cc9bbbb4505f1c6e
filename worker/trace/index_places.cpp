#include <fmt/format.h>

#include <lockstep/worker/trace/index_places.h>

namespace lockstep::worker {

using shapes::Expr;

void need_index(std::string_view what, const Tensor& index, const Line& where) {
  if (index.dtype() != DType::I64)
    refuse(where, what,
           fmt::format("takes i64 indices, not {}; cast first", meta_text(meta_of(index))));
}

namespace {

/// As a 0-d tensor.
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

Tensor shortened(std::string_view what, const Tensor& x, const std::vector<Expr>& sizes,
                 std::int64_t dim, const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of(what, std::vector{x}, where);
  Tensor out = x;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    TensorMeta meta = meta_of(out);
    if (static_cast<std::int64_t>(d) == dim || meta.sizes[d] == sizes[d]) continue;
    const Expr rest = meta.sizes[d] - sizes[d];
    if (rest.constant().value_or(0) < 0)
      refuse(where, what,
             fmt::format("dim {} of {} is smaller than the {} of the index", d,
                         meta_text(meta_of(x)), sizes[d].text()));
    trace->env().check(shapes::greater_equal(rest, 0), trace->here(where),
                       fmt::format("{} needs an index no larger than x but along its dim", what));
    Node node;
    node.meta = std::move(meta);
    node.meta.sizes[d] = sizes[d];
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

Tensor flat_view(const Tensor& x, const Line& where) {
  return view(x, {shapes::product(meta_of(x).sizes)}, where);
}

}  // namespace lockstep::worker
