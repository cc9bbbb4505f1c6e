#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/autodiff/autodiff.h>
#include <lockstep/worker/graph/op.h>
#include <lockstep/worker/language/operators.h>
#include <lockstep/worker/language/tensor_ops.h>
#include <lockstep/worker/opcheck/gradcheck.h>
#include <lockstep/worker/opcheck/single_rank.h>

namespace lockstep::worker {
namespace {

Status gradcheck_failure(std::string words) {
  return {Code::BadInput, "gradcheck: " + std::move(words), {}, {}};
}

/// Those that a sum can have weights for.
std::vector<Tensor> floats_of(const std::vector<Tensor>& outputs) {
  std::vector<Tensor> out;
  for (const Tensor& output : outputs)
    if (is_float(output.dtype())) out.push_back(output);
  return out;
}

std::vector<std::int64_t> place_of(std::int64_t element, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> place(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0; element /= sizes[d]) place[d] = element % sizes[d];
  return place;
}

/// One function at one point.
class GradientCheck {
 public:
  GradientCheck(const TracedFunction& f, const std::vector<Array>& inputs,
                const GradcheckOptions& options)
      : f_(f), inputs_(inputs), options_(options), random_(options.seed) {}

  Result<void> run() {
    for (std::size_t k = 0; k < inputs_.size(); ++k)
      if (is_float(inputs_[k].dtype()) && inputs_[k].dtype() != DType::F64)
        return gradcheck_failure(fmt::format("input {} is {}, and differences need f64", k,
                                             dtype_name(inputs_[k].dtype())));
    if (std::ranges::none_of(inputs_, [](const Array& x) { return x.dtype() == DType::F64; }))
      return gradcheck_failure("the function takes no floats");
    auto forward = trace_on_one_rank("gradcheck", fixed_sizes(inputs_),
                                     [&](const auto& x) { return floats_of(f_(x)); });
    if (!forward) return forward.error();
    forward_ = *std::move(forward);
    if (forward_.outputs.empty()) return gradcheck_failure("the function gives no floats");
    const auto outputs = interpret_on_one_rank(forward_, inputs_);
    if (!outputs) return outputs.error();
    for (const Array& output : *outputs) weights_.push_back(weights_for(output));
    const auto grads = gradients();
    if (!grads) return grads.error();
    for (std::size_t k = 0, of = 0; k < inputs_.size(); ++k)
      if (inputs_[k].dtype() == DType::F64)
        if (auto done = compare(k, (*grads)[of++]); !done) return done;
    if (worst_.empty()) return {};
    return gradcheck_failure(worst_);
  }

 private:
  Array weights_for(const Array& output) {
    Array weights(DType::F64, output.sizes());
    for (std::int64_t i = 0; i < weights.elements(); ++i)
      weights.set(i, 0.5 + static_cast<double>(random_() >> 11) * 0x1p-53);
    return weights;
  }

  /// By each f64 input, of the weighted sum.
  Result<std::vector<Array>> gradients() const {
    std::vector<Array> all = inputs_;
    all.insert(all.end(), weights_.begin(), weights_.end());
    const auto backward =
        trace_on_one_rank("gradcheck", fixed_sizes(all), [&](const std::vector<Tensor>& given) {
          const auto count = static_cast<std::ptrdiff_t>(inputs_.size());
          const std::vector<Tensor> x(given.begin(), given.begin() + count);
          const std::vector<Tensor> outputs = floats_of(f_(x));
          Tensor loss;
          for (std::size_t j = 0; j < outputs.size(); ++j) {
            const Tensor part = sum(cast(outputs[j], DType::F64) * given[inputs_.size() + j]);
            loss = loss.empty() ? part : loss + part;
          }
          std::vector<Tensor> by;
          for (std::size_t k = 0; k < inputs_.size(); ++k)
            if (inputs_[k].dtype() == DType::F64) by.push_back(x[k]);
          return grad(loss, by);
        });
    if (!backward) return backward.error();
    return interpret_on_one_rank(*backward, all);
  }

  /// The weighted sum where element `i` of input `k` is moved by `by`.
  Result<double> sum_at(std::size_t k, std::int64_t i, double by) const {
    std::vector<Array> moved = inputs_;
    moved[k] = moved[k].clone();
    moved[k].set(i, moved[k].at(i) + by);
    const auto outputs = interpret_on_one_rank(forward_, moved);
    if (!outputs) return outputs.error();
    double total = 0;
    for (std::size_t j = 0; j < outputs->size(); ++j)
      for (std::int64_t e = 0; e < weights_[j].elements(); ++e)
        total += (*outputs)[j].at(e) * weights_[j].at(e);
    return total;
  }

  std::vector<std::int64_t> chosen(std::int64_t count) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int64_t>(i);
    if (count <= options_.elements) return out;
    for (std::size_t i = 0; i < static_cast<std::size_t>(options_.elements); ++i)
      std::swap(out[i], out[i + random_() % (out.size() - i)]);
    out.resize(static_cast<std::size_t>(options_.elements));
    return out;
  }

  Result<void> compare(std::size_t k, const Array& gradient) {
    for (const std::int64_t i : chosen(inputs_[k].elements())) {
      const double x = inputs_[k].at(i), step = options_.step * std::max(1.0, std::abs(x));
      const auto above = sum_at(k, i, step), below = sum_at(k, i, -step);
      if (!above) return above.error();
      if (!below) return below.error();
      // What was really moved by, after rounding.
      const double slope = (*above - *below) / ((x + step) - (x - step)), got = gradient.at(i);
      double error = std::abs(slope - got) / std::max({1.0, std::abs(slope), std::abs(got)});
      if (std::isnan(error)) error = HUGE_VAL;
      if (error <= std::max(options_.tolerance, worst_error_)) continue;
      worst_error_ = error;
      worst_ = fmt::format(
          "the gradient by input {} at [{}] is {:.9g}, but finite differences give {:.9g} (the "
          "input "
          "is {:.9g} there)",
          k, fmt::join(place_of(i, inputs_[k].sizes()), ", "), got, slope, x);
    }
    return {};
  }

  const TracedFunction& f_;
  const std::vector<Array>& inputs_;
  const GradcheckOptions& options_;
  std::mt19937_64 random_;
  Graph forward_;
  std::vector<Array> weights_;
  double worst_error_ = 0;
  std::string worst_;
};

}  // namespace

Result<void> gradcheck(const TracedFunction& f, const std::vector<Array>& inputs,
                       const GradcheckOptions& options) {
  return GradientCheck(f, inputs, options).run();
}

}  // namespace lockstep::worker
