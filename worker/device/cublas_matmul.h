// Matrix products on a GPU by cuBLAS, which is loaded when they are opened. Part of a CUDA device
// (cuda_device.cpp), built where there is CUDA only.
#pragma once

#include <memory>
#include <string>

#include <lockstep/worker/device/device.h>

namespace lockstep::worker {

/// Where products are computed, and what errors and the identity say of it.
struct CublasPlace {
  void* stream = nullptr;  // a CUstream of the context that is current
  std::string device;      // "rank 2's CUDA device 0 (sm_90)"
  std::string architecture;
  int multiprocessors = 0;
  DeviceAddress
      workspace{};  // of workspace_bytes, at a multiple of 256, as long as there are products
};

/// Products on one stream. Full precision (no TF32; sums of f16 and bf16 in f32), no atomics, one
/// workspace of a fixed size: what cuBLAS chooses, and so every bit of a product, is a function of
/// identity(), of the product's sizes, dtype and transpositions and of the alignment of its
/// operands, unless cuBLAS' own environment variables say otherwise. One thread at a time, in the
/// context of the stream.
class CublasMatmul {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  /// Errors: Environment (no library, or a call that fails), one sentence with call, rank, device.
  [[nodiscard]] static Result<std::unique_ptr<CublasMatmul>> open(CublasPlace place);
  virtual ~CublasMatmul() = default;
  [[nodiscard]] virtual const std::string& identity() const = 0;
  /// Started, not waited for. Requires batch, m, k, n > 0.
  virtual Result<void> multiply(const Product& product) = 0;
};

}  // namespace lockstep::worker
