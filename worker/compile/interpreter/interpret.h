// Inside the interpreter: one node with its operands and evaluated attributes, and the functions
// that compute each class of op. Plain loops, nothing clever: this is the oracle.
#pragma once

#include <cstdlib>
#include <type_traits>
#include <vector>

#include <lockstep/worker/tensor/graph/array.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// A node that is being run. Refers to values that the interpreter owns.
struct NodeCall {
  const Graph* graph = nullptr;
  NodeId id = 0;
  std::vector<const Array*> operands;
  std::vector<std::int64_t> sizes;  // sizes of the result
  std::vector<std::int64_t> exprs;

  [[nodiscard]] const Node& node() const { return graph->nodes[id]; }
  [[nodiscard]] DType dtype() const { return node().meta.dtype; }
};

/// Returns f(a, b). Ints wrap: `f` computes with unsigned 64-bit numbers, and the result is cut to
/// T.
template <class T, class F>
T wrapping(T a, T b, F f) {
  if constexpr (std::is_floating_point_v<T>) {
    return f(a, b);
  } else {
    return static_cast<T>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
  }
}

/// Calls `f` with the element type of `dtype` in the interpreter's loops. f16 and bf16 have no such
/// type: moves copy bytes, casts use half.h, products are computed in f32, and no other op takes
/// them.
template <class F>
decltype(auto) with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Bool:
      return f(std::type_identity<bool>{});
    case DType::U8:
      return f(std::type_identity<std::uint8_t>{});
    case DType::I8:
      return f(std::type_identity<std::int8_t>{});
    case DType::I16:
      return f(std::type_identity<std::int16_t>{});
    case DType::I32:
      return f(std::type_identity<std::int32_t>{});
    case DType::F32:
      return f(std::type_identity<float>{});
    case DType::F64:
      return f(std::type_identity<double>{});
    case DType::I64:
      break;
    case DType::F16:
    case DType::BF16:
      std::abort();
  }
  return f(std::type_identity<std::int64_t>{});
}

[[nodiscard]] std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& sizes);
/// Moves `index` to the next one in row-major order.
void advance(std::vector<std::int64_t>& index, const std::vector<std::int64_t>& sizes);

[[nodiscard]] Array interpret_source(const NodeCall& call);  // Scalar, Full, Iota
[[nodiscard]] Array interpret_elementwise(const NodeCall& call);
[[nodiscard]] Array interpret_view(const NodeCall& call);
[[nodiscard]] Array interpret_reduction(const NodeCall& call);
/// Errors: RuntimeAssert (counts).
[[nodiscard]] Result<Array> interpret_product(const NodeCall& call);
/// Errors: RuntimeAssert (index out of range, counts).
[[nodiscard]] Result<Array> interpret_index(const NodeCall& call);

}  // namespace lockstep::worker
