#include <cmath>

#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {

bool is_float(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 || dtype == DType::F64;
}
bool is_number(DType dtype) { return dtype != DType::Bool; }

bool takes_half(const Node& node) {
  switch (op_row(node.op).kind) {
    case OpClass::Elementwise:
      return node.op == Op::Cast || node.op == Op::Where;
    case OpClass::Index:
      return picks(node.op) ||
             (node.op == Op::IndexPut && node.ints.at(0) == static_cast<std::int64_t>(Put::Set));
    case OpClass::Reduction:
      return false;
    case OpClass::Product:
      return !is_attention(node.op);
    case OpClass::Source:
    case OpClass::View:
    case OpClass::Collective:
    case OpClass::HostSync:
    case OpClass::Check:
    case OpClass::Own:
    case OpClass::Control:
    case OpClass::Result:
      return true;
  }
  return true;
}

bool is_value_of(DType dtype, double value) {
  if (is_float(dtype)) return true;
  const bool is_unsigned = dtype == DType::Bool || dtype == DType::U8;
  const double bits = dtype == DType::Bool ? 1 : static_cast<double>(8 * dtype_size(dtype));
  const double low = is_unsigned ? 0 : -std::exp2(bits - 1);
  const double high = std::exp2(is_unsigned ? bits : bits - 1);  // the first value too large
  return std::floor(value) == value && value >= low && value < high;
}

}  // namespace lockstep::worker
