// The emulated driver: memory, modules, streams and graphs.
#include <cstring>

#include "driver.h"

using namespace lockstep::emulated_cuda;

namespace {

void* pointer(CUdeviceptr at) { return reinterpret_cast<void*>(at); }

/// Work that touches so much memory of the device.
CUresult start_within(Stream* stream, CUdeviceptr at, std::size_t bytes,
                      std::function<void()> body) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == 0) return CUDA_SUCCESS;
  return stream->start([&memory = stream->place().memory, at, bytes, body = std::move(body)] {
    if (!memory.within(at, bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    body();
    return CUDA_SUCCESS;
  });
}

void wait_for_all() {
  const std::lock_guard lock(driver().mutex);
  for (const auto& [handle, stream] : driver().streams)
    if (!stream->recording()) (void)stream->wait();
}

template <class Handle>
Handle new_handle() {
  return reinterpret_cast<Handle>(driver().next_handle++);
}

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr* at, std::size_t bytes, CUstream stream) {
  return called("cuMemAllocAsync", [&] {
    Stream* on = find(stream);
    if (on == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (on->recording()) return CUDA_ERROR_NOT_SUPPORTED;  // nodes for memory are not emulated
    if (const CUresult error = on->place().error; error != CUDA_SUCCESS) return error;
    auto taken = on->place().memory.take(bytes);
    if (!taken) {
      wait_for_all();  // for what is being freed
      taken = on->place().memory.take(bytes);
    }
    if (!taken) return CUDA_ERROR_OUT_OF_MEMORY;
    *at = *taken;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
  return giving_back("cuMemFreeAsync", [&] {
    Stream* on = find(stream);
    if (on == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (on->recording()) return CUDA_ERROR_NOT_SUPPORTED;
    if (!on->place().memory.within(at, 0)) return CUDA_ERROR_INVALID_VALUE;
    return on->start_always([&memory = on->place().memory, at] {
      return memory.give_back(at) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    });
  });
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return called("cuMemcpyHtoDAsync", [&] {
    return start_within(find(stream), to, bytes, [=] { std::memcpy(pointer(to), from, bytes); });
  });
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return called("cuMemcpyDtoHAsync", [&] {
    return start_within(find(stream), from, bytes, [=] { std::memcpy(to, pointer(from), bytes); });
  });
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return called("cuMemcpyDtoDAsync", [&] {
    Stream* on = find(stream);
    if (on == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == 0) return CUDA_SUCCESS;
    return on->start([&memory = on->place().memory, to, from, bytes] {
      if (!memory.within(from, bytes) || !memory.within(to, bytes))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
      std::memcpy(pointer(to), pointer(from), bytes);
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream) {
  return called("cuMemsetD8Async", [&] {
    return start_within(find(stream), to, bytes, [=] { std::memset(pointer(to), value, bytes); });
  });
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return called("cuModuleLoadData", [&] {
    if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult error = current()->place.error; error != CUDA_SUCCESS) return error;
    CUresult why = CUDA_SUCCESS;
    auto loaded = Module::load(image, driver().architecture, why);
    if (!loaded) return why;
    const std::lock_guard lock(driver().mutex);
    *module = reinterpret_cast<CUmodule>(loaded.get());
    driver().modules.emplace(*module, std::move(loaded));
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return giving_back("cuModuleUnload", [&] {
    const std::lock_guard lock(driver().mutex);
    std::erase_if(driver().functions, [&](const auto& function) {
      return reinterpret_cast<CUmodule>(function.second.get()) == module;
    });
    return driver().modules.erase(module) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return called("cuModuleGetFunction", [&] {
    const std::lock_guard lock(driver().mutex);
    const auto found = driver().modules.find(module);
    if (found == driver().modules.end()) return CUDA_ERROR_INVALID_HANDLE;
    Kernel* kernel = found->second->kernel(name);
    if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
    *function = reinterpret_cast<CUfunction>(kernel);
    driver().functions[*function] = found->second;
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                        unsigned threads_y, unsigned threads_z, unsigned shared, CUstream stream,
                        void** parameters, void** extra) {
  return called("cuLaunchKernel", [&] {
    Stream* on = find(stream);
    std::shared_ptr<Module> module;
    {
      const std::lock_guard lock(driver().mutex);
      const auto found = driver().functions.find(function);
      if (found != driver().functions.end()) module = found->second;
    }
    if (on == nullptr || module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    constexpr unsigned kThreads = 256;  // that the shim has
    if (x == 0 || y != 1 || z != 1 || threads_x != kThreads || threads_y != 1 || threads_z != 1 ||
        shared != 0 || extra != nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    const Kernel& kernel = *reinterpret_cast<const Kernel*>(function);
    std::vector<void*> values;
    for (int i = 0; i < kernel.parameters; ++i)
      values.push_back(*static_cast<void**>(parameters[i]));
    // Weakly: its kernels must not be left when a module is unloaded.
    return on->start([&memory = on->place().memory, unloadable = std::weak_ptr(module), &kernel,
                      values = std::move(values), x] {
      const auto loaded = unloadable.lock();
      if (told_to_fail("kernel") || !loaded) return CUDA_ERROR_LAUNCH_FAILED;
      for (int i = 0; i < kernel.pointers; ++i)
        if (values[i] != nullptr && !memory.within(reinterpret_cast<std::uint64_t>(values[i]), 0))
          return CUDA_ERROR_ILLEGAL_ADDRESS;
      return loaded->run(kernel, values, x) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
    });
  });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  return called("cuLaunchHostFunc", [&] {
    Stream* on = find(stream);
    if (on == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return on->start([=] {
      function(argument);
      return CUDA_SUCCESS;
    });
  });
}

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return called("cuStreamCreate", [&] {
    if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_unique<Stream>(current()->place);
    const std::lock_guard lock(driver().mutex);
    *stream = reinterpret_cast<CUstream>(made.get());
    driver().streams.emplace(*stream, std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy(CUstream stream) {
  return giving_back("cuStreamDestroy", [&] {
    std::unique_lock lock(driver().mutex);
    const auto gone = driver().streams.extract(stream);
    lock.unlock();  // it does what is left
    return gone.empty() ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return giving_back("cuStreamSynchronize", [&] {
    Stream* on = find(stream);
    if (on == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult result = on->wait();
    on->place().memory.release();
    return result;
  });
}

CUresult cuStreamQuery(CUstream stream) {
  return called("cuStreamQuery", [&] {
    Stream* on = find(stream);
    return on == nullptr ? CUDA_ERROR_INVALID_HANDLE : on->query();
  });
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return called("cuStreamBeginCapture", [&] {
    Stream* on = find(stream);
    if (on == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    // What other modes forbid is not emulated.
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_NOT_SUPPORTED;
    return on->begin_recording();
  });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return called("cuStreamIsCapturing", [&] {
    Stream* on = find(stream);
    if (on == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *status = on->recording() ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const bool fails = told_to_fail("cuStreamEndCapture");
  Stream* on = find(stream);
  *graph = nullptr;
  if (on == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Recording recording;
  const CUresult result = on->end_recording(recording);
  if (fails) return CUDA_ERROR_UNKNOWN;
  if (!recording) return result;
  const std::lock_guard lock(driver().mutex);
  *graph = new_handle<CUgraph>();
  driver().graphs.emplace(*graph, recording);
  return result;
}

CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return called("cuGraphInstantiate", [&] {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard lock(driver().mutex);
    const auto found = driver().graphs.find(graph);
    if (found == driver().graphs.end()) return CUDA_ERROR_INVALID_VALUE;
    *exec = new_handle<CUgraphExec>();
    driver().execs.emplace(*exec, found->second);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return giving_back("cuGraphDestroy", [&] {
    const std::lock_guard lock(driver().mutex);
    return driver().graphs.erase(graph) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return called("cuGraphLaunch", [&] {
    Stream* on = find(stream);
    if (on == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Recording recording;
    {
      const std::lock_guard lock(driver().mutex);
      const auto found = driver().execs.find(exec);
      if (found == driver().execs.end()) return CUDA_ERROR_INVALID_VALUE;
      recording = found->second;
    }
    return on->start(recording);
  });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return giving_back("cuGraphExecDestroy", [&] {
    const std::lock_guard lock(driver().mutex);
    return driver().execs.erase(exec) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
