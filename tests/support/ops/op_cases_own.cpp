// Own ops of users, and host calls with a gradient.
#include "op_case_lists.h"
#include "own_ops.h"

#include <lockstep/worker/tensor/autodiff/custom_backward.h>
#include <lockstep/worker/tensor/language/operators.h>
#include <lockstep/worker/tensor/user_ops/host_call.h>

namespace lockstep::worker::test {
namespace {

using OwnFill = CaseInput::Fill;
using OwnIn = const std::vector<Tensor>&;

Tensor square_on_host(const Tensor& x) {
  return host_call(
      "test.square", {x}, [](auto inputs) { return inputs[0]; },
      [](std::span<const Array> inputs, Array& result) {
        for (std::int64_t i = 0; i < result.elements(); ++i)
          result.set(i, inputs[0].at(i) * inputs[0].at(i));
      });
}

}  // namespace

void add_own(std::vector<OpCase>& cases) {
  cases.push_back(
      {"own_op", {{OwnFill::Signed, {kN, kM}}, {OwnFill::Signed, {kM}}}, [](Trace&, OwnIn x) {
         check(x[0].size(1) == x[1].size(0));
         return weighted_rows()({swish()({x[0]}), x[1]});
       }});
  cases.push_back({"host_call", {{OwnFill::Signed, {kN, kM}}}, [](Trace&, OwnIn x) {
                     const auto square = custom_backward(
                         [](OwnIn in) { return std::vector{square_on_host(in[0])}; },
                         [](const BackwardCall& call) {
                           return std::vector{call.grads[0] * call.inputs[0] * 2.0};
                         });
                     return square({x[0]})[0] + x[0];
                   }});
}

}  // namespace lockstep::worker::test
