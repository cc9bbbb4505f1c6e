#include "own_ops.h"

#include <cmath>
#include <stdexcept>

#include <lockstep/worker/tensor/language/operators.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::test {
namespace {

double swish_of(double x) { return x / (1 + std::exp(-x)); }

void swish_function(const void* const* inputs, void* result, const std::int64_t* sizes) {
  const auto* x = static_cast<const double*>(inputs[0]);
  for (std::int64_t i = 0; i < sizes[0] * sizes[1]; ++i)
    static_cast<double*>(result)[i] = swish_of(x[i]);
}

constexpr const char* kSwishText =
    "for (long i = thread; i < count; i += threads)\n  out[i] = in0[i] / (T(1) + exp_(-in0[i]));";

}  // namespace

OwnDefinition swish_definition() {
  OwnDefinition swish;
  swish.name = "test.swish";
  swish.version = "1";
  swish.shape_rule = [](std::span<const TensorMeta> inputs) {
    if (inputs.size() != 1 || inputs[0].dtype != DType::F64 || inputs[0].sizes.size() != 2)
      throw std::invalid_argument("it takes one matrix of f64");
    return inputs[0];
  };
  swish.reference = [](std::span<const Array> inputs, Array& result) {
    for (std::int64_t i = 0; i < result.elements(); ++i) result.set(i, swish_of(inputs[0].at(i)));
  };
  swish.function = swish_function;
  swish.host_text = swish.cuda_text = kSwishText;
  return swish;
}

OwnOp swish() {
  return OwnOp(swish_definition(), [](const BackwardCall& call) {
    const Tensor& x = call.inputs[0];
    const Tensor s = sigmoid(x);
    return std::vector{call.grads[0] * (s + call.outputs[0] * (1.0 - s))};
  });
}

OwnDefinition weighted_rows_definition() {
  OwnDefinition rows;
  rows.name = "test.weighted_rows";
  rows.version = "1";
  rows.shape_rule = [](std::span<const TensorMeta> inputs) {
    return TensorMeta{inputs[0].dtype, {inputs[0].sizes[0]}};
  };
  rows.reference = [](std::span<const Array> inputs, Array& result) {
    const std::int64_t columns = inputs[0].sizes()[1];
    for (std::int64_t i = 0; i < result.elements(); ++i) {
      double total = 0;
      for (std::int64_t j = 0; j < columns; ++j)
        total += inputs[0].at(i * columns + j) * inputs[1].at(j);
      result.set(i, total);
    }
  };
  return rows;
}

OwnOp weighted_rows() {
  return OwnOp(weighted_rows_definition(), [](const BackwardCall& call) {
    const Tensor by_row = expand(unsqueeze(call.grads[0], 1), call.inputs[0].sizes());
    return std::vector{by_row * unsqueeze(call.inputs[1], 0), sum(by_row * call.inputs[0], {0})};
  });
}

}  // namespace lockstep::worker::test
