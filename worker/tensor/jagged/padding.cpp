#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/jagged/lengths.h>
#include <lockstep/worker/tensor/jagged/padding.h>
#include <lockstep/worker/tensor/language/index_places.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

constexpr std::string_view kFromPadded = "from_padded";

void need_padded(const Tensor& dense, const Line& where) {
  if (dense.ndim(where) < 2)
    refuse(where, kFromPadded,
           fmt::format("takes a tensor [segments, length, ..], not {}", meta_text(meta_of(dense))));
}

/// Place of each row in a dense tensor [S * size, ..].
Tensor places_in_dense(std::string_view what, const Jagged& x, const SymInt& size,
                       const Line& where) {
  const Tensor place = checked_index(what, place_of_rows(x, where), size.expr(), false, where);
  return emit(Op::Add, {scaled(segment_of_rows(x, where), size.expr(), where), place}, {}, where);
}

/// Dims [S, size, ..] as [S * size, ..].
Tensor joined_rows(const Tensor& dense, const Line& where) { return flattened(dense, 2, where); }

}  // namespace

SymInt longest(const Tensor& lengths, Line where) {
  const Tensor most =
      amax(wide_lengths("longest", lengths, lengths.ndim(where), where), {}, Keep::Drop, where);
  return item(maximum(TensorOperand(most, where), TensorOperand(0, where)), Values::NonNegative,
              where);
}

SymInt longest(const Jagged& x, Line where) {
  (void)trace_of("longest", std::vector{x.values, x.lengths}, where);
  const Tensor lengths = wide_lengths("longest", x.lengths, x.lengths.ndim(where), where);
  // Lengths above the number of rows fail when they are added up.
  const Tensor most = amax(lengths, {}, Keep::Drop, where);
  const Tensor bounded = minimum(TensorOperand(most, where), {x.values.size(0, where), where});
  return item(maximum(TensorOperand(bounded, where), TensorOperand(0, where)), Values::NonNegative,
              where);
}

Tensor to_padded(const Jagged& x, const SymInt& at_most, double fill, Line where) {
  const NamedCall call("to_padded");
  const std::shared_ptr<Trace> trace =
      trace_of("to_padded", std::vector{x.values, x.lengths}, {at_most}, where);
  check(at_most >= 0, "to_padded needs a length of at least 0", where);
  const Tensor places = places_in_dense("to_padded", x, at_most, where);
  std::vector<Expr> sizes = meta_of(x.values).sizes;
  const Expr segments = meta_of(x.lengths).sizes[0];
  const SymInt all = trace->integer(segments * at_most.expr());
  // Each place is taken once, so a sum with zeros is the row itself.
  const bool adds = is_number(x.values.dtype(where)) && !is_half(x.values.dtype(where));
  sizes[0] = all.expr();
  Tensor dense;
  if (adds && fill == 0)
    dense = index_add(all, places, x.values, where);
  else
    dense = put_rows(filled(*trace, {x.values.dtype(where), sizes}, fill, where), places, x.values,
                     Put::Set, where);
  sizes[0] = at_most.expr();
  sizes.insert(sizes.begin(), segments);
  return view(dense, std::move(sizes), where);
}

Tensor to_padded(const Jagged& x, Line where) {
  const NamedCall call("to_padded");
  return to_padded(x, longest(x, where), 0, where);
}

Jagged from_padded(const Tensor& dense, const Tensor& given, const SymInt& rows, Line where) {
  const NamedCall call("from_padded");
  const std::shared_ptr<Trace> trace =
      trace_of(kFromPadded, std::vector{dense, given}, {rows}, where);
  need_padded(dense, where);
  const Tensor lengths = wide_lengths(kFromPadded, given, 1, where);
  check(dense.size(0, where) == lengths.size(0, where), "from_padded needs one length per segment",
        where);
  const Jagged shape{arange(*trace, rows, where), lengths};
  const Tensor places = places_in_dense(kFromPadded, shape, dense.size(1, where), where);
  return {index_select(joined_rows(dense, where), places, where), lengths};
}

Jagged from_padded(const Tensor& dense, const Tensor& given, Line where) {
  const NamedCall call("from_padded");
  (void)trace_of(kFromPadded, std::vector{dense, given}, where);
  need_padded(dense, where);
  const Tensor lengths = wide_lengths(kFromPadded, given, 1, where);
  // At most the places of the dense tensor: larger totals fail when the lengths are added up.
  const SymInt most = dense.size(0, where) * dense.size(1, where);
  const Tensor total = minimum(TensorOperand(sum(lengths, {}, Keep::Drop, where), where),
                               TensorOperand(most, where));
  return from_padded(dense, lengths, item(total, Values::NonNegative, where), where);
}

Tensor padding_mask(const Tensor& given, const SymInt& size, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("padding_mask", std::vector{given}, {size}, where);
  const Tensor lengths = wide_lengths("padding_mask", given, 1, where);
  const Tensor place = arange(*trace, size, where);
  return TensorOperand(place, where) < TensorOperand(unsqueeze(lengths, 1, where), where);
}

}  // namespace lockstep::worker
