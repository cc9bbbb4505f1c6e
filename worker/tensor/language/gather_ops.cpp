// Elements by an index along one dim.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/index_places.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// x as [1] if it is 0-d.
Tensor with_dim(const Tensor& x, const Line& where) {
  return x.ndim() == 0 ? view(x, {Expr(1)}, where) : x;
}

/// The index as i64. Refuses an index with another number of dims than x; 0-d counts as one dim.
Tensor index_like(std::string_view what, const Tensor& x, const Tensor& index, const Line& where) {
  if (std::max(x.ndim(), 1) != std::max(index.ndim(), 1))
    refuse(where, what,
           fmt::format("takes an index of as many dims as x, not {} for {}",
                       meta_text(meta_of(index)), meta_text(meta_of(x))));
  return wide_index(what, index, where);
}

/// x gathered along dim `d` by an index of as many dims, which is no larger than x in the other
/// dims.
Tensor gathered(std::string_view what, const Tensor& x, std::int64_t d, const Tensor& index,
                const Line& where) {
  Node node;
  node.ints = {d};
  const Tensor fitting = shortened(what, x, meta_of(index).sizes, d, "x but along its dim", where);
  return emit(Op::Gather, {fitting, index}, std::move(node), where);
}

}  // namespace

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index, Line where) {
  (void)trace_of("gather", std::vector{x, index}, where);
  const Tensor from = with_dim(x, where),
               at = with_dim(index_like("gather", x, index, where), where);
  const Tensor picked =
      gathered("gather", from, checked_dim("gather", from, dim, where), at, where);
  return view(picked, meta_of(index).sizes, where);
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, std::int64_t dim, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("take_along_dim", std::vector{x, index}, where);
  const Tensor from = with_dim(x, where),
               at = with_dim(index_like("take_along_dim", x, index, where), where);
  const std::int64_t d = checked_dim("take_along_dim", from, dim, where);
  // x and the index broadcast in all dims but `dim`. The two tensors below only give the common
  // sizes: no element is read.
  std::vector<Expr> mine = meta_of(from).sizes, its = meta_of(at).sizes;
  Expr &along = mine[static_cast<std::size_t>(d)], &many = its[static_cast<std::size_t>(d)];
  const Expr limit = std::exchange(along, Expr(1)), length = std::exchange(many, Expr(1));
  std::vector<Expr> sizes =
      meta_of(broadcast_together("take_along_dim",
                                 {filled(*trace, {DType::Bool, mine}, 0, where),
                                  filled(*trace, {DType::Bool, its}, 0, where)},
                                 where)[0])
          .sizes;
  sizes[static_cast<std::size_t>(d)] = limit;
  const Tensor wide = expanded(from, sizes, where);
  sizes[static_cast<std::size_t>(d)] = length;
  const Tensor all = expanded(wrapped_index("take_along_dim", at, limit, where), sizes, where);
  const Tensor picked = gathered("take_along_dim", wide, d, all, where);
  return x.ndim() == 0 && index.ndim() == 0 ? view(picked, {}, where) : picked;
}

}  // namespace lockstep::worker
