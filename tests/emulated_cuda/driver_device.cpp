// The emulated driver: devices, their contexts, and what tests ask of it.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver.h"
#include "emulated_cuda.h"

namespace lockstep::emulated_cuda {
namespace {

thread_local Device* current_device = nullptr;

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

CUcontext handle(Device& device) { return reinterpret_cast<CUcontext>(&device); }

Device* device_of(CUdevice device) {
  const auto& all = driver().devices;
  const auto at = static_cast<std::size_t>(device);
  return at < all.size() ? all[at].get() : nullptr;
}

}  // namespace

Driver::Driver() : architecture(setting("EMULATED_CUDA_ARCH", "sm_90")) {
  const auto memory =
      std::strtoull(setting("EMULATED_CUDA_MEMORY", "4294967296").c_str(), nullptr, 10);
  const int count = std::atoi(setting("EMULATED_CUDA_DEVICES", "1").c_str());
  for (int i = 0; i < count; ++i) devices.push_back(std::make_unique<Device>(i, memory));
}

Driver& driver() {
  static Driver& only = *new Driver;
  return only;
}

Device* current() { return current_device; }

Stream* find(CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  const auto found = driver().streams.find(stream);
  if (found == driver().streams.end() || current() == nullptr) return nullptr;
  return &found->second->place() == &current()->place ? found->second.get() : nullptr;
}

}  // namespace lockstep::emulated_cuda

using namespace lockstep::emulated_cuda;

CUresult cuInit(unsigned int flags) {
  if (told_to_fail("cuInit")) return CUDA_ERROR_UNKNOWN;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (driver().devices.empty()) return CUDA_ERROR_NO_DEVICE;
  const std::lock_guard lock(driver().mutex);
  if (!std::exchange(driver().ready, true))
    std::fprintf(stderr, "emulated CUDA: this processor in place of %zu GPUs (%s)\n",
                 driver().devices.size(), driver().architecture.c_str());
  return CUDA_SUCCESS;
}

/// Before cuInit, too.
CUresult cuDriverGetVersion(int* version) {
  if (told_to_fail("cuDriverGetVersion")) return CUDA_ERROR_UNKNOWN;
  *version =
      std::atoi(setting("EMULATED_CUDA_VERSION", std::to_string(CUDA_VERSION).c_str()).c_str());
  return CUDA_SUCCESS;
}

