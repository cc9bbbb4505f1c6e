// The op table: one row per op, with what other rooms need to know of an op by its kind. What an op
// does is in tables by op (op_map.h). A switch or a table that lacks an op does not compile.
#pragma once

#include <array>
#include <string_view>

#include <lockstep/worker/tensor/graph/graph.h>

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
  Check,
  Own,
  Control,  // has bodies; its results are separate nodes
  Result
};

/// Dtypes that the first operand may have.
enum class Takes : std::uint8_t { Any, Number, Float, Integer, Bool, I64 };

struct OpRow {
  enum Trait : std::uint8_t {
    Differentiable = 1,  // else the gradient is zero or undefined (ints, comparisons, argmax)
    Exact = 2,           // equal operands give the same bits, also floats, on every machine
    GivesBool = 4,
    RefusesValues = 8,  // such as an index out of range, or counts that do not add up
    AutocastLow = 16,   // in autocast, f32 operands are cast to its low precision
    AutocastF32 = 32,   // in autocast, f16 and bf16 operands are cast to f32; the result stays f32
  };

  std::string_view name{};  // "add", as printed and as users call it
  OpClass kind = OpClass::Source;
  Takes takes = Takes::Any;
  int operands = 0;         // -1: any number
  int exprs = 0, ints = 0;  // attributes of the node; -1: any number
  int traits = 0;
  // Of elementwise ops only:
  int cost = 1;                 // approximate number of simple operations per element
  std::string_view text;        // in C: {a}, {b} and {c} are the operands, {t} is the result's type
  std::string_view int_text{};  // for integers, if different
  Op op{};

  [[nodiscard]] constexpr bool is(Trait trait) const { return (traits & trait) != 0; }
};

/// The row of an elementwise op, which makes each element of its result from one element of each
/// operand.
constexpr OpRow each(std::string_view name, Takes takes, int traits, int cost,
                     std::string_view text, std::string_view int_text = {}) {
  const auto has = [&](std::string_view operand) {
    return text.find(operand) != text.npos ? 1 : 0;
  };
  const int operands = 1 + has("{b}") + has("{c}");
  return {name, OpClass::Elementwise, takes, operands, 0, 0, traits, cost, text, int_text};
}

