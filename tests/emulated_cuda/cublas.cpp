// The emulated cuBLAS: products by this processor's BLAS, read by columns as cuBLAS reads, done by
// the stream.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>

#include "calls.h"
#include "emulated_cuda.h"
#include <cblas.h>
#include <cublas_v2.h>
#include <cuda.h>

#include <lockstep/collectives/base/half.h>

namespace lockstep::emulated_cuda {
namespace {

/// Of matrices [m, k] and [k, n], by columns.
struct Gemm {
  cudaDataType type;
  CBLAS_TRANSPOSE op_a, op_b;
  std::int64_t m, n, k, batch;
  const void *a, *b;
  void* out;
  std::int64_t columns_a, columns_b, columns_out, stride_a, stride_b, stride_out;
};

template <class T>
void multiply(const Gemm& g) {
  for (std::int64_t i = 0; i < g.batch; ++i) {
    const T* a = static_cast<const T*>(g.a) + i * g.stride_a;
    const T* b = static_cast<const T*>(g.b) + i * g.stride_b;
    T* out = static_cast<T*>(g.out) + i * g.stride_out;
    const auto whole = [](std::int64_t size) { return static_cast<int>(size); };
    if constexpr (sizeof(T) == sizeof(float))
      cblas_sgemm(CblasColMajor, g.op_a, g.op_b, whole(g.m), whole(g.n), whole(g.k), 1, a,
                  whole(g.columns_a), b, whole(g.columns_b), 0, out, whole(g.columns_out));
    else
      cblas_dgemm(CblasColMajor, g.op_a, g.op_b, whole(g.m), whole(g.n), whole(g.k), 1, a,
                  whole(g.columns_a), b, whole(g.columns_b), 0, out, whole(g.columns_out));
  }
}

bool is_half(cudaDataType type) { return type == CUDA_R_16F || type == CUDA_R_16BF; }

/// f16 and bf16, added up in f32.
void multiply_halves(const Gemm& g) {
  const DType dtype = g.type == CUDA_R_16F ? DType::F16 : DType::BF16;
  const auto wide = [&](const void* from, std::int64_t stride, std::int64_t columns,
                        std::int64_t count, std::int64_t rows) {
    const std::int64_t elements = (g.batch - 1) * stride + (count - 1) * columns + rows;
    std::vector<float> out(static_cast<std::size_t>(elements));
    widen_halves(dtype, static_cast<const std::uint16_t*>(from), out.data(), elements);
    return out;
  };
  const bool ta = g.op_a == CblasTrans, tb = g.op_b == CblasTrans;
  const auto a = wide(g.a, g.stride_a, g.columns_a, ta ? g.m : g.k, ta ? g.k : g.m),
             b = wide(g.b, g.stride_b, g.columns_b, tb ? g.k : g.n, tb ? g.n : g.k);
  auto out = wide(g.out, g.stride_out, g.columns_out, g.n, g.m);
  Gemm of_wide = g;
  of_wide.a = a.data(), of_wide.b = b.data(), of_wide.out = out.data();
  multiply<float>(of_wide);
  narrow_floats(dtype, out.data(), static_cast<std::uint16_t*>(g.out),
                static_cast<std::int64_t>(out.size()));
}

/// Whether all that is read and written is memory of a device.
bool there(const Gemm& g) {
  const std::size_t size = is_half(g.type) ? 2 : g.type == CUDA_R_32F ? 4 : 8;
  const auto reaches = [&](const void* at, std::int64_t stride, std::int64_t columns,
                           std::int64_t count) {
    const std::int64_t elements = (g.batch - 1) * stride + (count - 1) * columns;
    return emulated_cuda_within(at, static_cast<std::size_t>(elements + 1) * size);
  };
  return reaches(g.a, g.stride_a, g.columns_a, g.op_a == CblasTrans ? g.m : g.k) &&
         reaches(g.b, g.stride_b, g.columns_b, g.op_b == CblasTrans ? g.k : g.n) &&
         reaches(g.out, g.stride_out, g.columns_out, g.n);
}

}  // namespace
}  // namespace lockstep::emulated_cuda