/// NVRTC of CUDA 12 asks for tables, and does without.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
#define LOCKSTEP_NAMED(code) \
  case code:                 \
    *name = #code;           \
    return CUDA_SUCCESS;
  switch (error) {
    LOCKSTEP_NAMED(CUDA_SUCCESS)
    LOCKSTEP_NAMED(CUDA_ERROR_INVALID_VALUE)
    LOCKSTEP_NAMED(CUDA_ERROR_OUT_OF_MEMORY)
    LOCKSTEP_NAMED(CUDA_ERROR_NOT_INITIALIZED)
    LOCKSTEP_NAMED(CUDA_ERROR_NO_DEVICE)
    LOCKSTEP_NAMED(CUDA_ERROR_INVALID_DEVICE)
    LOCKSTEP_NAMED(CUDA_ERROR_INVALID_IMAGE)
    LOCKSTEP_NAMED(CUDA_ERROR_INVALID_CONTEXT)
    LOCKSTEP_NAMED(CUDA_ERROR_NO_BINARY_FOR_GPU)
    LOCKSTEP_NAMED(CUDA_ERROR_INVALID_HANDLE)
    LOCKSTEP_NAMED(CUDA_ERROR_ILLEGAL_STATE)
    LOCKSTEP_NAMED(CUDA_ERROR_NOT_FOUND)
    LOCKSTEP_NAMED(CUDA_ERROR_NOT_READY)
    LOCKSTEP_NAMED(CUDA_ERROR_ILLEGAL_ADDRESS)
    LOCKSTEP_NAMED(CUDA_ERROR_LAUNCH_FAILED)
    LOCKSTEP_NAMED(CUDA_ERROR_NOT_SUPPORTED)
    LOCKSTEP_NAMED(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    LOCKSTEP_NAMED(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
    LOCKSTEP_NAMED(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
    LOCKSTEP_NAMED(CUDA_ERROR_UNKNOWN)
    default:
      *name = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
#undef LOCKSTEP_NAMED
}

CUresult cuDeviceGetCount(int* count) {
  return called("cuDeviceGetCount", [&] {
    *count = static_cast<int>(driver().devices.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return called("cuDeviceGet", [&] {
    *device = ordinal;
    return device_of(ordinal) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return called("cuDeviceGetUuid", [&] {
    if (device_of(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    std::memcpy(uuid->bytes, "emulated, unit 0", 16);
    uuid->bytes[15] = static_cast<char>('0' + device);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return called("cuCtxGetDevice", [&] {
    if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *device = current()->place.ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return called("cuDeviceGetAttribute", [&] {
    if (device_of(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const int number = std::atoi(driver().architecture.c_str() + std::strlen("sm_"));
    switch (attribute) {
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = number / 10;
        break;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = number % 10;
        break;
      case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 1;
        break;
      case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        *value = 1;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return called("cuDeviceGetDefaultMemPool", [&] {
    *pool = reinterpret_cast<CUmemoryPool>(device_of(device));
    return *pool == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return called("cuMemPoolSetAttribute", [&] {
    if (attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) return CUDA_ERROR_INVALID_VALUE;
    reinterpret_cast<Device*>(pool)->place.memory.keep(*static_cast<cuuint64_t*>(value));
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return called("cuDevicePrimaryCtxRetain", [&] {
    Device* found = device_of(device);
    if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const std::lock_guard lock(driver().mutex);
    ++found->holders;
    *context = handle(*found);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return giving_back("cuDevicePrimaryCtxRelease", [&] {
    Device* found = device_of(device);
    const std::lock_guard lock(driver().mutex);
    if (found == nullptr || found->holders == 0) return CUDA_ERROR_INVALID_CONTEXT;
    // The next context starts anew.
    if (--found->holders == 0) found->place.error = CUDA_SUCCESS;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return called("cuCtxGetCurrent", [&] {
    *context = reinterpret_cast<CUcontext>(current());
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return called("cuCtxSetCurrent", [&] {
    const std::lock_guard lock(driver().mutex);
    for (const auto& device : driver().devices)
      if (handle(*device) == context && device->holders > 0) {
        current_device = device.get();
        return CUDA_SUCCESS;
      }
    current_device = nullptr;
    return context == nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  });
}

void emulated_cuda_set_memory(std::size_t bytes) {
  for (const auto& device : driver().devices) device->place.memory.set_capacity(bytes);
}

std::size_t emulated_cuda_live_bytes() {
  std::size_t sum = 0;
  {
    const std::lock_guard lock(driver().mutex);
    for (const auto& [handle, stream] : driver().streams) (void)stream->wait();
  }
  for (const auto& device : driver().devices) sum += device->place.memory.live();
  return sum;
}

std::size_t emulated_cuda_kept_bytes() {
  std::size_t sum = 0;
  for (const auto& device : driver().devices) sum += device->place.memory.kept();
  return sum;
}

std::size_t emulated_cuda_live_objects() {
  Driver& all = driver();
  const std::lock_guard lock(all.mutex);
  std::size_t sum = all.streams.size() + all.events.size() + all.modules.size() +
                    all.graphs.size() + all.execs.size();
  for (const auto& device : all.devices) sum += static_cast<std::size_t>(device->holders);
  return sum;
}

void emulated_cuda_touch(void* stream, const void* at, std::size_t bytes, bool writes) {
  Stream* on = find(static_cast<CUstream>(stream));
  const auto address = reinterpret_cast<std::uint64_t>(at);
  if (on == nullptr || at == nullptr) return;
  if (bytes == 0) bytes = on->place().memory.left_at(address);
  (void)on->start({{address, bytes, writes}}, [] { return CUDA_SUCCESS; });
}

bool emulated_cuda_within(const void* at, std::size_t bytes) {
  for (const auto& device : driver().devices)
    if (device->place.memory.within(reinterpret_cast<std::uint64_t>(at), bytes)) return true;
  return false;
}
