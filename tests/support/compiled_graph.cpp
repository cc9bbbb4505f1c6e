#include "compiled_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "thread_group.h"

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/interpreter/interpreter.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

const SystemClock kClock;

testing::AssertionResult same_array(const Array& got, const Array& expected, double bound) {
  if (got.dtype() != expected.dtype() || got.sizes() != expected.sizes())
    return testing::AssertionFailure() << "dtype or sizes differ";
  const bool floats = got.dtype() == DType::F32 || got.dtype() == DType::F64;
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    const double a = got.at(i), b = expected.at(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double limit = floats ? bound * std::max({1.0, std::abs(a), std::abs(b)}) : 0;
    if (!(std::abs(a - b) <= limit))
      return testing::AssertionFailure() << "element " << i << " is " << a << ", expected " << b;
  }
  return testing::AssertionSuccess();
}

}  // namespace

Toolchain& test_toolchain() {
  static const auto toolchain = [] {
    HostToolchain::Options options;
#ifdef __SANITIZE_ADDRESS__
    // Kernels run under the same sanitizers as the rest.
    options.flags.insert(options.flags.end(),
                         {"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1"});
#endif
    return HostToolchain::open(options).value();
  }();
  return *toolchain;
}

std::unique_ptr<Executable> compile(const Graph& graph) {
  auto program = generate(graph);
  EXPECT_TRUE(program.has_value()) << (program ? "" : program.error().text());
  if (!program) return nullptr;
  std::vector<Bytes> units;
  for (const std::string& unit : program->units) {
    auto built = test_toolchain().build(unit);
    EXPECT_TRUE(built.has_value()) << (built ? "" : built.error().text() + "\n" + program->text());
    if (!built) return nullptr;
    units.push_back(*std::move(built));
  }
  auto loaded = Executable::load(*std::move(program), units, kClock);
  EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : loaded.error().text());
  return loaded ? *std::move(loaded) : nullptr;
}

Result<std::vector<Array>> run_compiled(Executable& executable, const Inputs& inputs) {
  thread_local Threads threads(3, 1);
  return run_compiled(executable, inputs, threads);
}

Result<std::vector<Array>> run_compiled(Executable& executable, const Inputs& inputs,
                                        Threads& threads) {
  std::optional<Result<std::vector<Array>>> out;
  run_alone(
      [&](auto& communicator, RunHost& host) { out = executable.run(inputs, communicator, host); },
      &threads);
  return *std::move(out);
}

Result<std::vector<Array>> run_interpreted(const Graph& graph, const Inputs& inputs) {
  std::optional<Result<std::vector<Array>>> out;
  run_alone([&](auto& communicator, RunHost& host) {
    out = interpret(graph, inputs, communicator, host);
  });
  return *std::move(out);
}

testing::AssertionResult same(const std::vector<Array>& got, const std::vector<Array>& expected,
                              double bound) {
  if (got.size() != expected.size())
    return testing::AssertionFailure() << "other number of outputs";
  for (std::size_t i = 0; i < got.size(); ++i)
    if (auto equal = same_array(got[i], expected[i], bound); !equal)
      return testing::AssertionFailure() << "output " << i << ": " << equal.message();
  return testing::AssertionSuccess();
}

testing::AssertionResult agree(Executable& executable, const Inputs& inputs, double bound) {
  const auto expected = run_interpreted(executable.program().graph, inputs);
  const auto got = run_compiled(executable, inputs);
  if (expected && got) return same(*got, *expected, bound);
  if (expected) return testing::AssertionFailure() << "compiled fails: " << got.error().text();
  if (got)
    return testing::AssertionFailure() << "only the interpreter fails: " << expected.error().text();
  if (got.error() == expected.error()) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << got.error().text() << " instead of " << expected.error().text();
}

Array random_array(std::mt19937_64& random, DType dtype, std::vector<std::int64_t> sizes,
                   bool special) {
  Array out(dtype, std::move(sizes));
  const bool floats = is_float(dtype);
  std::uniform_real_distribution<double> real(-2, 2);
  std::uniform_int_distribution<int> small(-3, 3), kind(0, 9);
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    const int k = kind(random);
    double value = floats && k > 2 ? real(random) : small(random);
    if (special && floats && k == 9) value = std::numeric_limits<double>::quiet_NaN();
    if (special && floats && k == 8)
      value = std::numeric_limits<double>::infinity() * (value < 0 ? -1 : 1);
    if (dtype == DType::Bool) value = k % 2;
    if (dtype == DType::U8) value = std::abs(value);
    out.set(i, value);
  }
  return out;
}

Array random_indices(std::mt19937_64& random, std::int64_t count, std::int64_t limit) {
  Array out(DType::I64, {count});
  for (std::int64_t i = 0; i < count; ++i)
    out.data_as<std::int64_t>()[i] = std::uniform_int_distribution<std::int64_t>(
        0, std::max<std::int64_t>(limit, 1) - 1)(random);
  return out;
}

Array integers(std::vector<std::int64_t> sizes, std::vector<std::int64_t> values) {
  Array out(DType::I64, std::move(sizes));
  std::ranges::copy(values, out.data_as<std::int64_t>());
  return out;
}

}  // namespace lockstep::worker
