// C++ text of the arithmetic of one element, with the interpreter's results on every target. The
// prelude of a unit defines the names that the text uses.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// "float", "long". An element of f16 or bf16 is an "unsigned short", its bits: kernels move it
/// unchanged, and casts compute with a float.
[[nodiscard]] std::string_view c_type(DType dtype);

/// Returns the value of an elementwise node. `operands` are names of values of the operands'
/// dtypes; `from` is the first operand's dtype.
[[nodiscard]] std::string elementwise_text(const Node& node, DType from,
                                           std::span<const std::string> operands);
/// Returns `number` as a literal of `dtype`.
[[nodiscard]] std::string literal_text(DType dtype, double number);
/// Returns the amax (if `lowest`) or amin of no elements.
[[nodiscard]] std::string extreme_text(DType dtype, bool lowest);

}  // namespace lockstep::worker
