// Finds CUDA's libraries where machines have them, and loads them at first use: programs are moved
// to machines that they know nothing about, and on which nothing can be installed.
#pragma once

#include <string>

#include <lockstep/collectives/base/cuda_places.h>
#include <lockstep/collectives/base/shared_library.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep {

/// Loaded for the life of the process. Used by one thread.
class CudaLibrary {
 public:
  enum class Kind { Driver, Nvrtc, Cublas, Nccl };

  /// Loads the driver of CUDA 12 or newer, NVRTC or cuBLAS of CUDA 12 or 13, or NCCL 2.18 or newer.
  /// Asks the loader first, then looks in the folders of `places`. Takes the newest NVRTC or cuBLAS
  /// that this machine's driver supports (without a driver: the newest), from the first folder that
  /// has it. Errors: Environment, if no library was found or none fits. The message is one
  /// sentence: which library, where, and what to do.
  [[nodiscard]] static Result<CudaLibrary> open(Kind kind,
                                                const CudaPlaces& places = CudaPlaces::here());

  /// Sets `function` to the library's function `name`; to null if there is none.
  template <class Function>
  void find(Function*& function, const char* name) {
    library_.find(function, name);
  }
  /// A sentence about the first function that find() did not find; empty: it found all.
  [[nodiscard]] std::string flaw() const;

  [[nodiscard]] std::string path() const { return library_.path(); }
  /// "NVRTC 13.0 (/usr/local/cuda-13.0/lib64/libnvrtc.so.13)"; for the driver, the version is that
  /// of CUDA.
  [[nodiscard]] std::string text() const;

 private:
  CudaLibrary(Kind kind, SharedLibrary library) : kind_(kind), library_(std::move(library)) {}
  friend class CudaSearch;
  Kind kind_;
  SharedLibrary library_;
};

}  // namespace lockstep
