// Matrix products on a GPU by cuBLAS, which is loaded by open(). Part of a CUDA device
// (cuda_device.cpp), built only with CUDA.
#pragma once

#include <memory>
#include <string>

#include <lockstep/worker/compile/device/device.h>

namespace lockstep::worker {

/// The stream and workspace of products, and descriptions of the device for errors and identity().
struct CublasPlace {
  void* stream = nullptr;  // a CUstream of the current context
  std::string device;      // "rank 2's CUDA device 0 (sm_90)"
  std::string architecture;
  int multiprocessors = 0;
  DeviceAddress
      workspace{};  // kWorkspaceBytes at a multiple of 256, allocated as long as CublasMatmul lives
};

/// Products on one stream. Full precision (no TF32; f16 and bf16 are summed in f32), no atomics,
/// one workspace of fixed size. cuBLAS' choice of algorithm, and so every bit of a product, depends
/// only on identity(), on the product's sizes, dtype and transpositions and on the alignment of its
/// operands, unless cuBLAS' own environment variables change it. Used by one thread at a time, on
/// which the stream's context is current.
class CublasMatmul {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  /// Errors: Environment (no library, or a failed call), one sentence with call, rank and device.
  [[nodiscard]] static Result<std::unique_ptr<CublasMatmul>> open(CublasPlace place);
  virtual ~CublasMatmul() = default;
  [[nodiscard]] virtual const std::string& identity() const = 0;
  /// Starts the product and does not wait. Requires batch, m, k, n > 0.
  virtual Result<void> multiply(const Product& product) = 0;
};

}  // namespace lockstep::worker
