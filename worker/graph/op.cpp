#include <array>

#include <lockstep/worker/graph/op.h>

namespace lockstep::worker {
namespace {

using C = OpClass;
using T = Takes;

// op, name, class, takes, operands, exprs, ints, differentiable
constexpr std::array kTable{
    OpRow{Op::Input, "input", C::Source, T::Any, 0, 0, 0, false},
    OpRow{Op::Scalar, "scalar", C::Source, T::Any, 0, 1, 0, false},
    OpRow{Op::Full, "full", C::Source, T::Any, 0, 0, 0, false},
    OpRow{Op::Iota, "iota", C::Source, T::Any, 0, 0, 1, false},
    OpRow{Op::Neg, "neg", C::Elementwise, T::Number, 1, 0, 0, true},
    OpRow{Op::Abs, "abs", C::Elementwise, T::Number, 1, 0, 0, true},
    OpRow{Op::Exp, "exp", C::Elementwise, T::Float, 1, 0, 0, true},
    OpRow{Op::Log, "log", C::Elementwise, T::Float, 1, 0, 0, true},
    OpRow{Op::Sqrt, "sqrt", C::Elementwise, T::Float, 1, 0, 0, true},
    OpRow{Op::Rsqrt, "rsqrt", C::Elementwise, T::Float, 1, 0, 0, true},
    OpRow{Op::Tanh, "tanh", C::Elementwise, T::Float, 1, 0, 0, true},
    OpRow{Op::Sigmoid, "sigmoid", C::Elementwise, T::Float, 1, 0, 0, true},
    OpRow{Op::Relu, "relu", C::Elementwise, T::Number, 1, 0, 0, true},
    OpRow{Op::Not, "not", C::Elementwise, T::Bool, 1, 0, 0, false},
    OpRow{Op::Cast, "cast", C::Elementwise, T::Any, 1, 0, 0, true},
    OpRow{Op::Add, "add", C::Elementwise, T::Number, 2, 0, 0, true},
    OpRow{Op::Sub, "sub", C::Elementwise, T::Number, 2, 0, 0, true},
    OpRow{Op::Mul, "mul", C::Elementwise, T::Number, 2, 0, 0, true},
    OpRow{Op::Div, "div", C::Elementwise, T::Number, 2, 0, 0, true},
    OpRow{Op::Mod, "mod", C::Elementwise, T::Integer, 2, 0, 0, false},
    OpRow{Op::Maximum, "maximum", C::Elementwise, T::Number, 2, 0, 0, true},
    OpRow{Op::Minimum, "minimum", C::Elementwise, T::Number, 2, 0, 0, true},
    OpRow{Op::Lt, "lt", C::Elementwise, T::Number, 2, 0, 0, false},
    OpRow{Op::Le, "le", C::Elementwise, T::Number, 2, 0, 0, false},
    OpRow{Op::Gt, "gt", C::Elementwise, T::Number, 2, 0, 0, false},
    OpRow{Op::Ge, "ge", C::Elementwise, T::Number, 2, 0, 0, false},
    OpRow{Op::Eq, "eq", C::Elementwise, T::Any, 2, 0, 0, false},
    OpRow{Op::Ne, "ne", C::Elementwise, T::Any, 2, 0, 0, false},
    OpRow{Op::And, "and", C::Elementwise, T::Bool, 2, 0, 0, false},
    OpRow{Op::Or, "or", C::Elementwise, T::Bool, 2, 0, 0, false},
    OpRow{Op::Where, "where", C::Elementwise, T::Any, 3, 0, 0, true},
    OpRow{Op::Reshape, "reshape", C::View, T::Any, 1, 0, 0, true},
    OpRow{Op::Permute, "permute", C::View, T::Any, 1, 0, -1, true},
    OpRow{Op::Expand, "expand", C::View, T::Any, 1, 0, 0, true},
    OpRow{Op::Slice, "slice", C::View, T::Any, 1, 1, 1, true},
    OpRow{Op::Pad, "pad", C::View, T::Any, 1, 2, 1, true},
    OpRow{Op::Cat, "cat", C::View, T::Any, -1, 0, 1, true},
    OpRow{Op::Sum, "sum", C::Reduction, T::Number, 1, 0, -1, true},
    OpRow{Op::Amax, "amax", C::Reduction, T::Number, 1, 0, -1, true},
    OpRow{Op::Amin, "amin", C::Reduction, T::Number, 1, 0, -1, true},
    OpRow{Op::Argmax, "argmax", C::Reduction, T::Number, 1, 0, 1, false},
    OpRow{Op::Matmul, "matmul", C::Product, T::Float, 2, 0, 0, true},
    OpRow{Op::SegmentMatmul, "segment_matmul", C::Product, T::Float, 3, 0, 0, true},
    OpRow{Op::SegmentOuter, "segment_outer", C::Product, T::Float, 3, 0, 0, true},
    OpRow{Op::IndexSelect, "index_select", C::Index, T::Any, 2, 0, 0, true},
    OpRow{Op::IndexAdd, "index_add", C::Index, T::I64, 2, 1, 0, true},
    OpRow{Op::Argsort, "argsort", C::Index, T::Number, 1, 0, 0, false},
    OpRow{Op::Cumsum, "cumsum", C::Index, T::Number, 1, 0, 0, true},
    OpRow{Op::SegmentIds, "segment_ids", C::Index, T::I64, 1, 1, 0, false},
    OpRow{Op::Nonzero, "nonzero", C::Index, T::Bool, 1, 1, 0, false},
    OpRow{Op::AllToAll, "all_to_all_single", C::Collective, T::Any, 1, -1, 0, true},
    OpRow{Op::AllReduce, "all_reduce", C::Collective, T::Number, 1, 0, 1, true},
    OpRow{Op::AllGather, "all_gather", C::Collective, T::Any, 1, 0, 1, true},
    OpRow{Op::ReduceScatter, "reduce_scatter", C::Collective, T::Number, 1, 0, 1, true},
    OpRow{Op::Broadcast, "broadcast", C::Collective, T::Any, 1, 0, 1, false},
    OpRow{Op::ToList, "tolist", C::HostSync, T::I64, 1, 0, 0, false},
    OpRow{Op::Item, "item", C::HostSync, T::I64, 1, 0, 0, false},
    OpRow{Op::Assert, "assert", C::Check, T::Any, 0, 0, 0, false},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (static_cast<std::size_t>(kTable[i].op) != i) return false;
  return static_cast<std::size_t>(Op::Assert) + 1 == kTable.size();
}
static_assert(in_order(), "the table has one row per op, in the order of the enumerators");

}  // namespace

const OpRow& op_row(Op op) { return kTable.at(static_cast<std::size_t>(op)); }
std::span<const OpRow> op_table() { return kTable; }

bool is_float(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 || dtype == DType::F64;
}
bool is_number(DType dtype) { return dtype != DType::Bool; }

bool computes(Op op) {
  switch (op_row(op).kind) {
    case OpClass::Elementwise:
      return op != Op::Cast && op != Op::Where;
    case OpClass::Index:
      return op != Op::IndexSelect;
    case OpClass::Collective:
      return op == Op::AllReduce || op == Op::ReduceScatter;
    case OpClass::Reduction:
    case OpClass::Product:
      return true;
    default:
      return false;
  }
}

}  // namespace lockstep::worker
