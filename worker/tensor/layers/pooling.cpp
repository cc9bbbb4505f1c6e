#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/tensor/autodiff/custom_backward.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/layers/operands.h>
#include <lockstep/worker/tensor/layers/pooling.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// Number of each element within its window, 0, 1, .. row-major; the window is the last dims.
Tensor window_places(const Tensor& u, const Dims& window, const Line& where) {
  const std::vector<SymInt> sizes = u.sizes(where);
  const At at{where};
  Tensor place;
  for (const std::int64_t dim : window) {
    const Tensor along = iota(sizes, dim, where);
    place =
        place.empty() ? along : at(place) * at(sizes[static_cast<std::size_t>(dim)]) + at(along);
  }
  return place;
}

/// Elements by window, with the window dims last. `within`: which of them lie in x; empty: all.
struct Windows {
  Tensor elements, within;
};

/// Place of the largest element of x within each window; without the window dims.
Tensor first_largest(const Windows& windows, const Tensor& largest, const Dims& window,
                     const Line& where) {
  const Tensor& u = windows.elements;
  const At at{where};
  std::vector<Expr> wide = meta_of(largest).sizes;
  wide.resize(meta_of(u).sizes.size(), Expr(1));
  const Tensor top = expanded(view(largest, wide, where), meta_of(u).sizes, where);
  Tensor is_top = at(u) == at(top);
  if (is_float(u.dtype())) is_top = at(is_top) | at(isnan(u, where));
  // Padding may hold the same value as x.
  if (!windows.within.empty()) is_top = at(is_top) & at(windows.within);
  SymInt none = 1;
  for (const std::int64_t dim : window) none = none * u.size(dim, where);
  const Tensor place =
      lockstep::worker::where(is_top, at(window_places(u, window, where)), at(none));
  return amin(place, window, Keep::Drop, where);
}

/// The largest element of each window; the first of equal elements gets the gradient.
Tensor largest(const Windows& windows, const Dims& window, const Line& where) {
  const Tensor& u = windows.elements;
  if (!is_float(u.dtype())) return amax(u, window, Keep::Drop, where);
  const auto with_backward = custom_backward(
      [&](const std::vector<Tensor>& in) {
        return std::vector{amax(in[0], window, Keep::Drop, where)};
      },
      [window, where, within = windows.within](const BackwardCall& call) {
        const At at{where};
        const Tensor& in = call.inputs[0];
        const auto spread = [&](const Tensor& t) {
          std::vector<Expr> wide = meta_of(t).sizes;
          wide.resize(meta_of(in).sizes.size(), Expr(1));
          return expanded(view(t, wide, where), meta_of(in).sizes, where);
        };
        const Tensor first = spread(first_largest({in, within}, call.outputs[0], window, where));
        return std::vector{lockstep::worker::where(
            at(window_places(in, window, where)) == at(first), at(spread(call.grads[0])), at(0.0))};
      });
  return with_backward({u}, where)[0];
}

/// Windows of the last dims of x.
class Pool {
 public:
  Pool(std::string_view what, const Tensor& x, std::size_t dims, const PoolOptions& options,
       const Line& where)
      : what_(what), x_(x), dims_(dims), options_(options), where_(where) {
    const auto ndim = static_cast<int>(dims);
    (void)trace_of(what, std::vector{x}, where);
    if (x.ndim() != ndim + 1 && x.ndim() != ndim + 2)
      refuse(where, what,
             fmt::format("takes {} or {} dims, not {}", ndim + 2, ndim + 1, meta_text(meta_of(x))));
    kernel_ = per_dim(what, "kernel", options.kernel, dims, 1, where);
    stride_ =
        options.stride.empty() ? kernel_ : per_dim(what, "stride", options.stride, dims, 1, where);
    padding_ = per_dim(what, "padding", options.padding, dims, 0, where);
    dilation_ = per_dim(what, "dilation", options.dilation, dims, 1, where);
    for (std::size_t d = 0; d < dims; ++d)
      if (padding_[d] > kernel_[d] / 2)
        refuse(where, what,
               fmt::format("padding {} is more than half of kernel {}", padding_[d], kernel_[d]));
    for (std::size_t d = 0; d < dims; ++d) {
      whole_.push_back(x.size(dim(d), where).expr());
      window_.push_back(x.ndim() + static_cast<std::int64_t>(d));
    }
  }

