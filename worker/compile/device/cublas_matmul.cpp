#include <cublas_v2.h>
#include <fmt/format.h>

#include <lockstep/collectives/base/cuda_library.h>
#include <lockstep/worker/compile/device/cublas_matmul.h>

namespace lockstep::worker {
namespace {

/// The library's functions, by the names of their current versions.
struct Cublas {
  decltype(&cublasCreate) create = nullptr;
  decltype(&cublasDestroy) destroy = nullptr;
  decltype(&cublasGetStatusName) status_name = nullptr;
  decltype(&cublasGetVersion) version = nullptr;
  decltype(&cublasSetStream) set_stream = nullptr;
  decltype(&cublasSetWorkspace) set_workspace = nullptr;
  decltype(&cublasGemmStridedBatchedEx_64) gemm = nullptr;
};

#define LOCKSTEP_QUOTED(name) #name
// Expands `name` first: cublas_v2.h's own macros give the name of the current version.
#define LOCKSTEP_NAME_OF(name) LOCKSTEP_QUOTED(name)

/// Finds the functions. Returns what is wrong; empty on success.
std::string find_cublas(Cublas& cublas) {
  auto opened = CudaLibrary::open(CudaLibrary::Kind::Cublas);
  if (!opened) return opened.error().message;
  CudaLibrary& library = *opened;
  library.find(cublas.create, LOCKSTEP_NAME_OF(cublasCreate));
  library.find(cublas.destroy, LOCKSTEP_NAME_OF(cublasDestroy));
  library.find(cublas.status_name, LOCKSTEP_NAME_OF(cublasGetStatusName));
  library.find(cublas.version, LOCKSTEP_NAME_OF(cublasGetVersion));
  library.find(cublas.set_stream, LOCKSTEP_NAME_OF(cublasSetStream));
  library.find(cublas.set_workspace, LOCKSTEP_NAME_OF(cublasSetWorkspace));
  library.find(cublas.gemm, LOCKSTEP_NAME_OF(cublasGemmStridedBatchedEx_64));
  return library.flaw();
}

/// A matrix as cuBLAS sees it: a row-major matrix, read by columns, is its transpose.
struct Columns {
  const void* data;
  cublasOperation_t op;
  std::int64_t stride;  // between columns, in elements
};
Columns columns(DeviceAddress at, bool transposed, std::int64_t rows, std::int64_t cols) {
  return {reinterpret_cast<const void*>(at), transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
          transposed ? rows : cols};
}

cudaDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return CUDA_R_16F;
    case DType::BF16:
      return CUDA_R_16BF;
    case DType::F64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

class Products final : public CublasMatmul {
 public:
  explicit Products(CublasPlace place) : place_(std::move(place)) {}
  ~Products() override {
    if (handle_ != nullptr) cublas_.destroy(handle_);
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  Result<void> open() {
    if (std::string why = find_cublas(cublas_); !why.empty())
      return environment_error(fmt::format("{} cannot load cuBLAS: {}", place_.device, why));
    if (auto done = checked(cublas_.create(&handle_), "cublasCreate"); !done) return done;
    int version = 0;
    if (auto done = checked(cublas_.version(handle_, &version), "cublasGetVersion"); !done)
      return done;
    identity_ = fmt::format("cuBLAS {}, {}, {} multiprocessors, {} bytes of workspace", version,
                            place_.architecture, place_.multiprocessors, kWorkspaceBytes);
    const auto stream = static_cast<cudaStream_t>(place_.stream);
    if (auto done = checked(cublas_.set_stream(handle_, stream), "cublasSetStream"); !done)
      return done;
    // After set_stream, which resets the workspace.
    return checked(
        cublas_.set_workspace(handle_, reinterpret_cast<void*>(place_.workspace), kWorkspaceBytes),
        "cublasSetWorkspace");
  }

  [[nodiscard]] const std::string& identity() const override { return identity_; }

  /// cuBLAS reads by columns, so every matrix is transposed: out^T = b^T a^T.
  Result<void> multiply(const Product& product) override {
    const auto& [dtype, a_at, b_at, out, transpose_a, transpose_b, batch, m, k, n] = product;
    const bool f32 = dtype != DType::F64;  // true: sums in f32, else in f64
    const auto type = type_of(dtype);
    const Columns a = columns(a_at, transpose_a, m, k), b = columns(b_at, transpose_b, k, n);
    const float one_f32 = 1, zero_f32 = 0;
    const double one_f64 = 1, zero_f64 = 0;
    const void* one = f32 ? static_cast<const void*>(&one_f32) : &one_f64;
    const void* zero = f32 ? static_cast<const void*>(&zero_f32) : &zero_f64;
    return checked(
        cublas_.gemm(handle_, b.op, a.op, n, m, k, one, b.data, type, b.stride, k * n, a.data, type,
                     a.stride, m * k, zero, reinterpret_cast<void*>(out), type, n, m * n, batch,
                     f32 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_64F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
  }

 private:
  Result<void> checked(cublasStatus_t status, const char* call) const {
    if (status == CUBLAS_STATUS_SUCCESS) return {};
    return environment_error(fmt::format("{} failed on {}: {} ({})", call, place_.device,
                                         cublas_.status_name(status), static_cast<int>(status)));
  }

  Cublas cublas_;
  CublasPlace place_;
  std::string identity_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<CublasMatmul>> CublasMatmul::open(CublasPlace place) {
  auto products = std::make_unique<Products>(std::move(place));
  if (auto done = products->open(); !done) return done.error();
  return products;
}

}  // namespace lockstep::worker
