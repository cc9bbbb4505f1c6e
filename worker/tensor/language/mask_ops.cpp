// Ops by masks. Only masked_put by rows counts the trues of its mask.
#include <fmt/format.h>

#include <lockstep/worker/tensor/language/index_places.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

Tensor chosen(const Tensor& mask, const Tensor& value, const Tensor& x, const Line& where) {
  return emit(Op::Where, {mask, value, x}, {}, where);
}

Sizes sizes_from(const Tensor& x, std::int64_t dim) {
  Sizes sizes = x.sizes();
  sizes.erase(sizes.begin(), sizes.begin() + dim);
  return sizes;
}

}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, const TensorOperand& value, Line where) {
  const NamedCall call("masked_fill");
  const std::shared_ptr<Trace> trace = trace_of("masked_fill", std::vector{x, mask}, where);
  need_mask("masked_fill", mask, where);
  const Tensor filling = value_of("masked_fill", value, *trace, x.dtype(), where);
  if (filling.ndim() != 0)
    refuse(where, "masked_fill",
           fmt::format("takes a number or a 0-d tensor, not {}; see where()",
                       meta_text(meta_of(filling))));
  const std::vector<Tensor> both = broadcast_together("masked_fill", {x, mask}, where);
  return chosen(both[1], expanded(filling, meta_of(both[0]).sizes, where), both[0], where);
}

// The k-th true of the mask takes element k of the source; a false place reads the zero padded in
// front of the source.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, Line where) {
  const std::shared_ptr<Trace> trace =
      trace_of("masked_scatter", std::vector{x, mask, source}, where);
  need_mask("masked_scatter", mask, where);
  const Tensor elements = value_of("masked_scatter", source, *trace, x.dtype(), where);
  const std::vector<Tensor> both = broadcast_together("masked_scatter", {x, mask}, where);
  const Tensor flat = flat_view(both[1], where);
  const Tensor number = cumsum(cast(flat, DType::I64, where), where);
  const Tensor from = pad(flat_view(elements, where), 0, 1, 0, where);
  const Tensor at = checked_index(
      "masked_scatter", chosen(flat, number, filled(*trace, meta_of(number), 0, where), where),
      meta_of(from).sizes[0], false, where);
  const Tensor taken = emit(Op::IndexSelect, {from, at}, {}, where);
  return chosen(both[1], view(taken, meta_of(both[0]).sizes, where), both[0], where);
}

Tensor masked_put(const Tensor& x, const Tensor& mask, const TensorOperand& value, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("masked_put", std::vector{x, mask}, where);
  need_mask("masked_put", mask, where);
  if (mask.ndim() > x.ndim())
    refuse(where, "masked_put",
           fmt::format("{} has fewer dims than the mask {}", meta_text(meta_of(x)),
                       meta_text(meta_of(mask))));
  for (int d = 0; d < mask.ndim(); ++d)
    trace->env().check(shapes::equal(x.size(d).expr(), mask.size(d).expr()), trace->here(where),
                       "masked_put needs a mask of the sizes of x");
  Tensor filling = value_of("masked_put", value, *trace, x.dtype(), where);
  const Sizes others = sizes_from(x, mask.ndim());
  const auto rows = static_cast<std::int64_t>(others.size()) + 1;
  if (filling.ndim() == rows && trace->one_or(meta_of(filling).sizes[0], where) == Expr(1))
    filling = squeeze(filling, 0, where);
  std::vector<Expr> sizes = meta_of(x).sizes;
  if (filling.ndim() < rows) {
    std::vector<Expr> column = sizes;
    for (std::size_t d = static_cast<std::size_t>(mask.ndim()); d < column.size(); ++d)
      column[d] = 1;
    const Tensor all = expanded(view(mask, std::move(column), where), sizes, where);
    return chosen(all, expanded(expand(filling, others, where), sizes, where), x, where);
  }
  const Tensor places = true_positions(mask, "x[mask]", where);
  Sizes wanted = others;
  wanted.insert(wanted.begin(), trace->integer(meta_of(places).sizes[0]));
  const Tensor put = put_rows(flattened(x, static_cast<std::size_t>(mask.ndim()), where), places,
                              expand(filling, wanted, where), Put::Set, where);
  return view(put, std::move(sizes), where);
}

}  // namespace lockstep::worker
