// CUDA's libraries, found where they lie on machines and loaded when they are asked for: programs
// are carried to machines of which they know nothing, and on which nothing can be installed.
#pragma once

#include <string>

#include <lockstep/collectives/base/cuda_places.h>
#include <lockstep/collectives/base/shared_library.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep {

/// Loaded for the life of the process. One thread.
class CudaLibrary {
 public:
  enum class Kind { Driver, Nvrtc, Cublas, Nccl };

  /// The driver of CUDA 12 or newer, NVRTC or cuBLAS of CUDA 12 or 13, NCCL 2.18 or newer. What the
  /// loader finds comes first, then the folders of `places`. Of NVRTC and cuBLAS the newest that
  /// the driver here runs, in the first folder that has it; where there is no driver, the newest.
  /// Errors: Environment, one sentence: there is none, or what there is does not fit; what it is
  /// and where, and what to do.
  [[nodiscard]] static Result<CudaLibrary> open(Kind kind,
                                                const CudaPlaces& places = CudaPlaces::here());

  /// Null where it has none of that name.
  template <class Function>
  void find(Function*& function, const char* name) {
    library_.find(function, name);
  }
  /// A sentence where a function was looked for that is not there; empty: all were.
  [[nodiscard]] std::string flaw() const;

  [[nodiscard]] std::string path() const { return library_.path(); }
  /// "NVRTC 13.0 (/usr/local/cuda-13.0/lib64/libnvrtc.so.13)"; of the driver the version of CUDA.
  [[nodiscard]] std::string text() const;

 private:
  CudaLibrary(Kind kind, SharedLibrary library) : kind_(kind), library_(std::move(library)) {}
  friend class CudaSearch;
  Kind kind_;
  SharedLibrary library_;
};

}  // namespace lockstep
