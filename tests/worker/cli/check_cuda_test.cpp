// What doctor says of CUDA's libraries, on machines of fakes.
#include <map>

#include "../../collectives/fake_cuda_machine.h"

#include <lockstep/worker/cli/checks.h>

namespace lockstep::worker::cli::check_cuda_test {
namespace {

std::map<std::string, Check> checks_of(const FakeCudaMachine& machine) {
  std::map<std::string, Check> checks;
  for (const Check& check : check_cuda(machine.places())) checks[check.name] = check;
  checks["nccl"] = check_nccl(machine.places());
  EXPECT_EQ(checks.size(), 4U);
  return checks;
}

void expect(const Check& check, Check::Grade grade, const std::string& detail) {
  EXPECT_EQ(check.grade, grade) << check.name;
  EXPECT_EQ(check.detail, detail);
}

constexpr auto kOk = Check::Grade::Ok, kWarn = Check::Grade::Warn;

TEST(CheckCuda, WhereAllIsThere_NamesPathsAndVersions) {
  const FakeCudaMachine machine;
  machine.drive(13020);
  ::setenv("FAKE_CUDA_DEVICES", "2", 1);
  const std::string nvrtc = machine.library("usr/cuda-13.0/lib64/libnvrtc.so.13");
  const std::string cublas = machine.library("usr/cuda-12.8/lib64/libcublas.so.12");
  const std::string nccl = machine.library("usr/nvidia/lib64/libnccl.so.2", 22809);
  auto checks = checks_of(machine);
  expect(checks["cuda"], kOk,
         "2 devices, NVIDIA driver of CUDA 13.2 (" +
             (machine / "usr/nvidia/lib64/libcuda.so.1").string() + ")");
  expect(checks["nvrtc"], kOk, "NVRTC 13.7 (" + nvrtc + ")");
  expect(checks["cublas"], kOk, "cuBLAS 12.1.2 (" + cublas + ")");
  expect(checks["nccl"], kOk, "NCCL 2.28.9 (" + nccl + ")");
}

TEST(CheckCuda, EachThatIsMissing_IsAWarningThatSaysWhatItMeans) {
  for (const std::string missing : {"cuda", "nvrtc", "cublas", "nccl"}) {
    const FakeCudaMachine machine;
    if (missing != "cuda") machine.drive(12080);
    ::setenv("FAKE_CUDA_DEVICES", "1", 1);
    for (const std::string there : {"nvrtc", "cublas"})
      if (missing != there) (void)machine.library("usr/cuda/lib64/lib" + there + ".so.12");
    if (missing != "nccl") (void)machine.library("usr/cuda/lib64/libnccl.so.2", 22809);
    const std::map<std::string, std::string> means{
        {"cuda", "; jobs with Processor::Cuda cannot run here, programs run on the host"},
        {"nvrtc", "; jobs with Processor::Cuda cannot build kernels here"},
        {"cublas", "; jobs with Processor::Cuda cannot run here"},
        {"nccl", "; collectives between GPUs are staged through the host, which is slow"}};
    for (const auto& [name, check] : checks_of(machine)) {
      EXPECT_EQ(check.grade, name == missing ? kWarn : kOk) << missing << ": " << check.detail;
      if (name == missing) {
        EXPECT_TRUE(check.detail.starts_with("there is no ")) << check.detail;
        EXPECT_TRUE(check.detail.ends_with(means.at(name))) << check.detail;
      }
    }
  }
}

TEST(CheckCuda, WhatDoesNotFit_IsAWarning) {
  const FakeCudaMachine machine;
  machine.drive(12080);
  for (const char* name : {"libnvrtc.so.13", "libcublas.so.13"})
    (void)machine.library(std::string("usr/cuda/lib64/") + name);
  (void)machine.library("usr/cuda/lib64/libnccl.so.2", 21701);
  auto checks = checks_of(machine);
  expect(checks["cuda"], kWarn,
         "NVIDIA driver of CUDA 12.8 (" + (machine / "usr/nvidia/lib64/libcuda.so.1").string() +
             ") finds no device (error 100); jobs with Processor::Cuda cannot run here, programs "
             "run on the host");
  for (const auto& [name, what] : {std::pair{"nvrtc", " is too new for the NVIDIA driver"},
                                   {"cublas", " is too new for the NVIDIA driver"},
                                   {"nccl", " is too old; install NCCL 2.18 or newer"}}) {
    EXPECT_EQ(checks[name].grade, kWarn);
    EXPECT_NE(checks[name].detail.find(what), std::string::npos) << checks[name].detail;
  }
}

}  // namespace
}  // namespace lockstep::worker::cli::check_cuda_test
