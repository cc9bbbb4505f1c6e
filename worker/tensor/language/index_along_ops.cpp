// Whole slices of one dim by index: the dim moves to the front, where its slices are rows.
#include <fmt/format.h>

#include <lockstep/worker/tensor/language/index_places.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// x with `dim` in front, and the index as i64 [M]. A 0-d x or index becomes a list of one element.
struct Along {
  Tensor rows, index;
  std::int64_t dim = 0;
  bool is_number = false;  // x is 0-d

  /// `other`, whose rows replace those of x, with its dims in the order of x.
  [[nodiscard]] Tensor whole(const Tensor& other, const Line& where) const {
    return is_number ? view(other, {}, where) : from_front(other, dim, where);
  }
};

Tensor as_list(const Tensor& x, const Line& where) {
  return x.ndim() == 0 ? view(x, {Expr(1)}, where) : x;
}

Along along(std::string_view what, const Tensor& x, std::int64_t dim, const Tensor& index,
            const Line& where) {
  (void)trace_of(what, std::vector{x, index}, where);
  const Tensor numbers = wide_index(what, index, where);
  if (index.ndim() > 1)
    refuse(where, what,
           fmt::format("takes an index of one dim, not {}; see gather() and index()",
                       meta_text(meta_of(index))));
  const Tensor list = as_list(x, where);
  const std::int64_t d = checked_dim(what, list, dim, where);
  return {to_front(list, d, where), flat_view(numbers, where), d, x.ndim() == 0};
}

/// The source's rows, one for each index. Checks their sizes.
Tensor rows_of(std::string_view what, const Along& at, const Tensor& given, const Line& where) {
  const Tensor source = as_list(given, where);
  const std::shared_ptr<Trace> trace = trace_of(what, std::vector{at.rows, source}, where);
  std::vector<Expr> sizes = meta_of(at.rows).sizes;
  if (source.dtype() != at.rows.dtype() || static_cast<std::size_t>(source.ndim()) != sizes.size())
    refuse(where, what,
           fmt::format("the source {} has not the dtype and dims of x {}",
                       meta_text(meta_of(source)), meta_text(meta_of(at.rows))));
  sizes[0] = meta_of(at.index).sizes[0];
  const Tensor rows = to_front(source, at.dim, where);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const Expr have = meta_of(rows).sizes[d];
    if ((have - sizes[d]).constant().value_or(0) != 0)
      refuse(where, what,
             fmt::format("the source {} has not one slice per index, of the sizes of x",
                         meta_text(meta_of(source))));
    trace->env().check(shapes::equal(have, sizes[d]), trace->here(where),
                       fmt::format("{} needs one slice per index, of the sizes of x", what));
  }
  return view(rows, std::move(sizes), where);
}

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index, Line where) {
  const Along at = along("index_select", x, dim, index, where);
  if (at.is_number)
    x.trace()->env().check(shapes::equal(meta_of(at.index).sizes[0], 1), x.trace()->here(where),
                           "index_select of a number needs one index");
  return at.whole(emit(Op::IndexSelect, {at.rows, at.index}, {}, where), where);
}

Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                 Line where) {
  const NamedCall call("index_add");
  const Along at = along("index_add", x, dim, index, where);
  const Tensor rows = rows_of("index_add", at, source, where);
  return at.whole(add_rows(at.rows, at.index, rows, where), where);
}

Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                  Line where) {
  const Along at = along("index_copy", x, dim, index, where);
  const Tensor rows = rows_of("index_copy", at, source, where),
               places =
                   checked_index("index_copy", at.index, meta_of(at.rows).sizes[0], false, where);
  return at.whole(put_rows(at.rows, places, rows, Put::Set, where), where);
}

Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index,
                  const TensorOperand& value, Line where) {
  const Along at = along("index_fill", x, dim, index, where);
  const Tensor filling = value_of("index_fill", value, *x.trace(), x.dtype(), where);
  if (filling.ndim() != 0)
    refuse(where, "index_fill",
           fmt::format("takes a number or a 0-d tensor, not {}; see index_copy()",
                       meta_text(meta_of(filling))));
  std::vector<Expr> sizes = meta_of(at.rows).sizes;
  const Tensor places = wrapped_index("index_fill", at.index, sizes[0], where);
  sizes[0] = meta_of(at.index).sizes[0];
  const Tensor rows = expanded(filling, sizes, where);
  return at.whole(put_rows(at.rows, places, rows, Put::Set, where), where);
}

}  // namespace lockstep::worker
