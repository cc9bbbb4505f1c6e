// One of the emulated libraries in the process of a test, and what tests ask of it.
#pragma once

#include <map>
#include <string>

#include "emulated_cuda.h"
#include <dlfcn.h>

namespace lockstep::emulated_cuda {

/// The library that the process finds by that name, loaded for its life.
class Library {
 public:
  explicit Library(const char* name) : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  /// False: none, or NVIDIA's own.
  [[nodiscard]] bool emulated() const { return find<void>("emulated_cuda_fail") != nullptr; }
  void fail(const std::string& call, int nth) const {
    find<decltype(emulated_cuda_fail)>("emulated_cuda_fail")(call.c_str(), nth);
  }
  /// Since the last fail().
  [[nodiscard]] std::map<std::string, int> calls() const {
    std::map<std::string, int> out;
    find<decltype(emulated_cuda_calls)>("emulated_cuda_calls")(
        [](void* to, const char* call, int count) {
          (*static_cast<std::map<std::string, int>*>(to))[call] = count;
        },
        &out);
    return out;
  }
  /// Of the driver.
  [[nodiscard]] std::size_t live_bytes() const {
    return find<decltype(emulated_cuda_live_bytes)>("emulated_cuda_live_bytes")();
  }
  [[nodiscard]] std::size_t kept_bytes() const {
    return find<decltype(emulated_cuda_kept_bytes)>("emulated_cuda_kept_bytes")();
  }
  [[nodiscard]] std::size_t live_objects() const {
    return find<decltype(emulated_cuda_live_objects)>("emulated_cuda_live_objects")();
  }
  void set_memory(std::size_t bytes) const {
    find<decltype(emulated_cuda_set_memory)>("emulated_cuda_set_memory")(bytes);
  }

 private:
  template <class Function>
  [[nodiscard]] Function* find(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(handle_, name));
  }
  void* handle_;
};

}  // namespace lockstep::emulated_cuda
