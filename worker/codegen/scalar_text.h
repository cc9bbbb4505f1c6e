// C++ text of the arithmetic of one element. It says the same as the interpreter's loops, on every
// target: the prelude of a unit gives meaning to the names that the text of an element uses.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// "float", "long". An element of f16 or bf16 is an "unsigned short", its bits: kernels move it as
/// it is, and casts compute with a float.
[[nodiscard]] std::string_view c_type(DType dtype);

/// The value of an elementwise node. `operands` are names of values of the operands' dtypes;
/// `from` is the first operand's dtype.
[[nodiscard]] std::string elementwise_text(const Node& node, DType from,
                                           std::span<const std::string> operands);
/// `number` as `dtype`.
[[nodiscard]] std::string literal_text(DType dtype, double number);
/// What amax (lowest) or amin (highest) of nothing is.
[[nodiscard]] std::string extreme_text(DType dtype, bool lowest);

}  // namespace lockstep::worker
