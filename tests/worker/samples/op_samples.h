// Samples of torch's own op tests in the tensor language, a table for each family of ops
// (samples_*.cpp). The Python side of a family is tests/worker/python/ops_*.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::samples {

using In = const std::vector<Tensor>&;
using Arguments = const nlohmann::json&;  // a list
using Functions = std::map<std::string, std::vector<Tensor> (*)(In, Arguments)>;

[[nodiscard]] Functions basics();
[[nodiscard]] Functions control();
[[nodiscard]] Functions creation();
[[nodiscard]] Functions elementwise();
[[nodiscard]] Functions index_ops();
[[nodiscard]] Functions jagged();
[[nodiscard]] Functions layers();
[[nodiscard]] Functions operators();
[[nodiscard]] Functions order();
[[nodiscard]] Functions random();
[[nodiscard]] Functions windows();

/// Those of all families.
[[nodiscard]] const Functions& functions();

/// Of its name, "f32".
[[nodiscard]] DType dtype_of(Arguments name);
/// A number as it was written: with a point or without; as text where JSON has none.
[[nodiscard]] TensorOperand operand_of(Arguments number);

}  // namespace lockstep::worker::samples
