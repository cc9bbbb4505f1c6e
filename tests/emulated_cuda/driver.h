// What the functions of the emulated driver share: devices, and all that was made on them.
#pragma once

#include <set>

#include "calls.h"
#include "module.h"
#include "stream.h"

namespace lockstep::emulated_cuda {

struct Device {
  explicit Device(int ordinal, std::size_t memory) : place{ordinal, Memory(memory)} {}
  Place place;
  int holders = 0;  // of its primary context
};

/// Of the process, for its life. Handles are looked up here, so that one that was given back shows.
struct Driver {
  Driver();
  std::string architecture;
  std::vector<std::unique_ptr<Device>> devices;
  std::mutex mutex;  // guards all below and the holders
  bool ready = false;
  std::map<CUstream, std::unique_ptr<Stream>> streams;
  std::map<CUmodule, std::shared_ptr<Module>> modules;
  std::map<CUfunction, std::shared_ptr<Module>> functions;
  std::map<CUevent, std::shared_ptr<Mark>> events;  // null: not recorded
  std::map<CUgraph, Recording> graphs;
  std::map<CUgraphExec, Recording> execs;
  std::uint64_t next_handle = 0x1000;
};
[[nodiscard]] Driver& driver();

/// Of the thread; null: none.
[[nodiscard]] Device* current();
/// Null unless it is a stream of the current device: no work goes where the caller does not look.
[[nodiscard]] Stream* find(CUstream stream);

template <class Body>
CUresult called(const char* call, Body&& body) {
  if (told_to_fail(call)) return CUDA_ERROR_UNKNOWN;
  if (!driver().ready) return CUDA_ERROR_NOT_INITIALIZED;
  return body();
}
/// A call that gives something back or waits has done so when it fails.
template <class Body>
CUresult giving_back(const char* call, Body&& body) {
  const bool fails = told_to_fail(call);
  const CUresult result = body();
  return fails ? CUDA_ERROR_UNKNOWN : result;
}

}  // namespace lockstep::emulated_cuda
