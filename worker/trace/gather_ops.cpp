// Elements by an index along one dim.
#include <fmt/format.h>

#include <lockstep/worker/trace/index_places.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// At least one dim.
Tensor with_dim(const Tensor& x, const Line& where) {
  return x.ndim() == 0 ? view(x, {Expr(1)}, where) : x;
}

/// Refuses an index that is no i64 or has not as many dims as x; a number counts as one dim.
void need_index_like(std::string_view what, const Tensor& x, const Tensor& index,
                     const Line& where) {
  need_index(what, index, where);
  if (std::max(x.ndim(), 1) != std::max(index.ndim(), 1))
    refuse(where, what,
           fmt::format("takes an index of as many dims as x, not {} for {}",
                       meta_text(meta_of(index)), meta_text(meta_of(x))));
}

}  // namespace

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index, Line where) {
  (void)trace_of("gather", std::vector{x, index}, where);
  need_index_like("gather", x, index, where);
  const Tensor from = with_dim(x, where), at = with_dim(index, where);
  Node node;
  node.ints = {checked_dim("gather", from, dim, where)};
  const Tensor fitting = shortened("gather", from, meta_of(at).sizes, node.ints[0], where);
  const Tensor picked = emit(Op::Gather, {fitting, at}, std::move(node), where);
  return view(picked, meta_of(index).sizes, where);
}

Tensor take(const Tensor& x, const Tensor& index, Line where) {
  (void)trace_of("take", std::vector{x, index}, where);
  need_index("take", index, where);
  const Tensor flat = flat_view(x, where);
  const Tensor places = wrapped_index("take", index, meta_of(flat).sizes[0], where);
  const Tensor picked = emit(Op::IndexSelect, {flat, flat_view(places, where)}, {}, where);
  return view(picked, meta_of(index).sizes, where);
}

}  // namespace lockstep::worker