// clang-format off
constexpr OpRow row_of(Op op) {
  using C = OpClass;
  using T = Takes;
  constexpr int D = OpRow::Differentiable, E = OpRow::Exact, B = OpRow::GivesBool,
                R = OpRow::RefusesValues, L = OpRow::AutocastLow, W = OpRow::AutocastF32;
  switch (op) {
    // each: name, takes, traits, cost, texts; {}: name, class, takes, operands, exprs, ints, traits
    case Op::Input:         return {"input", C::Source, T::Any, 0, 0, 0, 0};
    case Op::Scalar:        return {"scalar", C::Source, T::Any, 0, 1, 0, 0};
    case Op::Full:          return {"full", C::Source, T::Any, 0, 0, 0, E};
    case Op::Iota:          return {"iota", C::Source, T::Any, 0, 0, 1, 0};
    case Op::Neg:           return each("neg", T::Number, D | E, 1, "-{a}", "({t})(-{a})");
    case Op::Abs:           return each("abs", T::Number, D | E, 1, "abs_({a})");
    case Op::Exp:           return each("exp", T::Float, D | W, 10, "exp_({a})");
    case Op::Log:           return each("log", T::Float, D | W, 10, "log_({a})");
    case Op::Sqrt:          return each("sqrt", T::Float, D, 4, "sqrt_({a})");
    case Op::Rsqrt:         return each("rsqrt", T::Float, D | W, 4, "({t})1 / sqrt_({a})");
    case Op::Tanh:          return each("tanh", T::Float, D, 10, "tanh_({a})");
    case Op::Sigmoid:       return each("sigmoid", T::Float, D, 10,
                                    "({t})1 / (({t})1 + exp_(-{a}))");
    case Op::Relu:          return each("relu", T::Number, D | E, 1, "{a} < ({t})0 ? ({t})0 : {a}");
    case Op::Not:           return each("not", T::Bool, 0, 1, "({t})(!{a})");
    case Op::Cast:          return each("cast", T::Any, D | E, 1, "");
    case Op::Add:           return each("add", T::Number, D, 1, "{a} + {b}", "({t})({a} + {b})");
    case Op::Sub:           return each("sub", T::Number, D, 1, "{a} - {b}", "({t})({a} - {b})");
    case Op::Mul:           return each("mul", T::Number, D, 1, "{a} * {b}", "({t})({a} * {b})");
    case Op::Div:           return each("div", T::Number, D, 4, "div_({a}, {b})");
    case Op::Mod:           return each("mod", T::Number, D, 4, "mod_({a}, {b})");
    case Op::Maximum:       return each("maximum", T::Number, D | E, 1,
                                    "({a} > {b}) | ({a} != {a}) ? {a} : {b}");
    case Op::Minimum:       return each("minimum", T::Number, D | E, 1,
                                    "({a} < {b}) | ({a} != {a}) ? {a} : {b}");
    case Op::Lt:            return each("lt", T::Number, B, 1, "{a} < {b}");
    case Op::Le:            return each("le", T::Number, B, 1, "{a} <= {b}");
    case Op::Gt:            return each("gt", T::Number, B, 1, "{a} > {b}");
    case Op::Ge:            return each("ge", T::Number, B, 1, "{a} >= {b}");
    case Op::Eq:            return each("eq", T::Any, B, 1, "{a} == {b}");
    case Op::Ne:            return each("ne", T::Any, B, 1, "{a} != {b}");
    case Op::And:           return each("and", T::Bool, B, 1, "({a} != 0) & ({b} != 0)");
    case Op::Or:            return each("or", T::Bool, B, 1, "({a} != 0) | ({b} != 0)");
    case Op::Where:         return each("where", T::Any, D | E, 1, "{a} ? {b} : {c}");
    case Op::Reshape:       return {"reshape", C::View, T::Any, 1, 0, 0, D | E};
    case Op::Permute:       return {"permute", C::View, T::Any, 1, 0, -1, D | E};
    case Op::Expand:        return {"expand", C::View, T::Any, 1, 0, 0, D | E};
    case Op::Slice:         return {"slice", C::View, T::Any, 1, 1, 1, D | E};
    case Op::Pad:           return {"pad", C::View, T::Any, 1, 2, 1, D | E};
    case Op::Cat:           return {"cat", C::View, T::Any, -1, 0, 1, D | E};
    case Op::Sum:           return {"sum", C::Reduction, T::Number, 1, 0, -1, D | W};
    case Op::Amax:          return {"amax", C::Reduction, T::Number, 1, 0, -1, D | E};
    case Op::Amin:          return {"amin", C::Reduction, T::Number, 1, 0, -1, D | E};
    case Op::Argmax:        return {"argmax", C::Reduction, T::Number, 1, 0, 1, 0};
    case Op::Matmul:        return {"matmul", C::Product, T::Float, 2, 0, 0, D | L};
    case Op::SegmentMatmul: return {"segment_matmul", C::Product, T::Float, 3, 0, 0, D | R | L};
    case Op::SegmentOuter:  return {"segment_outer", C::Product, T::Float, 3, 0, 0, D | R | L};
    case Op::IndexSelect:   return {"index_select", C::Index, T::Any, 2, 0, 0, D | E | R};
    case Op::IndexAdd:      return {"index_add", C::Index, T::I64, 2, 1, 0, D | R};
    case Op::Argsort:       return {"argsort", C::Index, T::Number, 1, 0, 0, 0};
    case Op::Cumsum:        return {"cumsum", C::Index, T::Number, 1, 0, 0, D | W};
    case Op::SegmentIds:    return {"segment_ids", C::Index, T::I64, 1, 1, 0, R};
    case Op::Nonzero:       return {"nonzero", C::Index, T::Bool, 1, 1, 0, 0};
    case Op::AllToAll:      return {"all_to_all_single", C::Collective, T::Any, 1, -1, 0, D};
    case Op::AllReduce:     return {"all_reduce", C::Collective, T::Number, 1, 0, 1, D};
    case Op::AllGather:     return {"all_gather", C::Collective, T::Any, 1, 0, 1, D};
    case Op::ReduceScatter: return {"reduce_scatter", C::Collective, T::Number, 1, 0, 1, D};
    case Op::Broadcast:     return {"broadcast", C::Collective, T::Any, 1, 0, 1, 0};
    case Op::ToList:        return {"tolist", C::HostSync, T::I64, 1, 0, 0, 0};
    case Op::Item:          return {"item", C::HostSync, T::I64, 1, 0, 0, 0};
    case Op::Assert:        return {"assert", C::Check, T::Any, 0, 0, 0, 0};
    case Op::Exp2:          return each("exp2", T::Float, D, 10, "exp2_({a})");
    case Op::Log2:          return each("log2", T::Float, D | W, 10, "log2_({a})");
    case Op::Log1p:         return each("log1p", T::Float, D | W, 10, "log1p_({a})");
    case Op::Expm1:         return each("expm1", T::Float, D | W, 10, "expm1_({a})");
    case Op::Sin:           return each("sin", T::Float, D, 10, "sin_({a})");
    case Op::Cos:           return each("cos", T::Float, D, 10, "cos_({a})");
    case Op::Tan:           return each("tan", T::Float, D | W, 12, "tan_({a})");
    case Op::Erf:           return each("erf", T::Float, D, 12, "erf_({a})");
    case Op::Floor:         return each("floor", T::Float, D | E, 1, "floor_({a})");
    case Op::Ceil:          return each("ceil", T::Float, D | E, 1, "ceil_({a})");
    case Op::Round:         return each("round", T::Float, D | E, 1, "round_({a})");
    case Op::Trunc:         return each("trunc", T::Float, D | E, 1, "trunc_({a})");
    case Op::Pow:           return each("pow", T::Number, D | W, 20, "pow_({a}, {b})");
    case Op::Atan2:         return each("atan2", T::Float, D, 15, "atan2_({a}, {b})");
    case Op::Fmod:          return each("fmod", T::Number, D | E, 10, "fmod_({a}, {b})");
    case Op::FloorDivide:   return each("floor_divide", T::Float, D, 15, "floor_div_({a}, {b})");
    case Op::BitAnd:        return each("bitwise_and", T::Integer, 0, 1, "({t})({a} & {b})");
    case Op::BitOr:         return each("bitwise_or", T::Integer, 0, 1, "({t})({a} | {b})");
    case Op::BitXor:        return each("bitwise_xor", T::Integer, 0, 1, "({t})({a} ^ {b})");
    case Op::BitNot:        return each("bitwise_not", T::Integer, 0, 1, "({t})(~{a})");
    case Op::ShiftLeft:     return each("shift_left", T::Integer, 0, 2, "shift_left_({a}, {b})");
    case Op::ShiftRight:    return each("shift_right", T::Integer, 0, 2, "shift_right_({a}, {b})");
    case Op::Gather:        return {"gather", C::Index, T::Any, 2, 0, 1, D | E | R};
    case Op::CheckedIndex:  return {"checked_index", C::Index, T::I64, 1, 1, 1, R};
    case Op::IndexPut:      return {"index_put", C::Index, T::Any, 3, 0, 1, D | E | R};
    case Op::Flip:          return {"flip", C::View, T::Any, 1, 0, -1, D | E};
    case Op::Prod:          return {"prod", C::Reduction, T::Number, 1, 0, -1, D | W};
    case Op::Cumprod:       return {"cumprod", C::Index, T::Number, 1, 0, 0, D | W};
    case Op::CumArgmax:     return {"cum_argmax", C::Index, T::Number, 1, 0, 0, 0};
    case Op::LogCumsumExp:  return {"logcumsumexp", C::Index, T::Float, 1, 0, 0, D | W};
    case Op::SearchSorted:  return {"searchsorted", C::Index, T::Number, 2, 0, 1, 0};
    case Op::Cond:          return {"cond", C::Control, T::Bool, -1, -1, 0, R};
    case Op::Scan:          return {"scan", C::Control, T::Any, -1, -1, 3, R};
    case Op::While:         return {"while_loop", C::Control, T::Any, -1, -1, 2, R};
    case Op::Call:          return {"call", C::Control, T::Any, -1, -1, 0, R};
    case Op::Result:        return {"result", C::Result, T::Any, 1, 0, 1, 0};
    case Op::Philox:        return each("philox", T::I64, 0, 40, "philox_({a}, {b}, {c})");
    case Op::Unfold:        return {"unfold", C::View, T::Any, 1, 0, -1, D | E};
    case Op::Overlay:       return {"overlay", C::View, T::Any, 1, 0, -1, D | E};
    case Op::Own:           return {"own", C::Own, T::Any, -1, 0, 0, R};
    case Op::HostCall:      return {"host_call", C::Own, T::Any, -1, 0, 0, R};
    case Op::Attention:     return {"attention", C::Product, T::Float, -1, 0, 1, D};
    case Op::AttentionGradient:
      return {"attention_gradient", C::Product, T::Float, -1, 0, 1, 0};
  }
  return {};
}
// clang-format on