using namespace lockstep::emulated_cuda;

struct cublasContext {
  CUstream stream = nullptr;
  bool workspace = false;
  std::deque<Gemm> started;  // a recording does them again and again
};

namespace {

CBLAS_TRANSPOSE transposition(cublasOperation_t op) {
  return op == CUBLAS_OP_T ? CblasTrans : CblasNoTrans;
}

bool is(double expected, const void* value, cudaDataType type) {
  return type != CUDA_R_64F ? *static_cast<const float*>(value) == static_cast<float>(expected)
                            : *static_cast<const double*>(value) == expected;
}

}  // namespace

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "an unknown status";
  }
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (told_to_fail("cublasCreate")) return CUBLAS_STATUS_INTERNAL_ERROR;
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  (void)emulated_cuda_live_bytes();  // waits for the device, as cuBLAS does
  delete handle;
  return told_to_fail("cublasDestroy") ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}

/// No version that there is.
cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  if (told_to_fail("cublasGetVersion")) return CUBLAS_STATUS_INTERNAL_ERROR;
  *version = EMULATED_MAJOR * 10000 + 9999;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetProperty(libraryPropertyType which, int* value) {
  *value = which == MAJOR_VERSION ? EMULATED_MAJOR : 99;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (told_to_fail("cublasSetStream")) return CUBLAS_STATUS_INTERNAL_ERROR;
  handle->stream = reinterpret_cast<CUstream>(stream);
  handle->workspace = false;  // as cuBLAS does
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  if (told_to_fail("cublasSetWorkspace")) return CUBLAS_STATUS_INTERNAL_ERROR;
  if (!emulated_cuda_within(workspace, bytes)) return CUBLAS_STATUS_INVALID_VALUE;
  handle->workspace = true;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, std::int64_t m,
    std::int64_t n, std::int64_t k, const void* alpha, const void* a, cudaDataType type_a,
    std::int64_t columns_a, long long stride_a, const void* b, cudaDataType type_b,
    std::int64_t columns_b, long long stride_b, const void* beta, void* out, cudaDataType type_out,
    std::int64_t columns_out, long long stride_out, std::int64_t batch, cublasComputeType_t compute,
    cublasGemmAlgo_t algorithm) {
  if (told_to_fail("cublasGemmStridedBatchedEx")) return CUBLAS_STATUS_INTERNAL_ERROR;
  const bool f32 = type_out != CUDA_R_64F;
  // No choice but cuBLAS's own, no other precision, and a workspace that does not vary.
  if (!handle->workspace || type_a != type_out || type_b != type_out ||
      compute != (f32 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_64F) ||
      algorithm != CUBLAS_GEMM_DEFAULT || !is(1, alpha, type_out) || !is(0, beta, type_out))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m <= 0 || n <= 0 || k <= 0 || batch <= 0 || columns_a < (op_a == CUBLAS_OP_T ? k : m) ||
      columns_b < (op_b == CUBLAS_OP_T ? n : k) || columns_out < m)
    return CUBLAS_STATUS_INVALID_VALUE;
  handle->started.push_back({type_out, transposition(op_a), transposition(op_b), m, n, k, batch, a,
                             b, out, columns_a, columns_b, columns_out, stride_a, stride_b,
                             stride_out});
  const auto work = [](void* argument) {
    const Gemm& gemm = *static_cast<const Gemm*>(argument);
    if (!there(gemm)) {  // a host function cannot fail
      std::fputs("emulated cuBLAS: a product outside of the device's memory\n", stderr);
      std::abort();
    }
    if (is_half(gemm.type)) return multiply_halves(gemm);
    gemm.type == CUDA_R_32F ? multiply<float>(gemm) : multiply<double>(gemm);
  };
  for (const void* operand : {a, b}) emulated_cuda_touch(handle->stream, operand, 0, false);
  emulated_cuda_touch(handle->stream, out, 0, true);
  return cuLaunchHostFunc(handle->stream, work, &handle->started.back()) == CUDA_SUCCESS
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
