// Elements set, added or joined by an index along one dim; x is flattened into one dim.
#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/index_places.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// x and the source, both in one dim, and the places in x of the source's elements.
struct Scattered {
  Tensor x, places, src;
};

void need_dims_like(std::string_view what, std::string_view which, const Tensor& index,
                    const Tensor& other, const Line& where) {
  if (std::max(index.ndim(), 1) != std::max(other.ndim(), 1))
    refuse(where, what,
           fmt::format("takes an index of as many dims as {}, not {} for {}", which,
                       meta_text(meta_of(index)), meta_text(meta_of(other))));
}

Tensor at_least_one_dim(const Tensor& x, const Line& where) {
  return x.ndim() == 0 ? view(x, {Expr(1)}, where) : x;
}

Scattered scattered(std::string_view what, const Tensor& x, std::int64_t dim, const Tensor& index,
                    const TensorOperand& src, const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of(what, std::vector{x, index}, where);
  const Tensor numbers = wide_index(what, index, where);
  need_dims_like(what, "x", index, x, where);
  const Tensor into = at_least_one_dim(x, where), at = at_least_one_dim(numbers, where);
  const std::int64_t d = checked_dim(what, into, dim, where);
  const std::vector<Expr> sizes = meta_of(into).sizes, taken = meta_of(at).sizes;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (static_cast<std::int64_t>(i) != d)
      need_no_larger(what, taken[i], sizes[i], "x but along its dim", *trace, where);
  const Tensor value = value_of(what, src, *trace, x.dtype(), where);
  Tensor from;
  if (src.has_dtype()) {
    need_dims_like(what, "src", index, value, where);
    from = shortened(what, at_least_one_dim(value, where), taken, -1, "src", where);
  } else {
    from = expanded(value, taken, where);
  }
  const Tensor checked = checked_index(what, at, sizes[static_cast<std::size_t>(d)], false, where);
  return {flat_view(into, where), flat_view(places_along(sizes, d, checked, where), where),
          flat_view(from, where)};
}

/// x with the neutral element of the reduction, such as 1 for a product, wherever elements of src
/// go. Extremes of ints use an element of src that goes there in place of the neutral element: the
/// largest int is no exact double, and ints have no gradient.
Tensor without_self(const Scattered& s, ScatterReduce reduce, const Line& where) {
  const bool extreme = reduce == ScatterReduce::Amax || reduce == ScatterReduce::Amin;
  if (extreme && !is_float(s.x.dtype())) return put_rows(s.x, s.places, s.src, Put::Set, where);
  const double infinity = std::numeric_limits<double>::infinity();
  const double neutral = reduce == ScatterReduce::Prod   ? 1
                         : reduce == ScatterReduce::Amax ? -infinity
                         : reduce == ScatterReduce::Amin ? infinity
                                                         : 0;
  const Tensor nothing = filled(*s.x.trace(), meta_of(s.src), neutral, where);
  return put_rows(s.x, s.places, nothing, Put::Set, where);
}

/// The extreme of the elements of src at each place, and x where there are none. All elements of
/// src equal to the result share the gradient; the values that `without_self` put in place of x get
/// none.
Tensor extreme_of_src(const Scattered& s, ScatterReduce reduce, const Line& where) {
  const Put mode = reduce == ScatterReduce::Amax ? Put::Max : Put::Min;
  const Tensor result = put_rows(without_self(s, reduce, where), s.places, s.src, mode, where);
  if (!is_float(s.x.dtype())) return result;
  const auto gradient = [places = s.places, where](const BackwardCall& call) {
    const Tensor &x = call.inputs[0], &src = call.inputs[1], &grad = call.grads[0];
    const auto taken = [&](const Tensor& of) { return index_select(of, places, where); };
    const Tensor best =
        cast(TensorOperand(src, where) == TensorOperand(taken(call.outputs[0]), where), x.dtype(),
             where);
    const Tensor count = add_rows(filled(*x.trace(), meta_of(x), 0, where), places, best, where);
    const Tensor share = TensorOperand(grad, where) / TensorOperand(count, where);
    return std::vector{
        put_rows(grad, places, filled(*x.trace(), meta_of(src), 0, where), Put::Set, where),
        TensorOperand(taken(share), where) * TensorOperand(best, where)};
  };
  return with_own_gradient("scatter_reduce", {s.x, s.src}, {result}, gradient, where)[0];
}

/// Number of elements joined at each place of x, at least 1.
Tensor counts(const Scattered& s, bool include_self, const Line& where) {
  Trace& trace = *s.x.trace();
  const Tensor none = filled(trace, meta_of(s.x), 0, where),
               one = filled(trace, meta_of(s.x), 1, where);
  const Tensor each = filled(trace, meta_of(s.src), 1, where);
  const Tensor count = add_rows(include_self ? one : none, s.places, each, where);
  return include_self ? count : emit(Op::Maximum, {count, one}, {}, where);
}

}  // namespace

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const TensorOperand& src,
               Line where) {
  const Scattered s = scattered("scatter", x, dim, index, src, where);
  return view(put_rows(s.x, s.places, s.src, Put::Set, where), meta_of(x).sizes, where);
}

Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                   Line where) {
  const Scattered s = scattered("scatter_add", x, dim, index, src, where);
  return view(add_rows(s.x, s.places, s.src, where), meta_of(x).sizes, where);
}

Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                      ScatterReduce reduce, bool include_self, Line where) {
  if (is_low(x) && is_low(src) && x.dtype() == src.dtype())
    return cast(scatter_reduce(widened(x, where), dim, index, widened(src, where), reduce,
                               include_self, where),
                x.dtype(), where);
  Scattered s = scattered("scatter_reduce", x, dim, index, src, where);
  const bool extreme = reduce == ScatterReduce::Amax || reduce == ScatterReduce::Amin;
  if (!include_self && extreme)
    return view(extreme_of_src(s, reduce, where), meta_of(x).sizes, where);
  if (!include_self) s.x = without_self(s, reduce, where);
  const auto joined = [&] {
    switch (reduce) {
      case ScatterReduce::Sum:
        return add_rows(s.x, s.places, s.src, where);
      case ScatterReduce::Mean:
        return emit(Op::Div,
                    {add_rows(s.x, s.places, s.src, where), counts(s, include_self, where)}, {},
                    where);
      case ScatterReduce::Prod:
        return put_rows(s.x, s.places, s.src, Put::Multiply, where);
      case ScatterReduce::Amax:
        return put_rows(s.x, s.places, s.src, Put::Max, where);
      case ScatterReduce::Amin:
        break;
    }
    return put_rows(s.x, s.places, s.src, Put::Min, where);
  };
  return view(joined(), meta_of(x).sizes, where);
}

}  // namespace lockstep::worker
