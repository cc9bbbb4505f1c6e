#include <numbers>

#include <fmt/format.h>

#include <lockstep/worker/tensor/layers/operands.h>
#include <lockstep/worker/tensor/layers/schedules.h>

namespace lockstep::worker {
namespace {

/// The step as 0-d f64.
Tensor number_of(std::string_view what, const TensorOperand& step) {
  const Line& where = step.where;
  if (step.plain)
    refuse(where, what,
           "the step is a plain number here, so a constant of the program; pass it in as SymInt, "
           "or take the optimiser's");
  const Tensor number = step.count ? scalar(*step.count, where) : step.tensor;
  if (number.ndim(where) != 0)
    refuse(where, what,
           fmt::format("the step is {}, and has to be 0-d", meta_text(meta_of(number))));
  return cast(number, DType::F64, where);
}
void need_positive(std::string_view what, std::string_view name, std::int64_t n,
                   const Line& where) {
  if (n < 1) refuse(where, what, fmt::format("{} is {}, and has to be at least 1", name, n));
}
SymFloat times(const SymFloat& rate, const Tensor& factor, const Line& where) {
  const At at{where};
  return SymFloat(at(rate) * at(factor));
}
Tensor chosen(const Tensor& condition, const TensorOperand& yes, const TensorOperand& no) {
  return lockstep::worker::where(condition, yes, no);
}

}  // namespace

SymFloat constant_rate(const SymFloat& rate, const TensorOperand& step, std::int64_t steps,
                       double factor) {
  const Line& where = step.where;
  const At at{where};
  const TensorOperand n(number_of("constant_rate", step), where);
  const Tensor early = n < at(static_cast<double>(steps));
  const Tensor one = full_like(n.tensor, 1, where);
  return times(rate, chosen(early, at(factor), at(one)), where);
}

SymFloat linear_rate(const SymFloat& rate, const TensorOperand& step, std::int64_t steps,
                     double from, double to) {
  const Line& where = step.where;
  const At at{where};
  need_positive("linear_rate", "steps", steps, where);
  const TensorOperand last(static_cast<double>(steps), where);
  const Tensor done = minimum(at(number_of("linear_rate", step)), last);
  const Tensor part = at(done) / last;
  const Tensor way = at(part) * at(to - from);
  return times(rate, at(way) + at(from), where);
}

SymFloat step_rate(const SymFloat& rate, const TensorOperand& step, std::int64_t every,
                   double gamma) {
  const Line& where = step.where;
  const At at{where};
  need_positive("step_rate", "every", every, where);
  const Tensor drops =
      floor_divide(at(number_of("step_rate", step)), at(static_cast<double>(every)));
  return times(rate, pow(at(gamma), at(drops)), where);
}

SymFloat exponential_rate(const SymFloat& rate, const TensorOperand& step, double gamma) {
  const Line& where = step.where;
  const At at{where};
  const TensorOperand n(number_of("exponential_rate", step), where);
  return times(rate, pow(at(gamma), n), where);
}

SymFloat cosine_rate(const SymFloat& rate, const TensorOperand& step, std::int64_t steps,
                     double least) {
  const Line& where = step.where;
  const At at{where};
  need_positive("cosine_rate", "steps", steps, where);
  const Tensor angle =
      at(number_of("cosine_rate", step)) * at(std::numbers::pi / static_cast<double>(steps));
  const Tensor wave = at(cos(angle, where)) + at(1.0);
  const Tensor part = at(wave) * at(0.5);
  const SymFloat height = rate - FloatOperand(least, where);
  return times(height, part, where) + FloatOperand(least, where);
}

SymFloat sequential_rate(const TensorOperand& step, std::int64_t steps, const SymFloat& before,
                         const SymFloat& after) {
  const Line& where = step.where;
  const At at{where};
  const TensorOperand n(number_of("sequential_rate", step), where);
  const Tensor early = n < at(static_cast<double>(steps));
  // A plain number takes the dtype of the other operand, or f64.
  const Tensor zero = full_like(n.tensor, 0, where);
  const Tensor first = at(zero) + at(before);
  return SymFloat(chosen(early, at(first), at(after)));
}

}  // namespace lockstep::worker
