// Operators, with a tensor or a number on either side.
#include "op_samples.h"

#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker::samples {
namespace {

struct Sides {
  TensorOperand a, b;
};
/// Two tensors; or of the arguments a number, and whether it stands on the left.
Sides sides(In x, Arguments n) {
  if (x.size() > 1) return {x[0], x[1]};
  const TensorOperand number = operand_of(n.at(0));
  return n.at(1).get<bool>() ? Sides{number, x[0]} : Sides{x[0], number};
}

/// torch divides ints as f32.
Sides fractions(In x, Arguments n) {
  std::vector<Tensor> floats;
  for (const Tensor& one : x) floats.push_back(is_float(one.dtype()) ? one : cast(one, DType::F32));
  return sides(floats, n);
}
/// torch takes what is not 0 as true.
Sides truths(In x, Arguments n) {
  std::vector<Tensor> bools;
  for (const Tensor& one : x) bools.push_back(one.dtype() == DType::Bool ? one : one != 0);
  return sides(bools, n);
}
Tensor cut_quotient(const TensorOperand& a, const TensorOperand& b) {
  const Tensor& x = a.tensor.empty() ? b.tensor : a.tensor;
  return is_float(x.dtype()) ? trunc(a / b) : (a - fmod(a, b)) / b;
}

}  // namespace

// clang-format off
#define SIDES(name, of, result) {name, [](In x, Arguments n) { \
    const auto [a, b] = of(x, n); return std::vector<Tensor>{result}; }}
Functions operators() {
  return {
    SIDES("+", sides, a + b), SIDES("-", sides, a - b), SIDES("*", sides, a * b), SIDES("/", fractions, a / b),
    SIDES("%", sides, a % b), SIDES("/ rounded down", sides, floor_divide(a, b)),
    SIDES("/ cut", sides, cut_quotient(a, b)), SIDES("**", sides, pow(a, b)),
    SIDES("<", sides, a < b), SIDES("<=", sides, a <= b), SIDES(">", sides, a > b), SIDES(">=", sides, a >= b),
    SIDES("==", sides, a == b), SIDES("!=", sides, a != b),
    SIDES("&", sides, a & b), SIDES("|", sides, a | b), SIDES("^", sides, a ^ b),
    SIDES("&&", truths, a & b), SIDES("||", truths, a | b), SIDES("!= of truths", truths, a ^ b),
    {"!", [](In x, Arguments n) { return std::vector{logical_not(truths({x[0], x[0]}, n).a.tensor)}; }},
    {"+ times", [](In x, Arguments n) { return std::vector{x[0] + x[1] * operand_of(n.at(0))}; }},
  };
}
#undef SIDES
// clang-format on

}  // namespace lockstep::worker::samples
