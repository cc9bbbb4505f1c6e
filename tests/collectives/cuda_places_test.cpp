// Where CUDA's libraries are looked for, on machines of a few folders.
#include "fake_cuda_machine.h"

namespace lockstep::cuda_places_test {
namespace {

using Paths = std::vector<std::filesystem::path>;

TEST(CudaPlaces, WhereNothingIs_AreNone) {
  const FakeCudaMachine machine;
  EXPECT_EQ(machine.places().folders(), Paths{});
  EXPECT_EQ(CudaPlaces{.local = machine / "none"}.folders(), Paths{});
}

TEST(CudaPlaces, ToolkitsOfSeveralVersions_AreNewestFirst) {
  const FakeCudaMachine machine;
  const auto newest = machine.folder("usr/cuda-13.0/lib64");
  const auto tenth = machine.folder("usr/cuda-12.10/targets/x86_64-linux/lib");
  const auto ninth = machine.folder("usr/cuda-12.9/lib64");
  const auto also = machine.folder("usr/cuda-12.9/targets/x86_64-linux/lib");
  const auto elsewhere = machine.folder("opt/cuda-12.4/lib64");
  const auto bare = machine.folder("usr/cuda-tools/lib64");
  (void)machine.link("usr/cuda", machine / "opt/cuda-12.4");
  (void)machine.link("usr/cuda-12", machine / "usr/cuda-12.9");
  (void)machine.link("usr/cuda-11", machine / "gone");
  (void)machine.folder("usr/nvidia/lib32");
  const auto driver = machine.folder("usr/nvidia/lib64");
  EXPECT_EQ(machine.places().folders(),
            (Paths{newest, tenth, ninth, also, elsewhere, bare, driver}));
  EXPECT_EQ(machine.places().driver_folder(), driver);
}

TEST(CudaPlaces, VirtualEnvironmentOnPath_ComesBeforeWhatItWasMadeFrom) {
  const FakeCudaMachine machine;
  (void)machine.file("python/bin/python3.11", "#!/bin/false\n");
  (void)machine.link("python/bin/python3", "python3.11");
  (void)machine.link("venv/bin/python3", machine / "python/bin/python3");
  (void)machine.file("venv/pyvenv.cfg", "home = python/bin\n");
  const auto wheels = [&](const std::string& python, const std::string& wheel) {
    return machine.folder(python + "-packages/nvidia/" + wheel + "/lib");
  };
  const auto base = wheels("python/lib/python3.11/site", "cuda_nvrtc");
  const auto debian = wheels("python/lib/python3/dist", "nccl");
  const auto own = wheels("venv/lib/python3.11/site", "cuda_nvrtc");
  const auto cublas = wheels("venv/lib/python3.11/site", "cublas");
  (void)machine.folder("venv/lib/python3.11/site-packages/nvidia/no_library/include");
  EXPECT_EQ(machine.places().folders(), (Paths{cublas, own, base, debian}));
}

TEST(CudaPlaces, PythonsElsewhere_ComeInTheirOrder) {
  const FakeCudaMachine machine;
  const auto wheel = [&](const std::string& python) {
    return machine.folder(python + "-packages/nvidia/cu13/lib");
  };
  const auto local = wheel("usr/lib/python3.11/dist");
  const auto home = wheel("home/.local/lib/python3.9/site");
  const auto newer = wheel("home/.local/lib/python3.12/site");
  const auto conda = wheel("conda/lib/python3.10/site");
  const auto active = wheel("active/lib/python3.10/site");
  auto places = machine.places();
  EXPECT_EQ(places.folders(), (Paths{newer, home, local}));
  places.virtual_environment = machine / "active";
  places.conda = machine / "conda";
  EXPECT_EQ(places.folders(), (Paths{active, conda, newer, home, local}));
  // The first python3 of PATH: what is found once is not searched again.
  (void)machine.file("active/bin/python3");
  (void)machine.file("conda/bin/python3");
  places.programs = (machine / "conda/bin").string() + "::" + (machine / "active/bin").string();
  EXPECT_EQ(places.folders(), (Paths{conda, active, newer, home, local}));
}

TEST(CudaPlaces, Here_AreThoseOfTheEnvironment) {
  ::setenv("VIRTUAL_ENV", "/some/environment", 1);
  ::unsetenv("CONDA_PREFIX");
  const CudaPlaces here = CudaPlaces::here();
  EXPECT_TRUE(here.loader);
  EXPECT_EQ(here.local, "/usr/local");
  EXPECT_EQ(here.programs, std::getenv("PATH"));
  EXPECT_EQ(here.virtual_environment, "/some/environment");
  EXPECT_EQ(here.conda, "");
}

}  // namespace
}  // namespace lockstep::cuda_places_test
