// A machine in a temporary folder, with fakes of CUDA's libraries where a test puts them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <lockstep/collectives/base/cuda_places.h>

namespace lockstep {

class FakeCudaMachine {
 public:
  FakeCudaMachine() {
    std::string name = testing::TempDir() + "lockstep-machine-XXXXXX";
    root_ = std::filesystem::canonical(::mkdtemp(name.data()));
    ::unsetenv("FAKE_CUDA_VERSION");
    ::unsetenv("FAKE_CUDA_DEVICES");
  }
  ~FakeCudaMachine() { std::filesystem::remove_all(root_); }
  FakeCudaMachine(const FakeCudaMachine&) = delete;
  FakeCudaMachine& operator=(const FakeCudaMachine&) = delete;

  [[nodiscard]] std::filesystem::path operator/(const std::string& file) const {
    return root_ / file;
  }
  std::filesystem::path folder(const std::string& name) const {
    std::filesystem::create_directories(root_ / name);
    return root_ / name;
  }
  /// With everything above it.
  std::filesystem::path file(const std::string& name, const std::string& text = {}) const {
    folder(std::filesystem::path(name).parent_path());
    std::ofstream(root_ / name) << text;
    return root_ / name;
  }
  std::filesystem::path link(const std::string& name, const std::filesystem::path& to) const {
    folder(std::filesystem::path(name).parent_path());
    std::filesystem::create_symlink(to, root_ / name);
    return root_ / name;
  }
  /// A fake, of that version if it is NCCL.
  std::filesystem::path library(const std::string& name, int version = 0) const {
    folder(std::filesystem::path(name).parent_path());
    std::filesystem::copy_file(FAKE_CUDA_LIBRARY, root_ / name);
    if (version != 0) (void)file(name + ".version", std::to_string(version));
    return root_ / name;
  }
  /// With a driver that has this version of CUDA.
  void drive(int version) const {
    if (!std::filesystem::exists(root_ / "usr/nvidia/lib64/libcuda.so.1"))
      (void)library("usr/nvidia/lib64/libcuda.so.1");
    ::setenv("FAKE_CUDA_VERSION", std::to_string(version).c_str(), 1);
  }

  /// Nothing but what is in the folder: /usr/local is usr, PATH is bin, the home is home.
  [[nodiscard]] CudaPlaces places() const {
    CudaPlaces places;
    places.loader = false;
    places.local = root_ / "usr";
    places.programs = (root_ / "empty").string() + ":" + (root_ / "venv/bin").string();
    places.home = root_ / "home";
    return places;
  }

 private:
  std::filesystem::path root_;
};

}  // namespace lockstep
