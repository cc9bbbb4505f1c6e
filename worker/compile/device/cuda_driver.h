// NVIDIA's driver, loaded by this process. Included by cuda_*.cpp only; the one header that
// includes cuda.h.
#pragma once

#include <string>

#include <cuda.h>

#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

// The functions, listed by a macro so that cuda.h's own macros give the names of the current
// versions.
#define LOCKSTEP_DRIVER(FUNCTION)                  \
  FUNCTION(init, cuInit)                           \
  FUNCTION(error_name, cuGetErrorName)             \
  FUNCTION(device_count, cuDeviceGetCount)         \
  FUNCTION(device_get, cuDeviceGet)                \
  FUNCTION(attribute, cuDeviceGetAttribute)        \
  FUNCTION(unit, cuDeviceGetUuid)                  \
  FUNCTION(memory_pool, cuDeviceGetDefaultMemPool) \
  FUNCTION(set_pool, cuMemPoolSetAttribute)        \
  FUNCTION(retain, cuDevicePrimaryCtxRetain)       \
  FUNCTION(release, cuDevicePrimaryCtxRelease)     \
  FUNCTION(get_current, cuCtxGetCurrent)           \
  FUNCTION(set_current, cuCtxSetCurrent)           \
  FUNCTION(create_stream, cuStreamCreate)          \
  FUNCTION(destroy_stream, cuStreamDestroy)        \
  FUNCTION(synchronise, cuStreamSynchronize)       \
  FUNCTION(query, cuStreamQuery)                   \
  FUNCTION(create_event, cuEventCreate)            \
  FUNCTION(destroy_event, cuEventDestroy)          \
  FUNCTION(record_event, cuEventRecord)            \
  FUNCTION(wait_event, cuStreamWaitEvent)          \
  FUNCTION(load, cuModuleLoadData)                 \
  FUNCTION(unload, cuModuleUnload)                 \
  FUNCTION(function, cuModuleGetFunction)          \
  FUNCTION(allocate, cuMemAllocAsync)              \
  FUNCTION(free, cuMemFreeAsync)                   \
  FUNCTION(upload, cuMemcpyHtoDAsync)              \
  FUNCTION(download, cuMemcpyDtoHAsync)            \
  FUNCTION(fill, cuMemsetD8Async)                  \
  FUNCTION(copy, cuMemcpyDtoDAsync)                \
  FUNCTION(launch, cuLaunchKernel)                 \
  FUNCTION(begin_capture, cuStreamBeginCapture)    \
  FUNCTION(end_capture, cuStreamEndCapture)        \
  FUNCTION(instantiate, cuGraphInstantiate)        \
  FUNCTION(destroy_graph, cuGraphDestroy)          \
  FUNCTION(launch_graph, cuGraphLaunch)            \
  FUNCTION(destroy_exec, cuGraphExecDestroy)
#define LOCKSTEP_MEMBER(member, name) decltype(&name) member = nullptr;

/// Loaded for the life of the process. Immutable after find().
struct CudaDriver {
  LOCKSTEP_DRIVER(LOCKSTEP_MEMBER)

  /// Loads the driver. Returns what is wrong; empty on success.
  [[nodiscard]] std::string find();
  /// Returns the error of a failed call. `whose`: "rank 2's CUDA device 0". Errors: Environment,
  /// with the call and the driver's answer.
  [[nodiscard]] Result<void> answer(CUresult result, const char* call,
                                    const std::string& whose) const;
};

#undef LOCKSTEP_MEMBER

}  // namespace lockstep::worker
