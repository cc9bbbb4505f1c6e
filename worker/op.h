// The op table: one row per op. Adding an op means adding a row here, a rule in shape_rules.cpp, a
// gradient in autodiff.cpp, a loop in interpreter.cpp and an expression in codegen.cpp; tests walk
// the table and fail for a row that lacks one of them.
#pragma once

#include <lockstep/worker/graph.h>

#include <span>
#include <string_view>

namespace lockstep::worker {

enum class OpClass : std::uint8_t { Source, Elementwise, View, Reduction, Product, Index, Collective, HostSync, Check };

struct OpRow {
  Op op;
  std::string_view name;  // "add", as printed and as users call it
  OpClass kind;
  int operands;           // -1: any number
  bool differentiable;    // false: gradient is zero or undefined (ints, comparisons, argmax)
};

[[nodiscard]] const OpRow& op_row(Op op);
[[nodiscard]] std::span<const OpRow> op_table();

}  // namespace lockstep::worker
