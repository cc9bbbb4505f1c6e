// Which of CUDA's libraries is taken, of fakes in every kind of folder; what is said where none is.
#include "fake_cuda_machine.h"
#include <dlfcn.h>

#include <lockstep/collectives/base/cuda_library.h>

namespace lockstep::cuda_library_test {
namespace {

using Kind = CudaLibrary::Kind;

/// The file that is taken, or why none is.
std::string taken(Kind kind, const CudaPlaces& places) {
  const auto opened = CudaLibrary::open(kind, places);
  if (opened) return opened->path();
  EXPECT_EQ(opened.error().code, Code::Environment);
  EXPECT_EQ(opened.error().message.find('\n'), std::string::npos) << opened.error().message;
  return opened.error().message;
}

TEST(CudaLibrary, InEachKindOfFolder_IsFound) {
  for (const std::string folder :
       {"usr/cuda/lib64", "usr/cuda-12.8/targets/x86_64-linux/lib", "usr/nvidia/lib64",
        "venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib",
        "venv/lib/python3/dist-packages/nvidia/cu13/lib",
        "home/.local/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib",
        "usr/lib/python3.11/dist-packages/nvidia/cuda_nvrtc/lib"}) {
    const FakeCudaMachine machine;
    (void)machine.file("venv/bin/python3");
    const std::string file = machine.library(folder + "/libnvrtc.so.12");
    const auto opened = CudaLibrary::open(Kind::Nvrtc, machine.places());
    ASSERT_TRUE(opened) << folder << ": " << opened.error().text();
    EXPECT_EQ(opened->path(), file);
    EXPECT_EQ(opened->text(), "NVRTC 12.7 (" + file + ")");
  }
}

TEST(CudaLibrary, OfOneMajorInSeveralFolders_IsTheFirsts) {
  const FakeCudaMachine machine;
  (void)machine.file("venv/bin/python3");
  const std::string wheel = "venv/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12";
  for (const std::string& file : {wheel, std::string("usr/nvidia/lib64/libcublas.so.12"),
                                  std::string("usr/cuda-12.8/lib64/libcublas.so.12"),
                                  std::string("usr/cuda-12.10/lib64/libcublas.so.12")}) {
    const std::string at = machine.library(file);
    EXPECT_EQ(taken(Kind::Cublas, machine.places()), at);
  }
}

TEST(CudaLibrary, OfTwoMajors_IsTheNewestThatTheDriverRuns) {
  const FakeCudaMachine machine;
  (void)machine.file("venv/bin/python3");
  const std::string older = machine.library("usr/cuda-12.8/lib64/libnvrtc.so.12");
  const std::string newer =
      machine.library("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
  EXPECT_EQ(taken(Kind::Nvrtc, machine.places()), newer) << "there is no driver";
  for (const auto& [driver, file] :
       {std::pair{12000, older}, {12080, older}, {13000, newer}, {13020, newer}, {14010, newer}}) {
    machine.drive(driver);
    EXPECT_EQ(taken(Kind::Nvrtc, machine.places()), file) << driver;
  }
}

TEST(CudaLibrary, WithADriverThatDoesNotSayItsVersion_IsTheNewest) {
  const FakeCudaMachine machine;
  (void)machine.library("usr/nvidia/lib64/libcuda.so.1");
  (void)machine.library("usr/cuda-12.8/lib64/libcublas.so.12");
  const std::string newer = machine.library("usr/cuda-13.0/lib64/libcublas.so.13");
  EXPECT_EQ(taken(Kind::Cublas, machine.places()), newer);
}

TEST(CudaLibrary, OnlyNewerThanTheDriver_SaysBothVersionsAndWhatToInstall) {
  const FakeCudaMachine machine;
  machine.drive(12080);
  const std::string nvrtc = machine.library("usr/cuda-13.0/lib64/libnvrtc.so.13");
  EXPECT_EQ(taken(Kind::Nvrtc, machine.places()),
            "NVRTC 13.7 (" + nvrtc +
                ") is too new for the NVIDIA driver, which has CUDA 12.8; install the CUDA toolkit "
                "12 (or pip install nvidia-cuda-nvrtc-cu12), or a driver of CUDA 13");
  const std::string cublas = machine.library("usr/cuda-13.0/lib64/libcublas.so.13");
  EXPECT_EQ(taken(Kind::Cublas, machine.places()),
            "cuBLAS 13.1.2 (" + cublas +
                ") is too new for the NVIDIA driver, which has CUDA 12.8; install the CUDA toolkit "
                "12 (or pip install nvidia-cublas-cu12), or a driver of CUDA 13");
}

TEST(CudaLibrary, ThatIsMissing_SaysWhereItIsNotAndWhatToInstall) {
  const FakeCudaMachine machine;
  const std::string usr = machine / "usr";
  const std::string where =
      " in " + usr + "/cuda*, in " + usr + "/nvidia/lib64 or among Python's packages; install ";
  const auto missing = [&](Kind kind) { return taken(kind, machine.places()); };
  EXPECT_EQ(missing(Kind::Driver), "there is no NVIDIA driver on this machine");
  EXPECT_EQ(missing(Kind::Nvrtc),
            "there is no NVRTC of CUDA 13 or 12" + where +
                "the CUDA toolkit 13 (or pip install \"nvidia-cuda-nvrtc==13.*\")");
  EXPECT_EQ(missing(Kind::Cublas), "there is no cuBLAS of CUDA 13 or 12" + where +
                                       "the CUDA toolkit 13 (or pip install "
                                       "\"nvidia-cublas==13.*\")");
  EXPECT_EQ(missing(Kind::Nccl),
            "there is no NCCL" + where + "NCCL 2.18 or newer (or pip install nvidia-nccl-cu13)");
  machine.drive(12040);
  EXPECT_EQ(missing(Kind::Cublas), "there is no cuBLAS of CUDA 12" + where +
                                       "the CUDA toolkit 12 (or pip install nvidia-cublas-cu12)");
  EXPECT_EQ(missing(Kind::Nccl),
            "there is no NCCL" + where + "NCCL 2.18 or newer (or pip install nvidia-nccl-cu12)");
}

TEST(CudaLibrary, ThatIsMissing_SaysWhatTheLoaderSays) {
  const FakeCudaMachine machine;
  auto places = machine.places();
  places.loader = true;
  if (CudaLibrary::open(Kind::Driver, places))
    GTEST_SKIP() << "SKIPPED ALOUD: the loader knows of a driver here";
  const std::string why = taken(Kind::Driver, places);
  EXPECT_TRUE(why.starts_with("there is no NVIDIA driver on this machine (libcuda.so.1: cannot "))
      << why;
}

TEST(CudaLibrary, DriverBesideNvidiasFolder_IsFoundAndSaysItsVersion) {
  const FakeCudaMachine machine;
  machine.drive(12040);
  const auto driver = CudaLibrary::open(Kind::Driver, machine.places());
  ASSERT_TRUE(driver) << driver.error().text();
  EXPECT_EQ(driver->text(), "NVIDIA driver of CUDA 12.4 (" +
                                (machine / "usr/nvidia/lib64/libcuda.so.1").string() + ")");
}

TEST(CudaLibrary, DriverOfCuda11_IsTooOld) {
  const FakeCudaMachine machine;
  machine.drive(11080);
  EXPECT_EQ(taken(Kind::Driver, machine.places()),
            "NVIDIA driver of CUDA 11.8 (" + (machine / "usr/nvidia/lib64/libcuda.so.1").string() +
                ") is too old; install NVIDIA's driver of CUDA 12 or newer");
}

TEST(CudaLibrary, NcclBefore218_IsTooOldUnlessThereIsAnother) {
  const FakeCudaMachine machine;
  machine.drive(12080);
  const std::string older = machine.library("usr/cuda-12.8/lib64/libnccl.so.2", 21705);
  EXPECT_EQ(taken(Kind::Nccl, machine.places()),
            "NCCL 2.17.5 (" + older +
                ") is too old; install NCCL 2.18 or newer (or pip install nvidia-nccl-cu12)");
  const std::string newer = machine.library(
      "home/.local/lib/python3.9/site-packages/nvidia/nccl/lib/libnccl.so.2", 21801);
  const auto found = CudaLibrary::open(Kind::Nccl, machine.places());
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->text(), "NCCL 2.18.1 (" + newer + ")");
}

TEST(CudaLibrary, NcclWhoseVersionIsInTheFormerForm_IsTooOld) {
  const FakeCudaMachine machine;
  (void)machine.library("usr/cuda-11.0/lib64/libnccl.so.2", 2804);
  EXPECT_EQ(taken(Kind::Nccl, machine.places()).rfind("NCCL 2.8.4 (", 0), 0U);
}

TEST(CudaLibrary, FileThatIsNoLibrary_IsSaidUnlessThereIsAnother) {
  const FakeCudaMachine machine;
  const std::string broken = machine.file("usr/cuda-12.8/lib64/libcublas.so.12", "nothing");
  EXPECT_EQ(taken(Kind::Cublas, machine.places()),
            "cuBLAS cannot be loaded (" + broken +
                ": file too short); install the CUDA toolkit 13 (or pip install "
                "\"nvidia-cublas==13.*\")");
  const std::string whole = machine.library("usr/nvidia/lib64/libcublas.so.12");
  EXPECT_EQ(taken(Kind::Cublas, machine.places()), whole);
}

TEST(CudaLibrary, WithoutAFunction_SaysWhichAndWhere) {
  const FakeCudaMachine machine;
  const std::string file = machine.library("usr/cuda/lib64/libnvrtc.so.13");
  auto opened = CudaLibrary::open(Kind::Nvrtc, machine.places());
  ASSERT_TRUE(opened);
  int (*function)(int*, int*) = nullptr;
  opened->find(function, "nvrtcVersion");
  EXPECT_NE(function, nullptr);
  EXPECT_EQ(opened->flaw(), "");
  opened->find(function, "nvrtcNoSuchThing");
  EXPECT_EQ(opened->flaw(),
            "NVRTC 13.7 (" + file + ") has no nvrtcNoSuchThing; install it anew, or another one");
}

TEST(CudaLibrary, CompanionsInItsFolder_AreLoadedWithIt) {
  const FakeCudaMachine machine;
  const auto loaded = [](const std::filesystem::path& file) {
    return ::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr;
  };
  const auto builtins = machine.library("usr/cuda/lib64/libnvrtc-builtins.so.12.8");
  const auto others = machine.library("usr/cuda/lib64/libnvrtc-builtins.so.13.0");
  const auto lt = machine.library("usr/cuda/lib64/libcublasLt.so.12");
  for (const char* name : {"libnvrtc.so.12", "libcublas.so.12"})
    (void)machine.library(std::string("usr/cuda/lib64/") + name);
  ASSERT_TRUE(CudaLibrary::open(Kind::Nvrtc, machine.places()));
  EXPECT_TRUE(loaded(builtins));
  EXPECT_FALSE(loaded(others));
  EXPECT_FALSE(loaded(lt));
  ASSERT_TRUE(CudaLibrary::open(Kind::Cublas, machine.places()));
  EXPECT_TRUE(loaded(lt));
}

/// LD_LIBRARY_PATH begins with a folder that has fakes of the driver, NVRTC 12 and cuBLAS 13.
TEST(CudaLibrary, ThatTheLoaderFinds_ComesFirstWhereItFits) {
  const FakeCudaMachine machine;
  auto places = machine.places();
  places.loader = true;
  ::setenv("FAKE_CUDA_VERSION", "12080", 1);
  const std::string folder = FAKE_CUDA_FOLDER "/";
  if (taken(Kind::Driver, places) != folder + "libcuda.so.1")
    GTEST_SKIP() << "SKIPPED ALOUD: the fakes are not in LD_LIBRARY_PATH";
  (void)machine.library("usr/cuda-12.8/lib64/libnvrtc.so.12");
  const std::string cublas = machine.library("usr/cuda-12.8/lib64/libcublas.so.12");
  EXPECT_EQ(taken(Kind::Nvrtc, places), folder + "libnvrtc.so.12");
  EXPECT_EQ(taken(Kind::Cublas, places), cublas) << "that of the loader is of CUDA 13";
  ::setenv("FAKE_CUDA_VERSION", "13000", 1);
  EXPECT_EQ(taken(Kind::Cublas, places), folder + "libcublas.so.13");
}

}  // namespace
}  // namespace lockstep::cuda_library_test
