#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/tensor/layers/norms.h>
#include <lockstep/worker/tensor/layers/operands.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

Dims last_dims(std::string_view what, const Tensor& x, std::int64_t dims, const Line& where) {
  need_floats(what, x, where);
  if (dims < 1 || dims > x.ndim())
    refuse(where, what,
           fmt::format("{} dims of {} cannot be normalised over; name 1 to {}", dims,
                       meta_text(meta_of(x)), x.ndim()));
  Dims out;
  for (std::int64_t d = -dims; d < 0; ++d) out.push_back(d);
  return out;
}

/// x with mean 0 and variance 1 over `dims`.
Tensor standardised(const Tensor& x, const Dims& dims, double eps, const Line& where) {
  const At at{where};
  const Tensor centred = at(x) - at(mean(x, dims, Keep::Keep, where));
  const Tensor variance = mean(at(centred) * at(centred), dims, Keep::Keep, where);
  return at(centred) * at(rsqrt(at(variance) + at(eps), where));
}

/// x * weight + bias. Weight and bias are optional, must have `sizes`, and are viewed as `seen`.
Tensor scaled(std::string_view what, const Tensor& x, const Tensor& weight, const Tensor& bias,
              const std::vector<Expr>& sizes, const std::vector<Expr>& seen, const Line& where) {
  const At at{where};
  Tensor out = x;
  const auto part = [&](std::string_view name, const Tensor& given) {
    return at(view(of_sizes(what, name, given, sizes, where), seen, where));
  };
  if (!weight.empty()) out = at(out) * part("weight", weight);
  if (!bias.empty()) out = at(out) + part("bias", bias);
  return out;
}

std::vector<Expr> last_sizes(const Tensor& x, std::int64_t dims) {
  const std::vector<Expr> sizes = meta_of(x).sizes;
  return {sizes.end() - dims, sizes.end()};
}

}  // namespace

Tensor layer_norm(const Tensor& x, std::int64_t dims, const Tensor& weight, const Tensor& bias,
                  double eps, Line where) {
  const NamedCall call("layer_norm");
  const Dims over = last_dims("layer_norm", x, dims, where);
  if (is_low(x))
    return narrowed(layer_norm(widened(x, where), dims, widened(weight, where),
                               widened(bias, where), eps, where),
                    x.dtype(), InAutocast::StayF32, where);
  const std::vector<Expr> sizes = last_sizes(x, dims);
  return scaled("layer_norm", standardised(x, over, eps, where), weight, bias, sizes, sizes, where);
}

Tensor rms_norm(const Tensor& x, std::int64_t dims, const Tensor& weight, std::optional<double> eps,
                Line where) {
  const NamedCall call("rms_norm");
  const At at{where};
  const Dims over = last_dims("rms_norm", x, dims, where);
  if (is_low(x))
    return narrowed(rms_norm(widened(x, where), dims, widened(weight, where), eps, where),
                    x.dtype(), InAutocast::StayF32, where);
  const double least = x.dtype() == DType::F64 ? std::numeric_limits<double>::epsilon()
                                               : std::numeric_limits<float>::epsilon();
  const Tensor square = mean(at(x) * at(x), over, Keep::Keep, where);
  const Tensor root = rsqrt(at(square) + at(eps.value_or(least)), where);
  const std::vector<Expr> sizes = last_sizes(x, dims);
  return scaled("rms_norm", at(x) * at(root), weight, {}, sizes, sizes, where);
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps, Line where) {
  const NamedCall call("group_norm");
  need_floats("group_norm", x, where);
  if (is_low(x))
    return narrowed(group_norm(widened(x, where), groups, widened(weight, where),
                               widened(bias, where), eps, where),
                    x.dtype(), InAutocast::StayF32, where);
  const std::shared_ptr<Trace> trace = trace_of("group_norm", std::vector{x}, where);
  const std::vector<Expr> sizes = meta_of(x).sizes;
  if (sizes.size() < 2)
    refuse(where, "group_norm",
           fmt::format("takes [N, C, ..], not {}; the second dim has the channels",
                       meta_text(meta_of(x))));
  if (groups < 1 || sizes[1].constant().value_or(0) % groups != 0)
    refuse(where, "group_norm",
           fmt::format("{} groups do not share {} channels equally", groups, sizes[1].text()));
  trace->env().check(shapes::equal(mod(sizes[1], groups), 0), trace->here(where),
                     "group_norm needs as many channels in each group");
  Expr each = trace->env().simplify(floor_div(sizes[1], groups));
  for (std::size_t d = 2; d < sizes.size(); ++d) each = each * sizes[d];
  const Tensor parts = reshape(
      x, {trace->integer(sizes[0]), groups, trace->integer(trace->env().simplify(each))}, where);
  const Tensor y = view(standardised(parts, {2}, eps, where), sizes, where);
  std::vector<Expr> seen(sizes.size() - 1, Expr(1));
  seen[0] = sizes[1];
  return scaled("group_norm", y, weight, bias, {sizes[1]}, seen, where);
}

}  // namespace lockstep::worker
