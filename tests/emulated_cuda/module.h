// An object of the emulated NVRTC, and its kernels.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cuda.h>

#include <lockstep/worker/compile/execution/loaded_object.h>

namespace lockstep::emulated_cuda {

/// In front of the object's bytes, so that it says what it is and for what it was made.
struct ObjectHeader {
  static constexpr char kMagic[17] = "EMULATED CUBIN\n\n";
  char magic[16];
  char architecture[16];
  std::uint64_t bytes;  // of the object that follows
};

class Module;

/// A function of a module. Its parameters are pointers, then 64-bit numbers.
struct Kernel {
  Module* module = nullptr;
  int (*run)(void* const* parameters, std::int64_t blocks) = nullptr;
  int pointers = 0, parameters = 0;
  const char* accesses = "";  // of each pointer: 'r' or 'w'
};

/// Lives on while work holds it, as loaded until it is unloaded.
class Module {
 public:
  /// Null and why not: another architecture's, or no object of the emulated NVRTC.
  static std::shared_ptr<Module> load(const void* image, const std::string& architecture,
                                      CUresult& why);
  /// Null: there is none of that name.
  [[nodiscard]] Kernel* kernel(const std::string& name);
  /// One kernel at a time: what the threads of a block share is the object's. False if threads of
  /// a block come to different barriers.
  [[nodiscard]] bool run(const Kernel& kernel, const std::vector<void*>& parameters,
                         std::int64_t blocks);

 private:
  std::unique_ptr<worker::LoadedObject> object_;
  std::mutex mutex_;  // guards what runs and the kernels
  std::map<std::string, Kernel> kernels_;
};

}  // namespace lockstep::emulated_cuda