  [[nodiscard]] Tensor average() const {
    need_floats(what_, x_, where_);
    if (dilation_ != Dims(dims_, 1)) refuse(where_, what_, "has no dilation");
    const At at{where_};
    const Tensor total = sum(windows(padded()), window_, Keep::Drop, where_);
    if (options_.divisor) {
      if (*options_.divisor == 0) refuse(where_, what_, "the divisor is 0");
      return at(total) / at(static_cast<double>(*options_.divisor));
    }
    const bool partial = options_.ceil_mode || !options_.count_include_pad;
    if (!partial) return at(total) / at(static_cast<double>(kernel_elements()));
    Tensor count;
    for (std::size_t d = 0; d < dims_; ++d) {
      const Tensor along = unsqueezed(elements_of_windows(d), dims_ - 1 - d);
      count = count.empty() ? along : at(count) * at(along);
    }
    return at(total) / at(cast(count, x_.dtype(), where_));
  }

  [[nodiscard]] Tensor most() const { return largest(lowered(), window_, where_); }

  [[nodiscard]] Pooled most_with_indices() const {
    const At at{where_};
    const Windows u = lowered();
    const Tensor value = largest(u, window_, where_);
    Tensor rest = first_largest(u, detach(value, where_), window_, where_), index;
    std::vector<Tensor> within(dims_);
    for (std::size_t d = dims_; d-- > 0; rest = at(rest) / at(kernel_[d]))
      within[d] = at(rest) % at(kernel_[d]);
    for (std::size_t d = 0; d < dims_; ++d) {
      const Tensor start = iota(value.sizes(where_), dim(d), where_);
      const Tensor first = at(at(start) * at(stride_[d])) - at(padding_[d]);
      Tensor place = at(first) + at(at(within[d]) * at(dilation_[d]));
      if (!u.within.empty()) {  // a dilated window may cover no element of x
        const SymInt last = x_.size(dim(d), where_) - 1;
        place = minimum(at(maximum(at(place), at(0))), at(last));
      }
      index = d == 0 ? place : at(index) * at(x_.size(dim(d), where_)) + at(place);
    }
    return {value, index};
  }

 private:
  [[nodiscard]] std::int64_t dim(std::size_t d) const {
    return x_.ndim() - static_cast<std::int64_t>(dims_ - d);
  }
  [[nodiscard]] std::int64_t span(std::size_t d) const {
    return (kernel_[d] - 1) * dilation_[d] + 1;
  }
  [[nodiscard]] std::int64_t kernel_elements() const {
    std::int64_t out = 1;
    for (const std::int64_t size : kernel_) out *= size;
    return out;
  }
  [[nodiscard]] Tensor unsqueezed(Tensor t, std::size_t times) const {
    for (std::size_t i = 0; i < times; ++i) t = unsqueeze(t, -1, where_);
    return t;
  }
  /// Number of zeros after x in dim d: the padding, and with ceil_mode the end of the last window.
  [[nodiscard]] std::int64_t behind(std::size_t d) const {
    return padding_[d] + (options_.ceil_mode ? stride_[d] - 1 : 0);
  }
  /// Number of windows; each starts within x or the padding in front of it.
  [[nodiscard]] Expr windows_along(std::size_t d) const {
    const Expr rest = whole_[d] + 2 * padding_[d] - span(d);
    // With ceil_mode the first window may end after the padding.
    const Expr room = options_.ceil_mode ? rest + stride_[d] - 1 : rest;
    Trace& trace = *x_.trace();
    if (room.constant().value_or(0) < 0)
      refuse(where_, what_,
             fmt::format("a window of {} elements does not lie within {} and the padding{}",
                         span(d), whole_[d].text(),
                         options_.ceil_mode
                             ? fmt::format(", and the {} that ceil_mode adds", stride_[d] - 1)
                             : ""));
    trace.env().check(shapes::greater_equal(room, 0), trace.here(where_),
                      fmt::format("{} needs a window that lies within x and its padding", what_));
    const Expr all = floor_div(room, stride_[d]);
    if (!options_.ceil_mode) return trace.env().simplify(all + 1);
    // If no window can start after x, `all` is the minimum.
    if (padding_[d] + stride_[d] <= span(d)) return trace.env().simplify(all + 1);
    const Expr starts = floor_div(whole_[d] + padding_[d] - 1, stride_[d]);
    return trace.env().simplify(min(all, starts) + 1);
  }

