#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/tensor/layers/master_weights.h>
#include <lockstep/worker/tensor/layers/operands.h>
#include <lockstep/worker/tensor/layers/optimisers.h>

namespace lockstep::worker {
namespace {

/// Zeros of these sizes for a parameter: traced for a traced parameter, else concrete. f32 for f16
/// and bf16.
Tensor zeros_beside(const Tensor& param, const Sizes& sizes, const Line& where) {
  const DType dtype = is_half(param.dtype(where)) ? DType::F32 : param.dtype(where);
  if (param.traced()) return zeros(*param.trace(), sizes, dtype, where);
  std::vector<std::int64_t> numbers;
  for (const SymInt& size : sizes) numbers.push_back(size.to_int(where));
  return Array::zeros(dtype, std::move(numbers));
}
std::vector<Tensor> zeros_beside(const std::vector<Tensor>& params, const Line& where) {
  std::vector<Tensor> out;
  for (const Tensor& param : params) out.push_back(zeros_beside(param, param.sizes(where), where));
  return out;
}
Tensor no_steps(const std::vector<Tensor>& params, const Line& where) {
  if (!params.empty() && params[0].traced()) return scalar(*params[0].trace(), 0, where);
  return Array::zeros(DType::I64, {});
}

void need_parts(std::string_view what, std::size_t params, std::string_view name, std::size_t parts,
                const Line& where) {
  if (params != parts)
    refuse(where, what, fmt::format("{} parameters, but {} {}", params, parts, name));
}

/// Number of this step, from 1.
struct Count {
  Tensor whole, number;  // i64, f64
};
Count next_step(std::string_view what, const Tensor& steps, const Line& where) {
  const At at{where};
  (void)whole_numbers(what, "the number of steps", steps, where);
  const Tensor whole = at(steps) + at(1);
  return {whole, cast(whole, DType::F64, where)};
}

/// A 0-d f64 as a factor of any dtype.
TensorOperand factor(const Tensor& number, const Line& where) { return {SymFloat(number), where}; }
/// a + (b - a) * part
Tensor moved(const Tensor& a, const Tensor& b, const TensorOperand& part, const Line& where) {
  const At at{where};
  const Tensor way = at(b) - at(a);
  return at(a) + at(at(way) * part);
}
Tensor squared(const Tensor& x, const Line& where) {
  const At at{where};
  return at(x) * at(x);
}
/// param * (1 - rate * decay)
Tensor decayed(const Tensor& param, const SymFloat& rate, double decay, const Line& where) {
  const At at{where};
  if (decay == 0) return param;
  const SymFloat rest = SymFloat(1.0) - FloatOperand(rate * FloatOperand(decay, where), where);
  return at(param) * at(rest);
}

/// Runs `step` on f32 master weights in place of f16 and bf16 parameters.
template <class State, class Step>
Updated<State> on_masters(std::string_view what, const std::vector<Tensor>& params,
                          std::vector<Tensor> grads, const State& state, const Line& where,
                          Step step) {
  for (Tensor& grad : grads) grad = widened(grad, where);
  const std::vector<Tensor> wide = with_masters(what, params, state.masters, where);
  Updated<State> out = step(wide, grads);
  out.params = split_masters(params, out.params, out.state.masters, where);
  return out;
}

/// `direct`: weight decay applies to the parameter itself.
Updated<AdamState> adam_step(std::string_view what, const std::vector<Tensor>& params,
                             const std::vector<Tensor>& grads, const AdamState& state,
                             const AdamOptions& options, bool direct, const Line& where) {
  const At at{where};
  need_parts(what, params.size(), "gradients", grads.size(), where);
  need_parts(what, params.size(), "first moments", state.first.size(), where);
  need_parts(what, params.size(), "second moments", state.second.size(), where);
  const Count step = next_step(what, state.step, where);
  const double decay = options.weight_decay.value_or(direct ? 0.01 : 0);
  const auto correction = [&](double beta) -> Tensor {
    return at(1.0) - at(pow(at(beta), at(step.number)));
  };
  const Tensor size = at(options.rate) / at(correction(options.beta1));
  const Tensor root = sqrt(correction(options.beta2), where);
  Updated<AdamState> out{{}, {step.whole, {}, {}}};
  for (std::size_t i = 0; i < params.size(); ++i) {
    Tensor param = params[i], grad = grads[i];
    if (direct)
      param = decayed(param, options.rate, decay, where);
    else if (decay != 0)
      grad = at(grad) + at(at(param) * at(decay));
    const Tensor first = moved(state.first[i], grad, at(1 - options.beta1), where);
    const Tensor second = at(at(state.second[i]) * at(options.beta2)) +
                          at(at(squared(grad, where)) * at(1 - options.beta2));
    const Tensor scale = at(at(sqrt(second, where)) / factor(root, where)) + at(options.eps);
    const Tensor way = at(first) / at(scale);
    out.params.push_back(at(param) - at(at(way) * factor(size, where)));
    out.state.first.push_back(first);
    out.state.second.push_back(second);
  }
  return out;
}

/// sqrt(mean of x^2), f64.
Tensor root_mean_square(const Tensor& x, const Line& where) {
  return sqrt(cast(mean(squared(x, where), {}, Keep::Drop, where), DType::F64, where), where);
}

Updated<SgdState> sgd_step(const std::vector<Tensor>& params, const std::vector<Tensor>& grads,
                           const SgdState& state, const SgdOptions& options, const Line& where) {
  const At at{where};
  need_parts("sgd", params.size(), "gradients", grads.size(), where);
  const bool moves = options.momentum != 0;
  need_parts("sgd", moves ? params.size() : 0, "momenta", state.momentum.size(), where);
  if (options.nesterov && (!moves || options.dampening != 0))
    refuse(where, "sgd", "nesterov needs a momentum, and no dampening");
  const Count step = next_step("sgd", state.step, where);
  const Tensor is_first = at(state.step) == at(0);
  Updated<SgdState> out{{}, {step.whole, {}}};
  for (std::size_t i = 0; i < params.size(); ++i) {
    Tensor grad = grads[i];
    const auto plus = [&](const Tensor& x, double times) -> Tensor {
      return at(grad) + at(at(x) * at(times));
    };
    if (options.weight_decay != 0) grad = plus(params[i], options.weight_decay);
    if (moves) {
      const Tensor damped = at(grad) * at(1 - options.dampening);
      const Tensor kept = at(state.momentum[i]) * at(options.momentum);
      const Tensor momentum =
          lockstep::worker::where(is_first, at(grad), at(at(kept) + at(damped)));
      grad = options.nesterov ? plus(momentum, options.momentum) : momentum;
      out.state.momentum.push_back(momentum);
    }
    const Tensor way = at(grad) * at(options.rate);
    out.params.push_back(at(params[i]) - at(way));
  }
  return out;
}

Updated<AdafactorState> adafactor_step(const std::vector<Tensor>& params,
                                       const std::vector<Tensor>& grads,
                                       const AdafactorState& state, const AdafactorOptions& options,
                                       const Line& where) {
  const At at{where};
  constexpr std::string_view kWhat = "adafactor";
  need_parts(kWhat, params.size(), "gradients", grads.size(), where);
  need_parts(kWhat, params.size(), "factors", state.factors.size(), where);
  const Count step = next_step(kWhat, state.step, where);
  const TensorOperand number(step.number, where), one(1.0, where);
  const TensorOperand part = factor(pow(number, at(options.beta2_decay)), where);
  const Tensor largest = minimum(at(rsqrt(step.number, where)), at(options.rate));
  Updated<AdafactorState> out{{}, {step.whole, {}}};
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor &param = params[i], &grad = grads[i];
    const std::vector<Tensor>& factors = state.factors[i];
    const bool factored = param.ndim(where) > 1;
    if (factors.size() != (factored ? 2U : 1U))
      refuse(where, kWhat, "the state is of other parameters; begin with adafactor_start()");
    const double eps = options.eps1.value_or(param.dtype(where) == DType::F64
                                                 ? std::numeric_limits<double>::epsilon()
                                                 : std::numeric_limits<float>::epsilon());
    const Tensor squares = squared(grad, where);
    Tensor variance;
    if (factored) {
      const Tensor rows = moved(factors[0], mean(squares, {-1}, Keep::Keep, where), part, where),
                   columns = moved(factors[1], mean(squares, {-2}, Keep::Keep, where), part, where);
      const Tensor level = clamp_min(mean(rows, {-2}, Keep::Keep, where), at(eps));
      const Tensor products = at(rows) * at(columns);
      variance = at(products) / at(level);
      out.state.factors.push_back({rows, columns});
    } else {
      variance = moved(factors[0], squares, part, where);
      out.state.factors.push_back({variance});
    }
    const Tensor update = at(rsqrt(clamp_min(variance, at(eps * eps)), where)) * at(grad);
    const Tensor too_large = clamp_min(at(root_mean_square(update, where)) / at(options.clip), one);
    const Tensor size = clamp_min(root_mean_square(param, where), at(options.eps2));
    const Tensor times = at(at(size) * at(largest)) / at(too_large);
    const Tensor way = at(update) * factor(times, where);
    out.params.push_back(at(decayed(param, options.rate, options.weight_decay, where)) - at(way));
  }
  return out;
}

}  // namespace

