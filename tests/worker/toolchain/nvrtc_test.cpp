// CUDA text to cubins, where the toolkit is: needs no driver and no GPU.
#include "ops/op_graphs.h"
#include <gtest/gtest.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/toolchain/nvrtc_toolchain.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker::nvrtc_test {
namespace {

std::unique_ptr<Toolchain> toolchain(const std::string& architecture) {
  auto opened = open_nvrtc({.architecture = architecture});
  EXPECT_TRUE(opened.has_value()) << opened.error().text();
  return opened ? *std::move(opened) : nullptr;
}

std::string_view text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// ELF for CUDA, as its header says.
bool is_cubin(const Bytes& bytes) {
  constexpr unsigned kMachineCuda = 190;
  return text_of(bytes).starts_with(
             "\x7f"
             "ELF") &&
         bytes.size() > 20 &&
         (static_cast<unsigned>(bytes[18]) | static_cast<unsigned>(bytes[19]) << 8) == kMachineCuda;
}

void expect_kernels(Graph graph, Toolchain& toolchain) {
  for (SymbolBinding& binding : graph.symbols) binding.hint = 300;  // with split reductions
  const Program program = generate(std::move(graph), Target::Cuda).value();
  std::vector<Bytes> units;
  for (const std::string& unit : program.units) {
    auto built = toolchain.build(unit);
    ASSERT_TRUE(built.has_value()) << built.error().text();
    EXPECT_TRUE(is_cubin(*built));
    units.push_back(*std::move(built));
  }
  for (const Kernel& kernel : program.kernels)
    EXPECT_NE(text_of(units[kernel.unit]).find(".text." + kernel.name), std::string_view::npos)
        << kernel.name;
}

class Nvrtc : public testing::TestWithParam<const char*> {};

TEST_P(Nvrtc, EveryOpsKernels_AreInTheCubin) {
  const auto made = toolchain(GetParam());
  ASSERT_NE(made, nullptr);
  for (DType dtype : {DType::F64, DType::F32, DType::I64})
    for (GraphMaker make :
         {elementwise_graph, view_graph, reduction_graph, index_graph, order_graph, product_graph})
      if (make != product_graph || is_float(dtype))
        expect_kernels(make(dtype, std::nullopt), *made);
  for (DType dtype : {DType::F16, DType::BF16})
    for (GraphMaker make : {elementwise_graph, view_graph, index_graph})
      expect_kernels(make(dtype, std::nullopt), *made);
}

INSTANTIATE_TEST_SUITE_P(Architectures, Nvrtc, testing::Values("sm_80", "sm_90"),
                         [](const auto& p) { return std::string(p.param); });

TEST(NvrtcToolchain, AnotherArchitectureOrFlag_IsAnotherArtifact) {
  const auto a = toolchain("sm_80"), b = toolchain("sm_90");
  const auto c = open_nvrtc({.architecture = "sm_90", .flags = {"--std=c++17"}});
  ASSERT_TRUE(a && b && c);
  EXPECT_NE(a->fingerprint(), b->fingerprint());
  EXPECT_NE(b->fingerprint(), (*c)->fingerprint());
  EXPECT_EQ(b->fingerprint(), toolchain("sm_90")->fingerprint());
}

TEST(NvrtcToolchain, TextThatIsWrong_IsACompileErrorWithTheFirstComplaint) {
  auto opened = open_nvrtc({.architecture = "sm_90", .rank = Rank{3}});
  ASSERT_TRUE(opened.has_value());
  const auto built = (*opened)->build("extern \"C\" __global__ void k(long n) { unknown(n); }");
  ASSERT_FALSE(built.has_value());
  EXPECT_EQ(built.error().code, Code::CompileError);
  EXPECT_EQ(built.error().message,
            "nvrtcCompileProgram failed on rank 3 for sm_90: NVRTC_ERROR_COMPILATION: "
            "kernels.cu(1): error: identifier \"unknown\" is undefined");
}

TEST(NvrtcToolchain, UnknownArchitecture_SaysWhichAreKnown) {
  for (const char* name : {"sm_1", "compute_90", "", "sm_"}) {
    const auto opened = open_nvrtc({.architecture = name});
    ASSERT_FALSE(opened.has_value()) << name;
    EXPECT_EQ(opened.error().code, Code::Environment);
    EXPECT_NE(opened.error().message.find("sm_90"), std::string::npos) << opened.error().message;
  }
}

}  // namespace
}  // namespace lockstep::worker::nvrtc_test