  [[nodiscard]] Tensor padded() const {
    Tensor out = x_;
    for (std::size_t d = 0; d < dims_; ++d)
      if (padding_[d] > 0 || behind(d) > 0) out = pad(out, dim(d), padding_[d], behind(d), where_);
    return out;
  }
  /// Padded with the lowest value.
  [[nodiscard]] Windows lowered() const {
    const Tensor zeros_around = padded();
    if (zeros_around.node() == x_.node()) return {windows(x_), {}};
    Trace& trace = *x_.trace();
    Tensor is_x = filled(trace, {DType::Bool, meta_of(x_).sizes}, 1, where_);
    for (std::size_t d = 0; d < dims_; ++d)
      if (padding_[d] > 0 || behind(d) > 0)
        is_x = pad(is_x, dim(d), padding_[d], behind(d), where_);
    // The lowest value of a dtype is the largest of no elements.
    const Tensor lowest =
        is_float(x_.dtype())
            ? filled(trace, {x_.dtype(), {}}, -std::numeric_limits<double>::infinity(), where_)
            : amax(filled(trace, {x_.dtype(), {Expr(0)}}, 0, where_), {}, Keep::Drop, where_);
    const At at{where_};
    return {windows(lockstep::worker::where(is_x, at(zeros_around), at(lowest))), windows(is_x)};
  }

  [[nodiscard]] Tensor windows(const Tensor& x) const {
    Node node{.meta = meta_of(x)};
    for (std::size_t d = 0; d < dims_; ++d) {
      node.ints.insert(node.ints.end(), {dim(d), stride_[d], dilation_[d]});
      node.meta.sizes[static_cast<std::size_t>(dim(d))] = windows_along(d);
    }
    for (const std::int64_t size : kernel_) node.meta.sizes.emplace_back(size);
    return emit(Op::Unfold, {x}, std::move(node), where_);
  }

  /// Number of elements of x, or of x and its padding, in each window along dim d: i64.
  [[nodiscard]] Tensor elements_of_windows(std::size_t d) const {
    const At at{where_};
    Trace& trace = *x_.trace();
    const Tensor number = arange(trace, trace.integer(windows_along(d)), where_);
    const Tensor start = at(at(number) * at(stride_[d])) - at(padding_[d]);
    const Tensor end = at(start) + at(kernel_[d]);
    const SymInt size = x_.size(dim(d), where_);
    const Tensor last =
        minimum(at(end), at(options_.count_include_pad ? size + SymInt(padding_[d]) : size));
    return at(last) - at(options_.count_include_pad ? start : maximum(at(start), at(0)));
  }

  std::string_view what_;
  const Tensor& x_;
  std::size_t dims_;
  const PoolOptions& options_;
  Line where_;
  Dims kernel_, stride_, padding_, dilation_;
  std::vector<Expr> whole_;  // sizes of x
  Dims window_;              // dims of the windows
};

/// Divides x into parts of about equal size and applies `joined` to each, one dim after another,
/// from the last dim to the first. So the first of equal elements is the first in row-major order.
template <class Joined>
Tensor adaptive(std::string_view what, const Tensor& x, const Dims& sizes, Joined joined,
                const Line& where) {
  const auto dims = static_cast<std::int64_t>(sizes.size());
  const std::shared_ptr<Trace> trace = trace_of(what, std::vector{x}, where);
  if (x.ndim() != dims + 1 && x.ndim() != dims + 2)
    refuse(where, what,
           fmt::format("takes {} or {} dims, not {}", dims + 2, dims + 1, meta_text(meta_of(x))));
  Tensor out = x;
  for (std::int64_t i = dims; i-- > 0;) {
    const std::int64_t n = sizes[static_cast<std::size_t>(i)], dim = x.ndim() - dims + i;
    const Expr whole = x.size(dim, where).expr();
    if (n < -1) refuse(where, what, fmt::format("there are no {} windows", n));
    if (n == -1) continue;
    std::vector<Tensor> parts;
    for (std::int64_t part = 0; part < n; ++part) {
      // The parts begin and end within x, whatever its size.
      Node node{.exprs = {trace->env().simplify(floor_div(whole * part, n))},
                .ints = {dim},
                .meta = meta_of(out)};
      node.meta.sizes[static_cast<std::size_t>(dim)] =
          trace->env().simplify(floor_div(whole * (part + 1) + (n - 1), n) - node.exprs[0]);
      parts.push_back(joined(n == 1 ? out : emit(Op::Slice, {out}, std::move(node), where), dim));
    }
    out = n == 0 ? slice(out, dim, 0, 0, where) : cat(parts, dim, where);
  }
  return out;
}

