#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/compile/opcheck/single_rank.h>
#include <lockstep/worker/compile/opcheck/traced_gradient.h>
#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/elementwise_ops.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {
namespace {

// With f32, roundings are 1e9 times as large, so the step is longer and the tolerance wider.
constexpr double kCoarseStep = 1e4, kCoarseTolerance = 1e3;

Status gradcheck_failure(std::string words) { return bad_input("gradcheck: " + std::move(words)); }

/// Returns each float output as f64, with every element multiplied by its own weight from 0.5 to
/// 1.5.
std::vector<Tensor> weighted(const std::vector<Tensor>& outputs, std::uint64_t seed) {
  std::vector<Tensor> out;
  for (const Tensor& output : outputs) {
    if (!is_float(output.dtype())) continue;
    const Sizes sizes = output.sizes();
    SymInt count = 1;
    for (const SymInt& size : sizes) count = count * size;
    const Tensor place = cast(arange(*output.trace(), count), DType::F64);
    const double phase = static_cast<double>(seed % 1000) + 0.37 * static_cast<double>(out.size());
    const Tensor weight = reshape(sin(place * 1.7 + phase) * 0.5 + 1.0, sizes);
    out.push_back(cast(output, DType::F64) * weight);
  }
  return out;
}

std::vector<std::int64_t> place_of(std::int64_t element, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> place(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0; element /= sizes[d]) place[d] = element % sizes[d];
  return place;
}

/// Returns all elements, or options.elements of them picked at random.
std::vector<std::int64_t> chosen(std::int64_t count, const GradcheckOptions& options,
                                 std::mt19937_64& random) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int64_t>(i);
  if (count <= options.elements) return out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.elements); ++i)
    std::swap(out[i], out[i + random() % (out.size() - i)]);
  out.resize(static_cast<std::size_t>(options.elements));
  return out;
}

/// Returns the slope of the weighted sum along element i of input k. Adds up differences of
/// outputs, so that outputs that do not change add no rounding.
Result<double> slope(const Graph& forward, const std::vector<Array>& inputs, std::size_t k,
                     std::int64_t i, double step) {
  std::vector<Array> above = inputs, below = inputs;
  above[k] = inputs[k].clone(), below[k] = inputs[k].clone();
  above[k].set(i, inputs[k].at(i) + step);
  below[k].set(i, inputs[k].at(i) - step);
  const auto high = interpret_on_one_rank(forward, above);
  if (!high) return high.error();
  const auto low = interpret_on_one_rank(forward, below);
  if (!low) return low.error();
  double rise = 0;
  for (std::size_t j = 0; j < high->size(); ++j)
    for (std::int64_t e = 0; e < (*high)[j].elements(); ++e)
      if ((*high)[j].at(e) != (*low)[j].at(e)) rise += (*high)[j].at(e) - (*low)[j].at(e);
  // Divided by the actual distance, after rounding.
  return rise / (above[k].at(i) - below[k].at(i));
}

}  // namespace

std::string no_differences(const std::vector<DType>& inputs) {
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (is_float(inputs[k]) && inputs[k] != DType::F64 && inputs[k] != DType::F32)
      return fmt::format("input {} is {}, and differences need f64 or f32", k,
                         dtype_name(inputs[k]));
  return std::ranges::any_of(inputs, [](DType dtype) { return is_float(dtype); })
             ? std::string()
             : "it takes no floats";
}

Result<TracedGradient> TracedGradient::trace(const Decision& inputs, const TracedFunction& f,
                                             std::uint64_t seed) {
  TracedGradient out;
  for (const SourceDecision& source : inputs.sources)
    out.coarse_ = out.coarse_ || source.spec.dtype == DType::F32;
  auto forward = trace_on_one_rank("gradcheck", inputs, [&](const std::vector<Tensor>& x) {
    const std::vector<Tensor> outputs = f(x);
    for (const Tensor& output : outputs)
      out.coarse_ = out.coarse_ || (is_float(output.dtype()) && output.dtype() != DType::F64);
    return weighted(outputs, seed);
  });
  if (!forward) return forward.error();
  out.forward_ = *std::move(forward);
  if (out.forward_.outputs.empty()) return gradcheck_failure("the function gives no floats");
  auto backward = trace_on_one_rank("gradcheck", inputs, [&](const std::vector<Tensor>& x) {
    Tensor loss;
    for (const Tensor& part : weighted(f(x), seed))
      loss = loss.empty() ? sum(part) : loss + sum(part);
    std::vector<Tensor> by;
    for (const Tensor& input : x)
      if (is_float(input.dtype())) by.push_back(input);
    return grad(loss, by);
  });
  if (!backward) return backward.error();
  out.backward_ = *std::move(backward);
  return out;
}

bool TracedGradient::takes(const shapes::Valuation& sizes) const {
  const auto hold = [&](const std::vector<shapes::Guard>& guards) {
    return std::ranges::all_of(guards, [&](const shapes::Guard& guard) {
      return guard.predicate.evaluate(sizes) == true;
    });
  };
  return hold(forward_.guards) && hold(backward_.guards);
}

Result<void> TracedGradient::compare(const std::vector<Array>& inputs,
                                     const GradcheckOptions& options) const {
  const auto gradients = interpret_on_one_rank(backward_, inputs);
  if (!gradients) return gradients.error();
  const double step = options.step * (coarse_ ? kCoarseStep : 1),
               allowed = options.tolerance * (coarse_ ? kCoarseTolerance : 1);
  std::mt19937_64 random(options.seed);
  double worst = 0;
  std::string words;
  for (std::size_t k = 0, of = 0; k < inputs.size(); ++k) {
    if (!is_float(inputs[k].dtype())) continue;
    const Array& gradient = (*gradients)[of++];
    for (const std::int64_t i : chosen(inputs[k].elements(), options, random)) {
      const double x = inputs[k].at(i), got = gradient.at(i);
      const auto found = slope(forward_, inputs, k, i, step * std::max(1.0, std::abs(x)));
      if (!found) return found.error();
      double error = std::abs(*found - got) / std::max({1.0, std::abs(*found), std::abs(got)});
      if (std::isnan(error)) error = HUGE_VAL;
      if (error <= std::max(allowed, worst)) continue;
      worst = error;
      words = fmt::format(
          "the gradient by input {} at [{}] is {:.9g}, but finite differences give {:.9g} (the "
          "input is {:.9g} there)",
          k, fmt::join(place_of(i, inputs[k].sizes()), ", "), got, *found, x);
    }
  }
  if (words.empty()) return {};
  return gradcheck_failure(words);
}

}  // namespace lockstep::worker
