// Random numbers: the last tensor of a sample is the key, the first one has the sizes.
#include "op_samples.h"

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/language/random_ops.h>

namespace lockstep::worker::samples {
namespace {

RankKey key_of(In x) { return RankKey(x.back()); }
/// f32 and f64 are drawn; others are casts.
Draw draw_of(DType dtype) { return {.dtype = dtype == DType::F64 ? DType::F64 : DType::F32}; }

Tensor uniform_of(In x, Arguments n) {
  const DType dtype = dtype_of(n.at(2));
  const double low = n.at(0), high = n.at(1);
  return cast(uniform(key_of(x), x[0].sizes(), low, high, draw_of(dtype)), dtype);
}

/// Mean and deviation are numbers, or null: the next tensor.
Tensor normal_of(In x, Arguments n) {
  const DType dtype = dtype_of(n.at(2));
  const Tensor drawn = cast(normal(key_of(x), x[0].sizes(), draw_of(dtype)), dtype);
  if (!n.at(0).is_null() && !n.at(1).is_null())
    return cast(normal(key_of(x), x[0].sizes(), n.at(0), n.at(1), draw_of(dtype)), dtype);
  std::size_t next = 1;
  const auto operand = [&](Arguments number) -> TensorOperand {
    return number.is_null() ? TensorOperand(x.at(next++)) : operand_of(number);
  };
  const TensorOperand mean = operand(n.at(0)), deviation = operand(n.at(1));
  return drawn * deviation + mean;
}

Tensor bernoulli_of(In x) {
  const DType dtype = x[0].dtype();
  const Tensor p = cast(x[0], dtype == DType::F64 ? dtype : DType::F32);
  return cast(bernoulli(key_of(x), p), dtype);
}

/// `n` places of the last dim by their weights; without replacement the largest of noisy logits.
Tensor multinomial_of(In x, Arguments n) {
  const Tensor logits = log(x[0]);
  const SymInt count(n.at(0).get<std::int64_t>());
  if (n.at(1).get<bool>()) {
    Sizes sizes = logits.sizes();
    sizes.insert(sizes.end() - 1, count);
    return categorical(key_of(x), expand(unsqueeze(logits, -2), sizes), -1);
  }
  const Tensor noise = uniform(key_of(x), logits.sizes(), draw_of(logits.dtype()));
  return topk(logits - cast(log(-log(noise)), logits.dtype()), count).indices;
}

}  // namespace

// clang-format off
Functions random() {
  return {
    {"uniform", [](In x, Arguments n) { return std::vector{uniform_of(x, n)}; }},
    {"normal", [](In x, Arguments n) { return std::vector{normal_of(x, n)}; }},
    {"bernoulli", [](In x, Arguments) { return std::vector{bernoulli_of(x)}; }},
    {"randint", [](In x, Arguments n) {
       const SymInt low(n.at(0).get<std::int64_t>()), high(n.at(1).get<std::int64_t>());
       return std::vector{cast(randint(key_of(x), x[0].sizes(), low, high), dtype_of(n.at(2)))}; }},
    {"multinomial", [](In x, Arguments n) { return std::vector{multinomial_of(x, n)}; }},
    {"dropout", [](In x, Arguments n) { return std::vector{dropout(x[0], n.at(0).get<double>(), key_of(x))}; }},
    {"permutation", [](In x, Arguments) {
       const Tensor order = permutation(key_of(x), x[0].size(0));
       return std::vector{order, argsort(order, 0)}; }},
  };
}
// clang-format on

}  // namespace lockstep::worker::samples
