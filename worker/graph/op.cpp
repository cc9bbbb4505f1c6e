#include <lockstep/worker/graph/op.h>

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
    case OpClass::Source:
    case OpClass::View:
    case OpClass::Product:
    case OpClass::Collective:
    case OpClass::HostSync:
    case OpClass::Check:
    case OpClass::Control:
    case OpClass::Result:
      return true;
  }
  return true;
}

}  // namespace lockstep::worker
