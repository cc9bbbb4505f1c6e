// The folders in which CUDA's libraries lie on machines, besides those that the loader knows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

/// What says where to look. A value, so that a test has a machine of its own.
struct CudaPlaces {
  /// Whether the loader is asked first, by name: LD_LIBRARY_PATH, and what ldconfig has found.
  bool loader = true;
  std::filesystem::path local = "/usr/local";
  std::string programs;  // folders with colons between them, as PATH
  /// Prefixes of Python, as VIRTUAL_ENV and CONDA_PREFIX name them. Empty: none.
  std::filesystem::path virtual_environment{}, conda{};
  std::filesystem::path home{};

  /// This machine, as the environment of this process shows it.
  [[nodiscard]] static CudaPlaces here();

  /// Those that there are, in the order of looking: the toolkits below `local`, the newest first,
  /// what lies beside the driver, then the wheels of Python: of the python3 that a shell would
  /// start (of its virtual environment, then of what that was made from), and of the prefixes
  /// above. No Python is run.
  [[nodiscard]] std::vector<std::filesystem::path> folders() const;
  /// Where the driver lies on machines whose loader does not know of it.
  [[nodiscard]] std::filesystem::path driver_folder() const { return local / "nvidia" / "lib64"; }
};

}  // namespace lockstep
