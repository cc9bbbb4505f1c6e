#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/scalar_text.h>
#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

/// True if C has this float type.
bool is_c_float(DType dtype) { return dtype == DType::F32 || dtype == DType::F64; }

}  // namespace

std::string_view c_type(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return "bool";
    case DType::U8:
      return "unsigned char";
    case DType::I8:
      return "signed char";
    case DType::I16:
      return "short";
    case DType::I32:
      return "int";
    case DType::I64:
      return "long";
    case DType::F32:
      return "float";
    case DType::F64:
      return "double";
    case DType::F16:
    case DType::BF16:
      return "unsigned short";
  }
  return "";
}

std::string literal_text(DType dtype, double number) {
  const bool wide = dtype == DType::F64;
  if (is_c_float(dtype)) {
    if (std::isnan(number)) return wide ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")";
    const double value = wide ? number : static_cast<double>(static_cast<float>(number));
    if (std::isinf(value))
      return fmt::format("{}{}", value < 0 ? "-" : "",
                         wide ? "__builtin_inf()" : "__builtin_inff()");
    // Decimal if that is exact and readable, else hexadecimal, which is exact.
    if (std::abs(value) < 1e6 && value == std::trunc(value))
      return fmt::format("{}{}", value, wide ? ".0" : ".0f");
    return fmt::format("{:a}{}", value, wide ? "" : "f");
  }
  if (dtype == DType::Bool) return number != 0 ? "true" : "false";
  if (is_half(dtype)) return fmt::format("(unsigned short){}", half_bits(dtype, number));
  const bool fits = number >= -9223372036854775808.0 && number < 9223372036854775808.0;
  const std::int64_t value =
      fits ? static_cast<std::int64_t>(number) : std::numeric_limits<std::int64_t>::min();
  if (value == std::numeric_limits<std::int64_t>::min())
    return fmt::format("({})(-__LONG_MAX__ - 1)", c_type(dtype));
  return fmt::format("({}){}L", c_type(dtype), value);
}

std::string extreme_text(DType dtype, bool lowest) {
  if (is_c_float(dtype)) return literal_text(dtype, lowest ? -INFINITY : INFINITY);
  if (dtype == DType::Bool) return lowest ? "false" : "true";
  if (dtype == DType::U8) return lowest ? "0" : "255";
  const std::size_t bits = 8 * dtype_size(dtype);
  return fmt::format("({})({}((1UL << {}) - 1UL){})", c_type(dtype), lowest ? "-(long)" : "(long)",
                     bits - 1, lowest ? " - 1" : "");
}

namespace {

/// Returns the value of `name`, of dtype `from`, cast to `to`.
std::string cast_text(const std::string& name, DType from, DType to) {
  if (is_half(from))
    return cast_text(fmt::format("of_{}({})", dtype_name(from), name), DType::F32, to);
  if (is_half(to)) return fmt::format("{}_of(to_odd({}))", dtype_name(to), name);
  if (to == DType::Bool) return fmt::format("{} != 0", name);
  if (is_c_float(from) && !is_c_float(to)) {
    const bool is_wide = to == DType::I64 || to == DType::U8;
    return fmt::format("({})to_{}({})", c_type(to), is_wide ? "long" : "int", name);
  }
  return fmt::format("({}){}", c_type(to), name);
}

}  // namespace

std::string elementwise_text(const Node& node, DType from, std::span<const std::string> operands) {
  if (node.op == Op::Cast) return cast_text(operands[0], from, node.meta.dtype);
  const OpRow& row = op_row(node.op);
  const auto operand = [&](std::size_t k) { return k < operands.size() ? operands[k] : ""; };
  return fmt::format(
      fmt::runtime(is_c_float(from) || row.int_text.empty() ? row.text : row.int_text),
      fmt::arg("a", operand(0)), fmt::arg("b", operand(1)), fmt::arg("c", operand(2)),
      fmt::arg("t", c_type(node.meta.dtype)));
}

}  // namespace lockstep::worker
