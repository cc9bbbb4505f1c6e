// Elementwise ops, and values read back.
#include "op_case_lists.h"

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::test {
namespace {

using ElementFill = CaseInput::Fill;
using ElementIn = const std::vector<Tensor>&;

Tensor nan_to_zero(const Tensor& x, Line where) { return nan_to_num(x, 0, {}, {}, where); }
OpCase unary(const std::string& name, Tensor (*op)(const Tensor&, Line),
             ElementFill fill = ElementFill::Signed) {
  return {
      name, {{fill, {kN, kM}}}, [op](Trace&, ElementIn x) { return op(x[0], Line::current()); }};
}
OpCase binary(const std::string& name, Tensor (*op)(const TensorOperand&, const TensorOperand&),
              ElementFill fill = ElementFill::Signed) {
  return {name, {{fill, {kN, kM}}, {fill, {kN, kM}}}, [op](Trace&, ElementIn x) {
            return op(x[0], x[1]);
          }};
}

void add_arithmetic(std::vector<OpCase>& cases) {
  cases.push_back(unary("neg", neg));
  cases.push_back(unary("abs", abs));
  cases.push_back(unary("exp", exp));
  cases.push_back(unary("log", log, ElementFill::Positive));
  cases.push_back(unary("sqrt", sqrt, ElementFill::Positive));
  cases.push_back(unary("rsqrt", rsqrt, ElementFill::Positive));
  cases.push_back(unary("tanh", tanh));
  cases.push_back(unary("sigmoid", sigmoid));
  cases.push_back(unary("relu", relu));
  cases.push_back(unary("gelu", gelu));
  cases.push_back(unary("silu", silu));
  cases.push_back(unary("detach", [](const Tensor& x, Line l) { return x * detach(x, l); }));
  cases.push_back(binary("add", operator+));
  cases.push_back(binary("sub", operator-));
  cases.push_back(binary("mul", operator*));
  cases.push_back(binary("div", operator/, ElementFill::Positive));
  cases.push_back(binary("maximum", maximum));
  cases.push_back(binary("minimum", minimum));
  cases.push_back(binary("where", [](const TensorOperand& a, const TensorOperand& b) {
    return where(a < b, a * 2.0, b);
  }));
  cases.push_back({"flags",
                   {{ElementFill::Signed, {kN, kM}}, {ElementFill::Signed, {kN, kM}}},
                   [](Trace&, ElementIn x) {
                     const Tensor a = (x[0] > x[1]) | (x[0] <= -1.0),
                                  b = (x[0] >= 0.5) & logical_not(x[1] < 0.0);
                     const Tensor same = (x[0] == x[1]) | (a != b);
                     return where(same, x[0], x[1] * 3.0);
                   }});
  cases.push_back({"ints",
                   {{ElementFill::Order, {kN}}, {ElementFill::Signed, {kN}}},
                   [](Trace& t, ElementIn x) {
                     const Tensor i = (x[0] * 3 + iota({x[0].size(0)}, 0)) % 4 - x[0] / 2;
                     return x[1] * cast(i, DType::F64) + cast(t.rank(), DType::F64);
                   }});
  cases.push_back({"cast", {{ElementFill::Signed, {kN, kM}}}, [](Trace&, ElementIn x) {
                     return x[0] * cast(cast(x[0] * 2.0, DType::I64), DType::F64) +
                            cast(cast(x[0], DType::F32), DType::F64) * 0.0;
                   }});
  cases.push_back({"numbers", {{ElementFill::Signed, {kN, kM}}}, [](Trace&, ElementIn x) {
                     return (2.0 - x[0]) / 4.0 + x[0] * x[0].size(0) + 1 - -x[0];
                   }});
}

void add_functions(std::vector<OpCase>& cases) {
  for (const auto& [name, op] :
       std::vector<std::pair<std::string, Tensor (*)(const Tensor&, Line)>>{
           {"exp2", exp2},
           {"expm1", expm1},
           {"sin", sin},
           {"cos", cos},
           {"tan", tan},
           {"erf", erf},
           {"gelu_exact", gelu_exact},
           {"nan", nan_to_zero}})
    cases.push_back(unary(name, op));
  cases.push_back(unary("log2", log2, ElementFill::Positive));
  cases.push_back(unary("log1p", log1p, ElementFill::Positive));
  cases.push_back(
      unary("softplus", [](const Tensor& x, Line l) { return softplus(x * 3.0, 1.5, 2, l); }));
  cases.push_back(
      unary("leaky_relu", [](const Tensor& x, Line l) { return leaky_relu(x, 0.2, l); }));
  cases.push_back(unary("elu", [](const Tensor& x, Line l) { return elu(x, 1.3, l); }));
  cases.push_back(unary("rounded", [](const Tensor& x, Line) {
    const Tensor y = x * 3.0;
    return x * (floor(y) + ceil(y) * 2.0 + round(y) * 3.0 + trunc(y) * 5.0 + sign(y) * 7.0);
  }));
  cases.push_back(unary("powers", [](const Tensor& x, Line) {
    return pow(x, 3) + pow(x, -1) + pow(x, 4) + pow(2, x);
  }));
  cases.push_back(unary(
      "roots", [](const Tensor& x, Line) { return pow(x, 0.5) + pow(x, -0.5) * pow(x, 1.7); },
      ElementFill::Positive));
  cases.push_back(binary("pow", pow, ElementFill::Positive));
  cases.push_back(binary("atan2", atan2));
  cases.push_back(binary("fmod", fmod));
  cases.push_back(binary("remainder", remainder));
  cases.push_back(binary("floor_divide", [](const TensorOperand& a, const TensorOperand& b) {
    return a * floor_divide(a, b);
  }));
  cases.push_back({"clamp",
                   {{ElementFill::Signed, {kN, kM}},
                    {ElementFill::Signed, {kN, kM}},
                    {ElementFill::Signed, {kM}}},
                   [](Trace&, ElementIn x) {
                     return clamp(x[0], x[1], x[2]) + clamp(x[0], -0.5, 0.75) * 3.0 +
                            clamp(x[0], 0, x[0].size(0)) * 7.0;
                   }});
  cases.push_back(
      {"bits", {{ElementFill::Order, {kN}}, {ElementFill::Signed, {kN}}}, [](Trace&, ElementIn x) {
         const Tensor shifted = (x[0] << 2) >> 1;
         const Tensor i = ((x[0] & 5) | 2) ^ ~(shifted + fmod(x[0], 3));
         const Tensor kept = isfinite(x[1]) ^ isinf(x[1]) ^ isnan(x[1]);
         return where(kept, x[1], 0.0) * cast(i, DType::F64);
       }});
  cases.push_back({"sizes", {{ElementFill::Signed, {kN, kM}}}, [](Trace&, ElementIn x) {
                     const SymInt n = x[0].size(0);
                     const Tensor y = (n + x[0]) / (x[0] * x[0] + n * 0.5 + 1.0) - n % (x[0] + 9.0);
                     return where((n > x[0]) & (x[0] < n + 1), y, n) * (n * 0.25 + 1) - n;
                   }});
}

void add_named_functions(std::vector<OpCase>& cases) {
  cases.push_back(unary("round_decimals", [](const Tensor& x, Line l) {
    return x * (round(x * 30.0, 1, l) + round(x * 3000.0, -2, l));
  }));
  cases.push_back(binary("one_bound", [](const TensorOperand& a, const TensorOperand& b) {
    return clamp_min(a.tensor, b) * clamp_max(a.tensor, 0.4) + clamp_max(b.tensor, a);
  }));
  cases.push_back({"bitwise",
                   {{ElementFill::Order, {kN}}, {ElementFill::Signed, {kN}}},
                   [](Trace&, ElementIn x) {
                     const Tensor i = bitwise_xor(bitwise_or(bitwise_and(x[0], 5), 2),
                                                  bitwise_not(bitwise_left_shift(x[0], 3)));
                     return x[1] * cast(bitwise_right_shift(i, 1), DType::F64);
                   }});
  cases.push_back({"item_bool", {{ElementFill::Signed, {kN, kM}}}, [](Trace&, ElementIn x) {
                     check(item_bool(all(isfinite(x[0]))), "finite numbers");
                     return exp(x[0]);
                   }});
  cases.push_back({"filled", {{ElementFill::Signed, {kN, kM}}}, [](Trace& t, ElementIn x) {
                     const Tensor row = ones({1, x[0].size(1)}, DType::F64) +
                                        ones(t, {1}, DType::F64) +
                                        zeros({x[0].size(0), 1}, DType::F64);
                     return row * full_like(x[0], 1.5) + zeros_like(x[0]) * x[0] + x[0];
                   }});
}

}  // namespace

void add_elementwise(std::vector<OpCase>& cases) {
  add_arithmetic(cases);
  add_functions(cases);
  add_named_functions(cases);
}

}  // namespace lockstep::worker::test
