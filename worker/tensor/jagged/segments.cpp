#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/tensor/jagged/padding.h>
#include <lockstep/worker/tensor/jagged/segments.h>
#include <lockstep/worker/tensor/language/index_places.h>
#include <lockstep/worker/tensor/language/order_ops.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

void need_values_of_floats(std::string_view what, const Jagged& x, const Line& where) {
  if (!is_float(x.values.dtype(where)))
    refuse(where, what,
           fmt::format("takes floating-point numbers, not {}; cast first",
                       meta_text(meta_of(x.values))));
}

/// [S, ..] with the dims of the values.
TensorMeta meta_by_segment(const Jagged& x) {
  TensorMeta meta = meta_of(x.values);
  meta.sizes[0] = meta_of(x.lengths).sizes[0];
  return meta;
}

/// The lengths as a column [S, 1, ..] that broadcasts against a result.
Tensor column_of_lengths(const Jagged& x, const Line& where) {
  std::vector<Expr> sizes(static_cast<std::size_t>(x.values.ndim(where)), Expr(1));
  sizes[0] = meta_of(x.lengths).sizes[0];
  return view(cast(x.lengths, x.values.dtype(where), where), std::move(sizes), where);
}

}  // namespace

Tensor segment_sum(const Jagged& x, Line where) {
  const NamedCall call("segment_sum");
  const Tensor segment = segment_of_rows(x, where);
  return index_add(x.lengths.size(0, where), segment, x.values, where);
}

Tensor segment_prod(const Jagged& x, Line where) {
  const NamedCall call("segment_prod");
  const Tensor segment = segment_of_rows(x, where);
  const Tensor one = filled(*segment.trace(), meta_by_segment(x), 1, where);
  return put_rows(one, segment, x.values, Put::Multiply, where);
}

Tensor segment_mean(const Jagged& x, Line where) {
  const NamedCall call("segment_mean");
  const Tensor& values = x.values;
  if (is_low(values))
    return cast(segment_mean(with_values(x, widened(values, where)), where), values.dtype(where),
                where);
  const Tensor total = segment_sum(x, where);
  need_values_of_floats("segment_mean", x, where);
  return TensorOperand(total, where) / TensorOperand(column_of_lengths(x, where), where);
}

Tensor segment_max(const Jagged& x, Line where) {
  const NamedCall call("segment_max");
  const Tensor segment = segment_of_rows(x, where);
  const DType dtype = x.values.dtype(where);
  if (!is_float(dtype) && dtype != DType::I64)
    refuse(where, "segment_max",
           fmt::format("takes floats and i64, not {}; cast first", meta_text(meta_of(x.values))));
  const double lowest = is_float(dtype) ? -std::numeric_limits<double>::infinity() : -0x1p63;
  const Tensor none = filled(*segment.trace(), meta_by_segment(x), lowest, where);
  return put_rows(none, segment, x.values, Put::Max, where);
}

Tensor segment_min(const Jagged& x, Line where) {
  const NamedCall call("segment_min");
  // Ints use the complement, because the lowest has no negative.
  const auto turned = [&](const Tensor& t) {
    return emit(is_float(t.dtype(where)) ? Op::Neg : Op::BitNot, {t}, {}, where);
  };
  (void)segment_of_rows(x, where);
  return turned(segment_max(with_values(x, turned(x.values)), where));
}

Tensor segment_norm(const Jagged& x, Line where) {
  const NamedCall call("segment_norm");
  need_values_of_floats("segment_norm", x, where);
  if (is_low(x.values))
    return narrowed(segment_norm(with_values(x, widened(x.values, where)), where),
                    x.values.dtype(where), InAutocast::StayF32, where);
  const Tensor squares = emit(Op::Mul, {x.values, x.values}, {}, where);
  const TensorOperand total(segment_sum(with_values(x, squares), where), where);
  const Tensor none = total == TensorOperand(0, where);
  const Tensor root = sqrt(lockstep::worker::where(none, TensorOperand(1.0, where), total), where);
  return lockstep::worker::where(none, TensorOperand(0.0, where), TensorOperand(root, where));
}

Jagged segment_softmax(const Jagged& x, Line where) {
  const NamedCall call("segment_softmax");
  need_values_of_floats("segment_softmax", x, where);
  if (is_low(x.values)) {
    const Jagged wide = segment_softmax(with_values(x, widened(x.values, where)), where);
    return with_values(x, narrowed(wide.values, x.values.dtype(where), InAutocast::StayF32, where));
  }
  const Tensor largest = repeat_by_segment(detach(segment_max(x, where), where), x, where);
  const Tensor powers = exp(emit(Op::Sub, {x.values, largest}, {}, where), where);
  const Tensor total = segment_sum(with_values(x, powers), where);
  return with_values(x, emit(Op::Div, {powers, repeat_by_segment(total, x, where)}, {}, where));
}

Jagged segment_cumsum(const Jagged& x, Line where) {
  const NamedCall call("segment_cumsum");
  const Tensor sums = cumsum(to_padded(x, where), 1, Direction::Forward, where);
  return with_values(x, from_padded(sums, x.lengths, x.values.size(0, where), where).values);
}

}  // namespace lockstep::worker
