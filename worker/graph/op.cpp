#include <lockstep/worker/graph/op.h>

namespace lockstep::worker {

bool is_float(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 || dtype == DType::F64;
}
bool is_number(DType dtype) { return dtype != DType::Bool; }

bool computes(Op op) {
  switch (op_row(op).kind) {
    case OpClass::Elementwise:
      return op != Op::Cast && op != Op::Where;
    case OpClass::Index:
      return !picks(op) && op != Op::IndexPut;
    case OpClass::Collective:
      return op == Op::AllReduce || op == Op::ReduceScatter;
    case OpClass::Reduction:
    case OpClass::Product:
      return true;
    case OpClass::Source:
    case OpClass::View:
    case OpClass::HostSync:
    case OpClass::Check:
    case OpClass::Own:
      return false;
  }
  return false;
}

}  // namespace lockstep::worker
