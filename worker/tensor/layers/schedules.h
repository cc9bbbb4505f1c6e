// Learning rates that follow the number of steps made. Each is a function of a step and gives a
// float for an optimiser's rate. The step is a SymInt input or a 0-d tensor, as in an optimiser's
// state, so no step compiles anew. Meanings follow the schedulers of torch.optim.lr_scheduler,
// whose names are given. A step that is a plain number would be a constant of the program; it is
// refused with the user's line.
//
//   const SymFloat rate = sequential_rate(step, 100, linear_rate(1e-3, step, 100, 0.01),
//                                         cosine_rate(1e-3, step - 100, 900));
#pragma once

#include <cstdint>

#include <lockstep/worker/tensor/trace/tensor.h>

namespace lockstep::worker {

/// ConstantLR: rate * factor for `steps` steps, then the rate.
[[nodiscard]] SymFloat constant_rate(const SymFloat& rate, const TensorOperand& step,
                                     std::int64_t steps = 5, double factor = 1.0 / 3);
/// LinearLR: rate * `from` at first, then in equal steps to rate * `to`, reached at step `steps`.
[[nodiscard]] SymFloat linear_rate(const SymFloat& rate, const TensorOperand& step,
                                   std::int64_t steps = 5, double from = 1.0 / 3, double to = 1);
/// StepLR: multiplied by gamma after every `every` steps.
[[nodiscard]] SymFloat step_rate(const SymFloat& rate, const TensorOperand& step,
                                 std::int64_t every, double gamma = 0.1);
/// ExponentialLR: multiplied by gamma after every step.
[[nodiscard]] SymFloat exponential_rate(const SymFloat& rate, const TensorOperand& step,
                                        double gamma);
/// CosineAnnealingLR: half a wave from the rate down to `least` in `steps` steps, and up again.
[[nodiscard]] SymFloat cosine_rate(const SymFloat& rate, const TensorOperand& step,
                                   std::int64_t steps, double least = 0);
/// SequentialLR of two: `before` for `steps` steps, then `after`, a function of step - steps.
[[nodiscard]] SymFloat sequential_rate(const TensorOperand& step, std::int64_t steps,
                                       const SymFloat& before, const SymFloat& after);

}  // namespace lockstep::worker
