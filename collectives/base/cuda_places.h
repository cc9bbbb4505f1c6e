// The folders in which machines have CUDA's libraries, besides those that the loader knows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

/// Where to look. A value, so that a test can describe a machine of its own.
struct CudaPlaces {
  /// Whether to ask the loader first, by file name. The loader knows LD_LIBRARY_PATH and what
  /// ldconfig has found.
  bool loader = true;
  std::filesystem::path local = "/usr/local";
  std::string programs;  // folders separated by colons, as in PATH
  /// Prefixes of Python, from VIRTUAL_ENV and CONDA_PREFIX. Empty: none.
  std::filesystem::path virtual_environment{}, conda{};
  std::filesystem::path home{};

  /// This machine, as the environment of this process shows it.
  [[nodiscard]] static CudaPlaces here();

  /// The folders that exist, in search order: the toolkits below `local`, the newest first; the
  /// driver's folder; then those of Python's wheels. Wheels are searched for in the prefix of the
  /// python3 that a shell would start, in the prefix of the Python that its virtual environment was
  /// made from, in `virtual_environment` and `conda`, then below `home` and `local`. Runs no
  /// Python.
  [[nodiscard]] std::vector<std::filesystem::path> folders() const;
  /// The driver's folder on machines whose loader does not know it.
  [[nodiscard]] std::filesystem::path driver_folder() const { return local / "nvidia" / "lib64"; }
};

}  // namespace lockstep
