// New tensors, casts and values read back.
#include "op_samples.h"

#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker::samples {
namespace {

/// start, start + step, ..: as many as the first tensor has elements.
Tensor counted(In x, Arguments n) {
  const DType dtype = dtype_of(n.at(2));
  const Tensor places = arange(*x[0].trace(), x[0].size(0));
  if (n.at(0) == 0 && n.at(1) == 1) return cast(places, dtype);
  const Tensor exact = cast(places, is_float(dtype) ? DType::F64 : DType::I64);
  return cast(exact * operand_of(n.at(1)) + operand_of(n.at(0)), dtype);
}

/// A bool is 0 or 1; a float stays a value of the run.
Tensor read_back(const Tensor& x) {
  const Tensor one = reshape(x, {});
  if (is_float(x.dtype())) return SymFloat(cast(one, DType::F64)).tensor();
  return scalar(*x.trace(), item(x.dtype() == DType::Bool ? one : cast(one, DType::I64)));
}

Tensor classes(In x, Arguments n) {
  const SymInt count = n.at(0).is_null() ? item(amax(x[0]), Values::NonNegative) + 1
                                         : SymInt(n.at(0).get<std::int64_t>());
  return one_hot(x[0], count, DType::I64);
}

}  // namespace

// clang-format off
#define TAKES(name, ...) {name, [](In x, [[maybe_unused]] Arguments n) { return std::vector<Tensor>{__VA_ARGS__}; }}
Functions creation() {
  return {  // of the sizes of the first tensor
    TAKES("full", full(*x[0].trace(), x[0].sizes(), n.at(0), dtype_of(n.at(1)))),
    TAKES("zeros", zeros(*x[0].trace(), x[0].sizes(), dtype_of(n.at(0)))),
    TAKES("ones", ones(*x[0].trace(), x[0].sizes(), dtype_of(n.at(0)))),
    TAKES("full_like", full_like(x[0], n.at(0))), TAKES("zeros_like", zeros_like(x[0])),
    TAKES("ones_like", ones_like(x[0])), TAKES("arange", counted(x, n)),
    TAKES("scalar", cast(scalar(*x[0].trace(), n.at(0).get<std::int64_t>()), dtype_of(n.at(1)))),
    TAKES("cast", cast(x[0], dtype_of(n.at(0)))), TAKES("item", read_back(x[0])), TAKES("one_hot", classes(x, n)),
  };
}
#undef TAKES
// clang-format on

}  // namespace lockstep::worker::samples
