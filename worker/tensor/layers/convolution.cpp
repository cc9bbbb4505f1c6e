#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/movement_ops.h>
#include <lockstep/worker/tensor/layers/convolution.h>
#include <lockstep/worker/tensor/layers/operands.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// One convolution over `dims` dims, of x [N, C, ..].
class Convolution {
 public:
  Convolution(std::string_view what, const Tensor& x, const Tensor& weight, std::size_t dims,
              const ConvOptions& options, const Line& where)
      : what_(what), x_(x), weight_(weight), dims_(dims), options_(options), where_(where) {
    stride_ = per_dim(what, "stride", options.stride, dims, 1, where);
    dilation_ = per_dim(what, "dilation", options.dilation, dims, 1, where);
    need_fitting_channels();
    if (options.same && std::ranges::count(stride_, 1) != static_cast<std::ptrdiff_t>(dims))
      refuse(where, what, "the sizes stay the same by padding only where the stride is 1");
    pad_x();
  }

  [[nodiscard]] Tensor run() const {
    Tensor seen = x_;  // [N, C, places.., kernel..]
    if (!pointwise()) seen = unfold(x_, windows(), where_);
    const std::vector<Expr> sizes = meta_of(seen).sizes;
    const auto behind_places = sizes.begin() + static_cast<std::ptrdiff_t>(2 + dims_);
    const std::vector<Expr> places(sizes.begin() + 2, behind_places);
    // Columns are the places of all samples, so each kernel row is copied from rows of x.
    Dims order{1};
    for (std::size_t d = 2 + dims_; d < sizes.size(); ++d)
      order.push_back(static_cast<std::int64_t>(d));
    order.push_back(0);
    for (std::size_t d = 2; d < 2 + dims_; ++d) order.push_back(static_cast<std::int64_t>(d));
    const Tensor columns = permute(seen, order, where_);
    const std::vector<Expr> w = meta_of(weight_).sizes;
    const Expr groups = options_.groups, within = shapes::product({w.begin() + 1, w.end()}),
               count = sizes[0] * shapes::product(places), each = of_group(w[0]);
    const bool alone = options_.groups == 1;
    const auto grouped = [&](const Tensor& t, const Expr& m, const Expr& n) {
      return view(t, alone ? std::vector{m, n} : std::vector{groups, m, n}, where_);
    };
    const Tensor product = emit(
        Op::Matmul, {grouped(weight_, each, within), grouped(columns, within, count)}, {}, where_);
    std::vector<Expr> out{w[0], sizes[0]};
    out.insert(out.end(), places.begin(), places.end());
    return transpose(view(product, std::move(out), where_), 0, 1, where_);
  }

 private:
  [[nodiscard]] Expr of_group(const Expr& channels) const {
    return weight_.trace()->env().simplify(floor_div(channels, options_.groups));
  }
  [[nodiscard]] Expr kernel(std::size_t d) const { return meta_of(weight_).sizes[2 + d]; }
  [[nodiscard]] bool pointwise() const {
    for (std::size_t d = 0; d < dims_; ++d)
      if (kernel(d) != Expr(1) || stride_[d] != 1) return false;
    return true;
  }
  [[nodiscard]] std::vector<Windows> windows() const {
    std::vector<Windows> out;
    for (std::size_t d = 0; d < dims_; ++d)
      out.push_back({static_cast<std::int64_t>(2 + d), weight_.trace()->integer(kernel(d)),
                     stride_[d], dilation_[d]});
    return out;
  }

  void need_fitting_channels() {
    Trace& trace = *weight_.trace();
    const std::vector<Expr> x = meta_of(x_).sizes, w = meta_of(weight_).sizes;
    const std::int64_t groups = options_.groups;
    if (groups < 1) refuse(where_, what_, fmt::format("there are no {} groups", groups));
    const auto need = [&](const Expr& a, const Expr& b, std::string_view words) {
      if ((a - b).constant().value_or(0) != 0)
        refuse(where_, what_,
               fmt::format("{} does not fit the weight {} in {} groups: {}", meta_text(meta_of(x_)),
                           meta_text(meta_of(weight_)), groups, words));
      trace.env().check(shapes::equal(a, b), trace.here(where_),
                        fmt::format("{}: {}", what_, words));
    };
    need(x[1], w[1] * groups, "each group has as many channels as the weight's second dim says");
    need(mod(w[0], groups), 0, "each group gives as many channels");
    std::vector<Expr> sizes = x;
    sizes[1] = w[1] * groups;
    x_ = view(x_, std::move(sizes), where_);
  }

  void pad_x() {
    const Dims padding = per_dim(what_, "padding", options_.padding, dims_, 0, where_);
    for (std::size_t d = 0; d < dims_; ++d) {
      Expr before = padding[d], after = padding[d];
      if (options_.same) {
        const Expr all = (kernel(d) - 1) * dilation_[d];
        before = weight_.trace()->env().simplify(floor_div(all, 2));
        after = weight_.trace()->env().simplify(all - before);
      }
      if (before == Expr(0) && after == Expr(0)) continue;
      x_ = pad(x_, static_cast<std::int64_t>(2 + d), weight_.trace()->integer(before),
               weight_.trace()->integer(after), where_);
    }
  }

  std::string_view what_;
  Tensor x_;
  const Tensor& weight_;
  std::size_t dims_;
  const ConvOptions& options_;
  Line where_;
  Dims stride_, dilation_;
};

Tensor convolution(std::string_view what, const Tensor& given, const Tensor& kernel,
                   const Tensor& bias, std::size_t dims, const ConvOptions& options,
                   const Line& where) {
  need_floats(what, given, where);
  const std::vector<Tensor> both = of_one_dtype(what, {given, kernel}, where);
  const Tensor &x = both[0], &weight = both[1];
  const auto ndim = static_cast<int>(dims);
  if (weight.ndim() != ndim + 2 || (x.ndim() != ndim + 1 && x.ndim() != ndim + 2))
    refuse(where, what,
           fmt::format("takes x of {} or {} dims and a weight of {} dims, not {} "
                       "and {}",
                       ndim + 2, ndim + 1, ndim + 2, meta_text(meta_of(x)),
                       meta_text(meta_of(weight))));
  const bool batched = x.ndim() == ndim + 2;
  const Tensor samples = batched ? x : unsqueeze(x, 0, where);
  Tensor out = Convolution(what, samples, weight, dims, options, where).run();
  if (!bias.empty()) {
    const Expr channels = meta_of(weight).sizes[0];
    std::vector<Expr> seen(dims + 1, Expr(1));
    seen[0] = channels;
    const At at{where};
    Tensor added = view(of_sizes(what, "bias", bias, {channels}, where), seen, where);
    // In autocast the bias takes the dtype of the product.
    if (is_half(out.dtype()) && x.trace()->autocast() && added.dtype() == DType::F32)
      added = cast(added, out.dtype(), where);
    out = at(out) + at(added);
  }
  if (batched) return out;
  std::vector<Expr> sizes = meta_of(out).sizes;
  sizes.erase(sizes.begin());
  return view(out, std::move(sizes), where);
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
              Line where) {
  const NamedCall call("conv1d");
  return convolution("conv1d", x, weight, bias, 1, options, where);
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
              Line where) {
  const NamedCall call("conv2d");
  return convolution("conv2d", x, weight, bias, 2, options, where);
}

}  // namespace lockstep::worker
