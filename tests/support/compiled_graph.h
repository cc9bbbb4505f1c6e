// A graph compiled by the host compiler, run beside the interpreter; compares their results.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/worker/compile/execution/executable.h>
#include <lockstep/worker/compile/toolchain/host_toolchain.h>

namespace lockstep::worker {

/// One compiler, shared by all tests of the program.
[[nodiscard]] Toolchain& test_toolchain();

/// Generates, builds and loads a program; fails the test if that does not work.
[[nodiscard]] std::unique_ptr<Executable> compile(const Graph& graph);

/// Three threads share the kernels, also the smallest.
[[nodiscard]] Result<std::vector<Array>> run_compiled(Executable& executable, const Inputs& inputs);
[[nodiscard]] Result<std::vector<Array>> run_compiled(Executable& executable, const Inputs& inputs,
                                                      Threads& threads);
[[nodiscard]] Result<std::vector<Array>> run_interpreted(const Graph& graph, const Inputs& inputs);

/// Same dtypes, sizes and values: ints exactly, floats to `bound` relative to the larger magnitude
/// (at least 1); NaN equals NaN.
[[nodiscard]] testing::AssertionResult same(const std::vector<Array>& got,
                                            const std::vector<Array>& expected, double bound);

/// Runs both on the same inputs and compares; an error of the interpreter must be that of the
/// compiled program.
[[nodiscard]] testing::AssertionResult agree(Executable& executable, const Inputs& inputs,
                                             double bound);

/// Values of `dtype`, among them values that often cause trouble: zeros, equal and negative ones;
/// with `special` also infinities and NaN.
[[nodiscard]] Array random_array(std::mt19937_64& random, DType dtype,
                                 std::vector<std::int64_t> sizes, bool special = false);
/// i64 values in [0, limit); if limit is 0, zeros, which are out of range.
[[nodiscard]] Array random_indices(std::mt19937_64& random, std::int64_t count, std::int64_t limit);
[[nodiscard]] Array integers(std::vector<std::int64_t> sizes, std::vector<std::int64_t> values);

}  // namespace lockstep::worker