Tensor adaptive_average(std::string_view what, const Tensor& x, const Dims& sizes,
                        const Line& where) {
  need_floats(what, x, where);
  if (is_low(x))
    return cast(adaptive_average(what, widened(x, where), sizes, where), x.dtype(), where);
  return adaptive(
      what, x, sizes,
      [&](const Tensor& part, std::int64_t dim) { return mean(part, {dim}, Keep::Keep, where); },
      where);
}

Tensor adaptive_most(std::string_view what, const Tensor& x, const Dims& sizes, const Line& where) {
  return adaptive(
      what, x, sizes,
      [&](const Tensor& part, std::int64_t dim) {
        const Tensor last = transpose(part, dim, -1, where);
        const Tensor most = largest({last, {}}, {x.ndim() - 1}, where);
        return transpose(unsqueeze(most, -1, where), dim, -1, where);
      },
      where);
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const PoolOptions& options, Line where) {
  const NamedCall call("max_pool1d");
  return Pool("max_pool1d", x, 1, options, where).most();
}
Tensor max_pool2d(const Tensor& x, const PoolOptions& options, Line where) {
  const NamedCall call("max_pool2d");
  return Pool("max_pool2d", x, 2, options, where).most();
}
Tensor avg_pool1d(const Tensor& x, const PoolOptions& options, Line where) {
  const NamedCall call("avg_pool1d");
  if (is_low(x)) return cast(avg_pool1d(widened(x, where), options, where), x.dtype(), where);
  return Pool("avg_pool1d", x, 1, options, where).average();
}
Tensor avg_pool2d(const Tensor& x, const PoolOptions& options, Line where) {
  const NamedCall call("avg_pool2d");
  if (is_low(x)) return cast(avg_pool2d(widened(x, where), options, where), x.dtype(), where);
  return Pool("avg_pool2d", x, 2, options, where).average();
}
Pooled max_pool1d_with_indices(const Tensor& x, const PoolOptions& options, Line where) {
  const NamedCall call("max_pool1d_with_indices");
  return Pool("max_pool1d_with_indices", x, 1, options, where).most_with_indices();
}
Pooled max_pool2d_with_indices(const Tensor& x, const PoolOptions& options, Line where) {
  const NamedCall call("max_pool2d_with_indices");
  return Pool("max_pool2d_with_indices", x, 2, options, where).most_with_indices();
}

Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size, Line where) {
  const NamedCall call("adaptive_avg_pool1d");
  return adaptive_average("adaptive_avg_pool1d", x, {size}, where);
}
Tensor adaptive_avg_pool2d(const Tensor& x, const Dims& sizes, Line where) {
  const NamedCall call("adaptive_avg_pool2d");
  return adaptive_average("adaptive_avg_pool2d", x,
                          per_dim("adaptive_avg_pool2d", "size", sizes, 2, -1, where), where);
}
Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t size, Line where) {
  const NamedCall call("adaptive_max_pool1d");
  return adaptive_most("adaptive_max_pool1d", x, {size}, where);
}
Tensor adaptive_max_pool2d(const Tensor& x, const Dims& sizes, Line where) {
  const NamedCall call("adaptive_max_pool2d");
  return adaptive_most("adaptive_max_pool2d", x,
                       per_dim("adaptive_max_pool2d", "size", sizes, 2, -1, where), where);
}

}  // namespace lockstep::worker
