#include "op_samples.h"

namespace lockstep::worker::samples {

// clang-format off
#define ONE(name) {#name, [](In x, Arguments) { return std::vector{name(x[0])}; }}
#define TWO(name) {#name, [](In x, Arguments n) { \
    return std::vector{n.empty() ? name(x[0], x[1]) : name(x[0], operand_of(n[0]))}; }}
Functions elementwise() {
  return {
    ONE(neg), ONE(abs), ONE(sign), ONE(relu), ONE(floor), ONE(ceil), ONE(round), ONE(trunc), ONE(exp), ONE(exp2),
    ONE(expm1), ONE(log), ONE(log2), ONE(log1p), ONE(sqrt), ONE(rsqrt), ONE(sin), ONE(cos), ONE(tan), ONE(tanh),
    ONE(sigmoid), ONE(erf), ONE(gelu), ONE(gelu_exact), ONE(silu), ONE(isnan), ONE(isinf), ONE(isfinite),
    ONE(bitwise_not), ONE(nan_to_num),
    TWO(atan2), TWO(pow), TWO(remainder), TWO(fmod), TWO(floor_divide), TWO(maximum), TWO(minimum), TWO(clamp_min),
    TWO(clamp_max), TWO(bitwise_and), TWO(bitwise_or), TWO(bitwise_xor), TWO(bitwise_left_shift),
    TWO(bitwise_right_shift),
    {"round_decimals", [](In x, Arguments n) { return std::vector{round(x[0], static_cast<std::int64_t>(n.at(0).get<double>()))}; }},
    {"clamp", [](In x, Arguments n) {
       return std::vector{n.empty() ? clamp(x[0], x[1], x[2]) : clamp(x[0], operand_of(n[0]), operand_of(n[1]))}; }},
    {"softplus", [](In x, Arguments n) { return std::vector{softplus(x[0], n.at(0), n.at(1))}; }},
    {"leaky_relu", [](In x, Arguments n) { return std::vector{leaky_relu(x[0], n.at(0))}; }},
    {"elu", [](In x, Arguments n) { return std::vector{elu(x[0], n.at(0))}; }},
  };
}
// clang-format on

}  // namespace lockstep::worker::samples
