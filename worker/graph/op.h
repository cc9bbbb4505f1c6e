// The op table: one row per op. Adding an op means adding a row here, a rule in shape_rules.cpp, a
// gradient in gradients.cpp, a loop in interpreter.cpp and an expression in codegen.cpp; tests walk
// the table and fail for a row that lacks one of them.
#pragma once

#include <span>
#include <string_view>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

enum class OpClass : std::uint8_t {
  Source,
  Elementwise,
  View,
  Reduction,
  Product,
  Index,
  Collective,
  HostSync,
  Check
};

/// What dtypes the first operand may have.
enum class Takes : std::uint8_t { Any, Number, Float, Integer, Bool, I64 };

struct OpRow {
  Op op;
  std::string_view name;  // "add", as printed and as users call it
  OpClass kind;
  Takes takes;
  int operands;         // -1: any number
  int exprs, ints;      // attributes of the node; -1: any number
  bool differentiable;  // false: gradient is zero or undefined (ints, comparisons, argmax)
};

[[nodiscard]] const OpRow& op_row(Op op);
/// In the order of the enumerators.
[[nodiscard]] std::span<const OpRow> op_table();
/// f16, bf16, f32, f64
[[nodiscard]] bool is_float(DType dtype);
/// Not bool: what arithmetic works on.
[[nodiscard]] bool is_number(DType dtype);
/// Whether the op does more with elements than to move, choose and cast them: f16 and bf16 have no
/// such ops.
[[nodiscard]] bool computes(Op op);

}  // namespace lockstep::worker
