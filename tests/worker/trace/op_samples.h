// Samples of torch's own op tests in the tensor language, a table for each family of ops
// (samples_*.cpp). The Python side of a family is tests/worker/python/ops_*.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <lockstep/worker/language/tensor_ops.h>

namespace lockstep::worker::samples {

using In = const std::vector<Tensor>&;
using Arguments = const nlohmann::json&;  // a list
using Functions = std::map<std::string, std::vector<Tensor> (*)(In, Arguments)>;

[[nodiscard]] Functions basics();
[[nodiscard]] Functions elementwise();
[[nodiscard]] Functions jagged();
[[nodiscard]] Functions layers();
[[nodiscard]] Functions windows();
[[nodiscard]] Functions index_ops();
[[nodiscard]] Functions order();

}  // namespace lockstep::worker::samples