SgdState sgd_start(const std::vector<Tensor>& params, const SgdOptions& options, Line where) {
  SgdState out{no_steps(params, where), {}, masters_of(params, where)};
  if (options.momentum != 0) out.momentum = zeros_beside(params, where);
  return out;
}

Updated<SgdState> sgd(const std::vector<Tensor>& params, const std::vector<Tensor>& grads,
                      const SgdState& state, const SgdOptions& options, Line where) {
  const NamedCall call("sgd");
  return on_masters("sgd", params, grads, state, where, [&](const auto& wide, const auto& given) {
    return sgd_step(wide, given, state, options, where);
  });
}

AdamState adam_start(const std::vector<Tensor>& params, Line where) {
  return {no_steps(params, where), zeros_beside(params, where), zeros_beside(params, where),
          masters_of(params, where)};
}
Updated<AdamState> adam(const std::vector<Tensor>& params, const std::vector<Tensor>& grads,
                        const AdamState& state, const AdamOptions& options, Line where) {
  const NamedCall call("adam");
  return on_masters("adam", params, grads, state, where, [&](const auto& wide, const auto& given) {
    return adam_step("adam", wide, given, state, options, false, where);
  });
}
Updated<AdamState> adamw(const std::vector<Tensor>& params, const std::vector<Tensor>& grads,
                         const AdamState& state, const AdamOptions& options, Line where) {
  const NamedCall call("adamw");
  return on_masters("adamw", params, grads, state, where, [&](const auto& wide, const auto& given) {
    return adam_step("adamw", wide, given, state, options, true, where);
  });
}

AdafactorState adafactor_start(const std::vector<Tensor>& params, Line where) {
  AdafactorState out{no_steps(params, where), {}, masters_of(params, where)};
  for (const Tensor& param : params) {
    Sizes sizes = param.sizes(where), columns = sizes;
    if (sizes.size() < 2) {
      out.factors.push_back({zeros_beside(param, sizes, where)});
      continue;
    }
    sizes.back() = 1;
    columns[columns.size() - 2] = 1;
    out.factors.push_back({zeros_beside(param, sizes, where), zeros_beside(param, columns, where)});
  }
  return out;
}

Updated<AdafactorState> adafactor(const std::vector<Tensor>& params,
                                  const std::vector<Tensor>& grads, const AdafactorState& state,
                                  const AdafactorOptions& options, Line where) {
  const NamedCall call("adafactor");
  return on_masters("adafactor", params, grads, state, where,
                    [&](const auto& wide, const auto& given) {
                      return adafactor_step(wide, given, state, options, where);
                    });
}

}  // namespace lockstep::worker
