// The training example with --device cuda, where emulated libraries take the places of CUDA's and
// NCCL's: real processes run the code that runs on GPUs.
#include <cmath>
#include <sstream>
#include <tuple>
#include <vector>

#include "launch.h"
#include <gtest/gtest.h>

namespace lockstep::worker::cuda_job_test {
namespace {

/// `rank_1`: what rank 1 alone finds in its environment.
Launched on_gpus(int ranks, int gpus, const std::string& program,
                 const std::string& rank_1 = "A=a") {
  const std::string environment = "env LOCKSTEP_CACHE_DIR=" TEST_CACHE
                                  " LD_LIBRARY_PATH=" EMULATED_CUDA_FOLDER
                                  ":$LD_LIBRARY_PATH"
                                  " EMULATED_CUDA_DEVICES=" +
                                  std::to_string(gpus);
  return launch(environment + " " MPIRUN " -t 500 -n " + std::to_string(ranks) +
                " sh -c '[ $OMPI_COMM_WORLD_RANK = 1 ] && export " + rank_1 + "; exec " + program +
                "'");
}
const std::string kTraining = MOE_TEXT " --steps 3 --lines 8 --dtype f64 ";
Launched train(int ranks, int gpus, const std::string& options, const std::string& rank_1 = "A=a") {
  return on_gpus(ranks, gpus, kTraining + options, rank_1);
}

std::vector<double> losses_of(const std::string& file) {
  std::istringstream lines(contents(file));
  std::vector<double> losses;
  for (double loss = 0; lines >> loss;) losses.push_back(loss);
  return losses;
}

/// The losses of the same training on the host, to 1e-9 relative. `told`: to the libraries, in
/// front of the program.
void expect_the_hosts_losses(int ranks, int gpus, const std::string& way,
                             const std::string& told = {}) {
  const Folder folder;
  const Launched host = train(ranks, gpus, "--losses " + (folder / "host"));
  ASSERT_EQ(host.exit_code, 0) << host.output;
  EXPECT_EQ(host.count("emulated CUDA"), 0) << host.output;
  const Launched gpu =
      on_gpus(ranks, gpus, told + kTraining + "--device cuda --losses " + (folder / "gpu"));
  ASSERT_EQ(gpu.exit_code, 0) << gpu.output;
  EXPECT_EQ(gpu.count("emulated CUDA"), ranks) << gpu.output;
  EXPECT_EQ(gpu.count(way), 1) << gpu.output;
  const auto expected = losses_of(folder / "host"), got = losses_of(folder / "gpu");
  ASSERT_EQ(expected.size(), 3U);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-9 * std::abs(expected[i])) << "step " << i;
}

TEST(CudaJob, OfOneRank_LearnsAsTheHost) {
  expect_the_hosts_losses(1, 1, "their collectives go by NCCL");
}

TEST(CudaJob, PlainAutocast_IsF16OnAGpuAndBf16OnTheHost) {
  for (const auto& [processor, dtype] : {std::pair{"cuda", "f16"}, {"host", "bf16"}}) {
    const Launched job = on_gpus(2, 2, std::string(AUTOCAST_RANK " ") + processor);
    EXPECT_EQ(job.exit_code, 0) << job.output;
    EXPECT_EQ(job.count(std::string("a product is ") + dtype + "\n"), 2) << job.output;
    EXPECT_EQ(job.count("emulated CUDA"), dtype == std::string("f16") ? 2 : 0) << job.output;
  }
}

TEST(CudaJob, OfFourRanksOnOneGpu_IsStagedAndLearnsAsTheHost) {
  expect_the_hosts_losses(4, 1, "ranks 0-3 share one GPU, which NCCL refuses");
}

TEST(CudaJob, OfTwoRanksOnTwoGpus_LearnsAsTheHost) {
  expect_the_hosts_losses(2, 2, "their collectives go by NCCL");
}

TEST(CudaJob, OfRanksThatShareAGpu_KeepsNoMemoryThatIsFreed) {
  // Seen by the call that is only made then, and without which the job goes on.
  const auto told = [](int gpus) {
    const Launched job = on_gpus(2, gpus, MOE_TEXT " --steps 1 --lines 8 --device cuda",
                                 "EMULATED_CUDA_FAIL=cuMemPoolSetAttribute:2");
    EXPECT_EQ(job.exit_code, 0) << job.output;
    return job.count("rank 1: cuMemPoolSetAttribute failed on rank 1's CUDA device 0 (sm_90)");
  };
  EXPECT_EQ(told(1), 1);
  EXPECT_EQ(told(2), 0);
}

/// groups compares with plain loops itself, to 1e-12.
TEST(CudaJob, OfOverlappingGroups_HasACommunicatorEachAndRecordsItsSteps) {
  const Launched job = on_gpus(4, 4, GROUPS " --device cuda");
  EXPECT_EQ(job.exit_code, 0) << job.output;
  // All ranks, two tensor groups, two data groups.
  EXPECT_EQ(job.count("their collectives go by NCCL"), 5) << job.output;
  EXPECT_EQ(job.count("step 5: loss "), 1) << job.output;
  const Launched shared = on_gpus(4, 2, GROUPS " --device cuda");
  EXPECT_EQ(shared.exit_code, 0) << shared.output;
  // Ranks 0,2 and 1,3 share a GPU: each tensor group has two, the data groups and all ranks do not.
  EXPECT_EQ(shared.count("their collectives go by NCCL"), 2) << shared.output;
  EXPECT_EQ(shared.count("which NCCL refuses"), 3) << shared.output;
}

TEST(CudaJob, OfGpusOfTwoKinds_BuildsForEach) {
  const Launched job = on_gpus(
      2, 2, "env LOCKSTEP_CACHE_DIR=$(mktemp -d) " MOE_TEXT " --steps 1 --lines 8 --device cuda",
      "EMULATED_CUDA_ARCH=sm_80");
  EXPECT_EQ(job.exit_code, 0) << job.output;
  EXPECT_EQ(job.count("matrix products may round differently on: "), 1) << job.output;
  EXPECT_EQ(job.count(" kernels in 8 units, 8 of them built here"), 1) << job.output;
}

TEST(CudaJob, OfDriversOfTwoVersions_TakesTheLibrariesThatEachRuns) {
  const Launched job = on_gpus(
      2, 2, "env LOCKSTEP_CACHE_DIR=$(mktemp -d) " MOE_TEXT " --steps 1 --lines 8 --device cuda",
      "EMULATED_CUDA_VERSION=12080 || export EMULATED_CUDA_VERSION=13000");
  EXPECT_EQ(job.exit_code, 0) << job.output;
  EXPECT_EQ(job.count("matrix products may round differently on: rank 0: cuBLAS 139999, "), 1)
      << job.output;
  EXPECT_EQ(job.count("rank 1: cuBLAS 129999, "), 1) << job.output;
  EXPECT_EQ(job.count(" kernels in 8 units, 8 of them built here"), 1) << job.output;
}

TEST(CudaJob, WithoutADriver_SaysWhatIsMissing) {
  for (const int ranks : {1, 3}) {
    const Launched job = launch_ranks(ranks, MOE_TEXT " --steps 1 --device cuda");
    EXPECT_EQ(job.exit_code, 7) << job.output;
    EXPECT_EQ(job.count("lockstep: ENVIRONMENT: "), 1) << job.output;
    EXPECT_EQ(job.count(" cannot run on a GPU: "), 1) << job.output;
    EXPECT_GE(job.count("libcuda.so.1"), 1) << job.output;
  }
}

TEST(CudaJob, OfWhichOneGpuHasTooLittleMemory_EndsWithOneSentenceForAll) {
  const Launched job = train(2, 2, "--device cuda", "EMULATED_CUDA_MEMORY=35000000");
  EXPECT_EQ(job.exit_code, 7) << job.output;
  EXPECT_EQ(job.count("lockstep: ENVIRONMENT: "), 1) << job.output;
  EXPECT_GE(job.count("rank 1's CUDA device 1 (sm_90) has no memory for the "), 1) << job.output;
  EXPECT_GE(job.count("model.h:"), 1) << job.output;
}

TEST(CudaJob, NcclThatFailsInAStep_EndsTheJobWithCallRankAndDevice) {
  const Launched job = train(2, 2, "--device cuda", "EMULATED_NCCL_FAIL=ncclAllReduce:2");
  EXPECT_EQ(job.exit_code, 7) << job.output;
  EXPECT_GE(job.count("ncclAllReduce"), 1) << job.output;
  EXPECT_LT(job.seconds, 60);
}

/// A deadline that no test waits for, and what NCCL is told.
std::string with_nccl_told(const std::string& what) {
  return "env LOCKSTEP_DEADLINE_SECONDS=300 EMULATED_NCCL_" + what + " ";
}

TEST(CudaJob, NcclThatCannotBeginOnOneRank_IsStagedAndLearnsAsTheHost) {
  // At once, and after a while in which the others wait.
  expect_the_hosts_losses(2, 2, "which is slow: ncclCommInitRankConfig failed on rank 1's CUDA",
                          with_nccl_told("FAIL=ncclCommInitRankConfig:1:1"));
  expect_the_hosts_losses(
      4, 4, "which is slow: ncclCommGetAsyncError failed on rank 2's CUDA device 2 (sm_90): ",
      with_nccl_told("SILENT_RANK=0 EMULATED_NCCL_FAIL=ncclCommGetAsyncError:1000:2"));
}

TEST(CudaJob, NcclThatCannotBeginOnOneRank_IsToldSoonAnywhere) {
  for (const auto& [ranks, told, way] :
       {std::tuple{1, "FAIL=ncclCommInitRankConfig:1:0",
                   "ncclCommInitRankConfig failed on rank 0's CUDA device 0"},
        {2, "FAIL=ncclGetUniqueId:1", "ncclGetUniqueId failed on rank 0"},
        {4, "FAIL=ncclCommCuDevice:1:3", "ncclCommCuDevice failed on rank 3's CUDA device 3"},
        {4, "FAIL=ncclCommInitRankConfig:1:0",
         "ncclCommInitRankConfig failed on rank 0's CUDA device 0"}}) {
    const Launched job =
        on_gpus(ranks, ranks,
                with_nccl_told(told) + MOE_TEXT " --steps 1 --lines 8 --dtype f64 --device cuda");
    EXPECT_EQ(job.exit_code, 0) << told << "\n" << job.output;
    EXPECT_EQ(job.count(std::string("which is slow: ") + way), 1) << told << "\n" << job.output;
    EXPECT_LT(job.seconds, 100);
  }
}

TEST(CudaJob, NcclThatCannotBeginOnARankOfSomeGroups_IsStagedInThoseAlone) {
  const Launched job = on_gpus(4, 4, "env LOCKSTEP_DEADLINE_SECONDS=300 " GROUPS " --device cuda",
                               "EMULATED_NCCL_FAIL=ncclCommInitRankConfig:1");
  EXPECT_EQ(job.exit_code, 0) << job.output;
  // Rank 1 is in three of the five.
  EXPECT_EQ(job.count("ncclCommInitRankConfig failed on rank 1's CUDA device 1"), 3) << job.output;
  EXPECT_EQ(job.count("their collectives go by NCCL"), 2) << job.output;
  EXPECT_LT(job.seconds, 100);
}

TEST(CudaJob, RanksThatNcclDoesNotBringTogether_AreStagedAfterTheDeadline) {
  const Launched job =
      on_gpus(2, 2,
              "env EMULATED_NCCL_SILENT_RANK=1 LOCKSTEP_DEADLINE_SECONDS=5 " MOE_TEXT
              " --steps 1 --lines 8 --device cuda");
  EXPECT_EQ(job.exit_code, 0) << job.output;
  EXPECT_EQ(job.count("which is slow: ncclCommInitRankConfig has not ended on rank "), 1)
      << job.output;
  EXPECT_EQ(job.count(" for 10 s: not all 2 ranks have come to it"), 1) << job.output;
}

TEST(CudaJob, RankThatIsKilledWhileNcclBegins_IsNamed) {
  // Nobody meets rank 0; rank 1 is killed when both have long been waiting for it.
  const Launched job =
      on_gpus(2, 2,
              "env EMULATED_NCCL_SILENT_RANK=0 LOCKSTEP_DEADLINE_SECONDS=300 " MOE_TEXT
              " --steps 1 --lines 8 --device cuda",
              "A=a && (sleep 12; kill -9 $$) & :");
  EXPECT_TRUE(job.exit_code == 137 || job.exit_code == 5) << job.exit_code << job.output;
  EXPECT_GE(job.count("RANK_LOST"), 1) << job.output;
  EXPECT_GE(job.count("connects NCCL"), 1) << job.output;
  EXPECT_LT(job.seconds, 100);
}

TEST(CudaJob, OfWhichOneRanksGpuFails_EndsWithOneSentenceForAll) {
  // Two of what fails at once, and one that a later call finds out.
  for (const auto& [failing, told] :
       {std::pair{"cuLaunchKernel:100", "cuLaunchKernel failed on rank 1's CUDA device 1 (sm_90)"},
        {"cublasGemmStridedBatchedEx:5",
         "cublasGemmStridedBatchedEx failed on rank 1's CUDA device 1 (sm_90)"},
        {"cuModuleLoadData:3", "cuModuleLoadData failed on rank 1's CUDA device 1 (sm_90)"},
        {"cuInit:1", "rank 1 cannot run on a GPU: cuInit failed"},
        {"kernel:30", " failed on rank 1's CUDA device 1 (sm_90)"}}) {
    const Launched job = train(2, 2, "--device cuda", std::string("EMULATED_CUDA_FAIL=") + failing);
    EXPECT_EQ(job.exit_code, 7) << failing << "\n" << job.output;
    EXPECT_EQ(job.count("lockstep: ENVIRONMENT: "), 1) << failing << "\n" << job.output;
    EXPECT_GE(job.count(told), 1) << failing << "\n" << job.output;
  }
}

}  // namespace
}  // namespace lockstep::worker::cuda_job_test
