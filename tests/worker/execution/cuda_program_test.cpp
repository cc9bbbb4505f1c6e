// A program's runs on a CUDA device where each call of CUDA's fails in turn, on CUDA's libraries as
// they are emulated for tests.
#include "compiled_graph.h"
#include "emulated_cuda/emulated_library.h"
#include "graph_builder.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/device/cuda_device.h>
#include <lockstep/worker/compile/toolchain/nvrtc_toolchain.h>

namespace lockstep::worker::cuda_program_test {
namespace {

using emulated_cuda::Library;
using shapes::Expr;

/// Kernels, a product and numbers that the host reads.
Graph mixed_graph() {
  GraphBuilder g("mixed");
  const Expr n = g.symbol("x.size(0)");
  const NodeId x = g.input("x", DType::F64, {n, n}),
               counts = g.input("counts", DType::I64, {Expr(1)});
  const auto read = g.read(Op::ToList, counts);
  g.check(shapes::greater_equal(read[0], 0));
  g.check(shapes::less_equal(read[0], n), "there are so many rows");
  const NodeId square = g.op(Op::Matmul, {x, x});
  const NodeId some = g.slice(g.op(Op::Add, {square, x}), 0, Expr(0), read[0]);
  g.output(g.op(Op::Cumsum, {g.reduce(Op::Sum, some, {1})}));
  g.output(g.reduce(Op::Sum, square, {0, 1}));
  return g.take();
}

Inputs mixed_inputs() {
  std::mt19937_64 random(20267);
  Inputs inputs;
  inputs["x"] = random_array(random, DType::F64, {5, 5});
  inputs["counts"] = integers({1}, {3});
  return inputs;
}

/// Outputs on the host.
Result<std::vector<std::vector<double>>> job(const Program& program,
                                             const std::vector<Bytes>& units) {
  auto opened = open_cuda_device({.rank = Rank{2}});
  if (!opened) return opened.error();
  const std::shared_ptr<Device> device = *std::move(opened);
  const SystemClock clock;
  const auto loaded = Executable::load(program, units, clock, device);
  if (!loaded) return loaded.error();
  std::vector<std::vector<double>> out;
  for (int run = 0; run < 2; ++run) {
    const auto outputs = run_compiled(**loaded, mixed_inputs());
    if (!outputs) return outputs.error();
    for (const Array& array : *outputs) {
      std::vector<double> host(static_cast<std::size_t>(array.elements()));
      if (const auto values = array.far_memory())
        if (auto done = values->fetch(host.data(), array.bytes()); !done) return done.error();
      out.push_back(std::move(host));
    }
  }
  return out;
}

struct Built {
  Program program;
  std::vector<Bytes> units;
};
Built mixed_program() {
  Built out{generate(mixed_graph(), Target::Cuda).value(), {}};
  const auto toolchain = open_nvrtc({.architecture = "sm_90"}).value();
  for (const std::string& unit : out.program.units)
    out.units.push_back(toolchain->build(unit).value());
  return out;
}

TEST(CudaProgram, EachCallThatFails_IsOneSentenceAndLeavesNothing) {
  const Library driver("libcuda.so.1");
  if (!driver.emulated())
    GTEST_SKIP() << "SKIPPED ALOUD: the emulated libraries are not those of this process";
  const auto [program, units] = mixed_program();

  driver.fail("", 0);
  const auto expected = job(program, units);
  ASSERT_TRUE(expected.has_value()) << expected.error().text();
  const auto interpreted = run_interpreted(program.graph, mixed_inputs());
  ASSERT_TRUE(interpreted.has_value());
  for (std::size_t i = 0; i < expected->size(); ++i)
    for (std::size_t k = 0; k < (*expected)[i].size(); ++k)
      EXPECT_NEAR((*expected)[i][k], (*interpreted)[i % 2].at(static_cast<std::int64_t>(k)), 1e-12);
  EXPECT_EQ(driver.live_bytes(), 0U);

  int told = 0;
  for (const auto& [call, count] : driver.calls())
    for (int nth = 1; nth <= count; ++nth) {
      SCOPED_TRACE(testing::Message() << call << ":" << nth);
      driver.fail(call, nth);
      const auto got = job(program, units);
      EXPECT_EQ(driver.live_bytes(), 0U);
      EXPECT_EQ(driver.live_objects(), 0U);
      if (got) {
        EXPECT_EQ(*got, *expected);  // of what gives something back nobody hears
        continue;
      }
      ++told;
      const std::string& message = got.error().message;
      EXPECT_EQ(got.error().code, Code::Environment);
      EXPECT_NE(message.find(" failed on rank 2's CUDA device 0"), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  EXPECT_GT(told, 40);
  driver.fail("", 0);
}

TEST(CudaProgram, OnASharedDevice_ARunKeepsNothingFromOthers) {
  const Library driver("libcuda.so.1");
  if (!driver.emulated())
    GTEST_SKIP() << "SKIPPED ALOUD: the emulated libraries are not those of this process";
  const auto [program, units] = mixed_program();
  driver.fail("", 0);
  const std::shared_ptr<Device> device = open_cuda_device({.rank = Rank{2}}).value();
  const SystemClock clock;
  const auto loaded = Executable::load(program, units, clock, device).value();
  ASSERT_TRUE(run_compiled(*loaded, mixed_inputs()).has_value());
  ASSERT_TRUE(device->synchronise().has_value());
  EXPECT_GT(driver.kept_bytes(), 0U);
  ASSERT_TRUE(device->share().has_value());
  const auto outputs = run_compiled(*loaded, mixed_inputs());
  ASSERT_TRUE(outputs.has_value());
  EXPECT_GT(driver.live_bytes(), 0U);  // once all work is done
  EXPECT_EQ(driver.kept_bytes(), 0U);
}

}  // namespace
}  // namespace lockstep::worker::cuda_program_test
