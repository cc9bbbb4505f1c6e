// Indexing by several tensors: the indexed dims move to the front and become one; the indices
// become one list of places in it.
#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/index_places.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

class Indexed {
 public:
  Indexed(std::string_view what, const Tensor& x, const std::vector<Index>& at, const Line& where)
      : what_(what), x_(x), where_(where) {
    find_tensors(at);
    for (std::size_t d = 0; d < static_cast<std::size_t>(x.ndim()); ++d)
      if (std::find(order_.begin(), order_.end(), static_cast<std::int64_t>(d)) == order_.end())
        order_.push_back(static_cast<std::int64_t>(d));
    const Tensor front = in_order(x, order_, where);
    front_ = meta_of(front).sizes;
    const auto rest = front_.begin() + static_cast<std::ptrdiff_t>(indexed_);
    others_.assign(rest, front_.end());
    rows_ = view(front, with_rows(shapes::product({front_.begin(), rest})), where);
    make_places();
  }

  /// x with the indexed dims as one, [P, ..], and the places in that dim: i64 [M].
  [[nodiscard]] const Tensor& rows() const { return rows_; }
  [[nodiscard]] const Tensor& places() const { return places_; }
  [[nodiscard]] std::vector<Expr> result_sizes() const {
    std::vector<Expr> sizes = others_;
    sizes.insert(sizes.begin() + place_, batch_.begin(), batch_.end());
    return sizes;
  }
  /// The result, made of one row per place, [M, ..].
  [[nodiscard]] Tensor result(const Tensor& rows) const {
    std::vector<Expr> sizes = batch_;
    sizes.insert(sizes.end(), others_.begin(), others_.end());
    Dims order;
    const auto batch = static_cast<std::int64_t>(batch_.size());
    for (std::int64_t d = 0; d < place_; ++d) order.push_back(batch + d);
    for (std::int64_t d = 0; d < batch; ++d) order.push_back(d);
    for (auto d = batch + place_; d < static_cast<std::int64_t>(sizes.size()); ++d)
      order.push_back(d);
    return in_order(view(rows, std::move(sizes), where_), std::move(order), where_);
  }
  /// The inverse of result(): one row per place, from a tensor of the result's sizes.
  [[nodiscard]] Tensor rows_of(const Tensor& result) const {
    Dims order;
    const auto batch = static_cast<std::int64_t>(batch_.size());
    for (std::int64_t d = 0; d < batch; ++d) order.push_back(place_ + d);
    for (std::int64_t d = 0; d < result.ndim(); ++d)
      if (d < place_ || d >= place_ + batch) order.push_back(d);
    return view(in_order(result, std::move(order), where_), with_rows(meta_of(places_).sizes[0]),
                where_);
  }
  /// x with the given values for rows().
  [[nodiscard]] Tensor whole(const Tensor& rows) const {
    Dims inverse(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i)
      inverse[static_cast<std::size_t>(order_[i])] = static_cast<std::int64_t>(i);
    return in_order(view(rows, front_, where_), std::move(inverse), where_);
  }

 private:
  void find_tensors(const std::vector<Index>& at) {
    std::int64_t dim = 0;
    for (const Index& one : at) {
      if (one.tensor.empty()) {
        ++dim;
        continue;
      }
      (void)trace_of(what_, std::vector{x_, one.tensor}, where_);
      if (one.tensor.dtype() == DType::Bool) {
        for (const Tensor& places : places_of(one.tensor, dim)) add(places, dim++);
        continue;
      }
      add(wide_index(what_, one.tensor, where_), dim++);
    }
    if (tensors_.empty()) refuse(where_, what_, "needs at least one tensor of indices");
    need_dims(dim);
    const auto given = [](const Index& one) { return !one.tensor.empty(); };
    const auto first = std::find_if(at.begin(), at.end(), given);
    if (first->tensor.dtype() == DType::Bool && std::count_if(at.begin(), at.end(), given) == 1)
      mask_ = first->tensor;
    indexed_ = order_.size();
    const bool adjacent =
        order_.back() - order_.front() + 1 == static_cast<std::int64_t>(order_.size());
    place_ = adjacent ? order_.front() : 0;
  }
  void add(const Tensor& tensor, std::int64_t dim) {
    order_.push_back(dim);
    tensors_.push_back(tensor);
  }
  void need_dims(std::int64_t count) const {
    if (count > x_.ndim())
      refuse(where_, what_,
             fmt::format("{} indices are too many for {}", count, meta_text(meta_of(x_))));
  }
  /// The indices along each dim of a mask that covers the dims of x from `dim` on.
  [[nodiscard]] std::vector<Tensor> places_of(const Tensor& mask, std::int64_t dim) const {
    if (mask.ndim() == 0) refuse(where_, what_, "takes no mask of one element; see where()");
    need_dims(dim + mask.ndim());
    for (int d = 0; d < mask.ndim(); ++d)
      x_.trace()->env().check(shapes::equal(x_.size(dim + d).expr(), mask.size(d).expr()),
                              x_.trace()->here(where_),
                              fmt::format("{} needs masks of the sizes of x", what_));
    const Tensor rows = nonzero(mask, where_);
    std::vector<Tensor> places;
    for (int d = 0; d < mask.ndim(); ++d) places.push_back(select(rows, 1, d, where_));
    return places;
  }

