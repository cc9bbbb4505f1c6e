// Optimisers. Each is a pure function from parameters, gradients and state to new parameters and
// state. Names, defaults and results are those of torch.optim. The number of steps is part of the
// state, not a constant of the program. So the program compiles once if the rate is a float input
// or comes from a schedule (schedules.h). Parameters of f16 and bf16 have master weights: f32
// copies in the state, on which steps are made. The state is f32; gradients may be f32 or of the
// parameter's dtype.
//
//   struct Input { Model model; AdamState adam; Batch batch; SymFloat rate; ... fields() ... };
//   const std::vector<Tensor> params = tensors_of(in.model);
//   const auto [after, state] = adamw(params, grad(loss, params), in.adam, {.rate = in.rate});
//   return Output{with_tensors(in.model, after), state};
//
// Before the first call: `input.adam = adam_start(tensors_of(input.model))`.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <lockstep/worker/tensor/language/inputs.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker {

namespace detail {

/// Passes each tensor of a nested value to `on`, in order of the walk.
template <class On>
class TensorWalk : public NamelessWalk {
 public:
  explicit TensorWalk(On on) : on_(std::move(on)) {}
  void leaf(Tensor& tensor) { on_(tensor); }
  template <class T>
  void leaf(T&) {}

 private:
  On on_;
};
template <class T, class On>
void for_tensors(T& nested, On on) {
  TensorWalk<On> walk(std::move(on));
  FieldWalk<TensorWalk<On>>(walk).walk(nested);
}

}  // namespace detail

/// The tensors of a nested value, in the order of the walk over inputs (language/inputs.h).
template <class T>
[[nodiscard]] std::vector<Tensor> tensors_of(T nested) {
  std::vector<Tensor> out;
  detail::for_tensors(nested, [&](Tensor& tensor) { out.push_back(tensor); });
  return out;
}
/// `nested` with `tensors` in place of its own, in order. Throws std::out_of_range if there are too
/// few.
template <class T>
[[nodiscard]] T with_tensors(T nested, const std::vector<Tensor>& tensors) {
  std::size_t next = 0;
  detail::for_tensors(nested, [&](Tensor& tensor) { tensor = tensors.at(next++); });
  return nested;
}

/// Result of a step.
template <class State>
struct Updated {
  std::vector<Tensor> params;
  State state;
};

struct SgdState {
  Tensor step;                    // 0-d i64: number of steps made
  std::vector<Tensor> momentum;   // one per parameter; none without momentum
  std::vector<Tensor> masters{};  // f32, one per parameter of f16 or bf16
  template <class V>
  void fields(V& v) {
    v("step", step), v("momentum", momentum), v("masters", masters);
  }
};
struct SgdOptions {
  SymFloat rate = 1e-3;
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
/// Zeros and master weights: concrete ones for concrete parameters.
[[nodiscard]] SgdState sgd_start(const std::vector<Tensor>& params, const SgdOptions& options = {},
                                 Line where = Line::current());
[[nodiscard]] Updated<SgdState> sgd(const std::vector<Tensor>& params,
                                    const std::vector<Tensor>& grads, const SgdState& state,
                                    const SgdOptions& options = {}, Line where = Line::current());

struct AdamState {
  Tensor step;                        // 0-d i64: number of steps made
  std::vector<Tensor> first, second;  // moments, one per parameter
  std::vector<Tensor> masters{};      // f32, one per parameter of f16 or bf16
  template <class V>
  void fields(V& v) {
    v("step", step), v("first", first), v("second", second), v("masters", masters);
  }
};
struct AdamOptions {
  SymFloat rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  std::optional<double> weight_decay{};  // by default 0, for adamw 0.01
};
[[nodiscard]] AdamState adam_start(const std::vector<Tensor>& params, Line where = Line::current());
/// Kingma and Ba 2015, with both bias corrections; adds weight decay to the gradients.
[[nodiscard]] Updated<AdamState> adam(const std::vector<Tensor>& params,
                                      const std::vector<Tensor>& grads, const AdamState& state,
                                      const AdamOptions& options = {},
                                      Line where = Line::current());
/// Loshchilov and Hutter 2019: weight decay applies to the parameters, not to the gradients.
[[nodiscard]] Updated<AdamState> adamw(const std::vector<Tensor>& params,
                                       const std::vector<Tensor>& grads, const AdamState& state,
                                       const AdamOptions& options = {},
                                       Line where = Line::current());

struct AdafactorState {
  Tensor step;  // 0-d i64: number of steps made
  // For each parameter [.., N, M]: mean squares of rows [.., N, 1] and columns [.., 1, M]. For a
  // parameter with fewer dims: its mean squares.
  std::vector<std::vector<Tensor>> factors;
  std::vector<Tensor> masters{};  // f32, one per parameter of f16 or bf16
  template <class V>
  void fields(V& v) {
    v("step", step), v("factors", factors), v("masters", masters);
  }
};
struct AdafactorOptions {
  SymFloat rate = 1e-2;  // largest step relative to the parameter; also for weight decay
  double beta2_decay = -0.8;
  std::optional<double> eps1{};  // by default the distance from 1 to the dtype's next number
  double eps2 = 1e-3;            // least size assumed for a parameter
  double clip = 1;               // largest root mean square of an update: torch's d
  double weight_decay = 0.01;
};
[[nodiscard]] AdafactorState adafactor_start(const std::vector<Tensor>& params,
                                             Line where = Line::current());
/// Shazeer and Stern 2018, as in torch.
[[nodiscard]] Updated<AdafactorState> adafactor(const std::vector<Tensor>& params,
                                                const std::vector<Tensor>& grads,
                                                const AdafactorState& state,
                                                const AdafactorOptions& options = {},
                                                Line where = Line::current());

}  // namespace lockstep::worker