/// All rows, in the order of the enumerators.
inline constexpr auto kOps = [] {
  constexpr std::size_t count = [] {
    std::size_t n = 0;
    while (!row_of(static_cast<Op>(n)).name.empty()) ++n;
    return n;
  }();
  std::array<OpRow, count> rows;
  for (std::size_t i = 0; i < count; ++i) {
    rows[i] = row_of(static_cast<Op>(i));
    rows[i].op = static_cast<Op>(i);
  }
  return rows;
}();

constexpr const OpRow& op_row(Op op) { return kOps.at(static_cast<std::size_t>(op)); }

/// True for scans along the last dim: each element of the result continues from the one before.
constexpr bool is_scan(const OpRow& row) {
  return row.op == Op::Cumsum || row.op == Op::Cumprod || row.op == Op::CumArgmax ||
         row.op == Op::LogCumsumExp;
}

/// True for ops whose number and order ranks compare: no such node is merged with an equal one,
/// moved past another or left out.
constexpr bool is_joint(Op op) {
  const OpClass kind = op_row(op).kind;
  return kind == OpClass::Collective || kind == OpClass::HostSync || op == Op::HostCall;
}

/// f16, bf16, f32, f64
[[nodiscard]] bool is_float(DType dtype);
/// True if the dtype holds the number. Dtypes of floats count as holding every number.
[[nodiscard]] bool is_value_of(DType dtype, double number);
/// True for all dtypes but bool: those that arithmetic works on.
[[nodiscard]] bool is_number(DType dtype);
/// True if the result's elements are elements of the first operand, picked by a checked list of
/// indices.
constexpr bool picks(Op op) {
  return op == Op::IndexSelect || op == Op::Gather || op == Op::CheckedIndex;
}
constexpr bool is_attention(Op op) { return op == Op::Attention || op == Op::AttentionGradient; }
/// Number of operands before the mask, which may be absent.
constexpr std::size_t attention_operands(Op op) { return op == Op::Attention ? 3 : 5; }
/// True if the op itself takes f16 and bf16: ops that move, choose and cast elements, products and
/// collectives. The language records every other op as the op of f32 between casts, so it is
/// computed in f32 and rounded once (op_builder.h).
[[nodiscard]] bool takes_half(const Node& node);

}  // namespace lockstep::worker