  void make_places() {
    if (!mask_.empty()) {
      places_ = true_positions(mask_, "nonzero()", where_);
      batch_ = meta_of(places_).sizes;
      return;
    }
    tensors_ = broadcast_together(what_, tensors_, where_);
    batch_ = meta_of(tensors_[0]).sizes;
    for (std::size_t k = 0; k < tensors_.size(); ++k) {
      const Tensor at = wrapped_index(what_, tensors_[k], front_[k], where_);
      places_ = k == 0 ? at : emit(Op::Add, {scaled(places_, front_[k], where_), at}, {}, where_);
    }
    places_ = flat_view(places_, where_);
  }

  [[nodiscard]] std::vector<Expr> with_rows(const Expr& rows) const {
    std::vector<Expr> sizes{rows};
    sizes.insert(sizes.end(), others_.begin(), others_.end());
    return sizes;
  }

  std::string_view what_;
  const Tensor& x_;
  Line where_;
  std::vector<Tensor> tensors_;
  Tensor mask_;               // the index, if it is a single mask
  Dims order_;                // dims of x, indexed ones first
  std::size_t indexed_ = 0;   // number of indexed dims
  std::int64_t place_ = 0;    // first dim of the indices in the result
  std::vector<Expr> front_;   // sizes of x in the order order_
  std::vector<Expr> others_;  // sizes of x that are not indexed
  std::vector<Expr> batch_;   // sizes of the indices
  Tensor rows_, places_;
};

}  // namespace

Tensor index(const Tensor& x, const std::vector<Index>& at, Line where) {
  (void)trace_of("index", std::vector{x}, where);
  const Indexed indexed("index", x, at, where);
  return indexed.result(emit(Op::IndexSelect, {indexed.rows(), indexed.places()}, {}, where));
}

Tensor Tensor::operator[](std::initializer_list<Index> at) const {
  const Line where = at.size() == 0 ? Line() : at.begin()->where;
  return index(*this, std::vector<Index>(at), where);
}

Tensor index_put(const Tensor& x, const std::vector<Index>& at, const TensorOperand& values,
                 bool accumulate, Line where) {
  const NamedCall call("index_put");
  const std::shared_ptr<Trace> trace = trace_of("index_put", std::vector{x}, where);
  const Indexed indexed("index_put", x, at, where);
  Sizes sizes;
  for (const Expr& size : indexed.result_sizes()) sizes.push_back(trace->integer(size));
  const Tensor value = value_of("index_put", values, *trace, x.dtype(), where);
  const Tensor rows = indexed.rows_of(expand(value, sizes, where));
  return indexed.whole(accumulate
                           ? add_rows(indexed.rows(), indexed.places(), rows, where)
                           : put_rows(indexed.rows(), indexed.places(), rows, Put::Set, where));
}

Tensor take(const Tensor& x, const Tensor& index, Line where) {
  (void)trace_of("take", std::vector{x, index}, where);
  const Tensor flat = flat_view(x, where), numbers = wide_index("take", index, where);
  const Tensor places = wrapped_index("take", numbers, meta_of(flat).sizes[0], where);
  const Tensor picked = emit(Op::IndexSelect, {flat, flat_view(places, where)}, {}, where);
  return view(picked, meta_of(index).sizes, where);
}

Tensor put(const Tensor& into, const Tensor& index, const Tensor& from, bool accumulate,
           Line where) {
  const std::shared_ptr<Trace> trace = trace_of("put", std::vector{into, index, from}, where);
  const Tensor numbers = wide_index("put", index, where);
  const std::vector<Tensor> both = of_one_dtype("put", {into, from}, where);
  const Tensor &x = both[0], &source = both[1];
  const Tensor flat = flat_view(x, where);
  const Tensor places =
      flat_view(wrapped_index("put", numbers, meta_of(flat).sizes[0], where), where);
  const std::vector<Expr> count = meta_of(places).sizes;
  trace->env().check(shapes::equal(shapes::product(meta_of(source).sizes), count[0]),
                     trace->here(where), "put needs as many elements as indices");
  const Tensor rows = view(source, count, where);
  return view(accumulate ? add_rows(flat, places, rows, where)
                         : put_rows(flat, places, rows, Put::Set, where),
              meta_of(x).sizes, where);
}

}  // namespace lockstep::worker
