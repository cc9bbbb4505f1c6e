#include "module.h"

#include <algorithm>
#include <cstring>

namespace lockstep::emulated_cuda {

std::shared_ptr<Module> Module::load(const void* image, const std::string& architecture,
                                     CUresult& why) {
  ObjectHeader header{};
  why = CUDA_ERROR_INVALID_IMAGE;
  if (std::memcmp(image, ObjectHeader::kMagic, sizeof header.magic) != 0) return nullptr;
  std::memcpy(&header, image, sizeof header);
  if (architecture != header.architecture) {
    why = CUDA_ERROR_NO_BINARY_FOR_GPU;
    return nullptr;
  }
  const auto* start = static_cast<const std::byte*>(image) + sizeof header;
  auto loaded = worker::LoadedObject::load({start, header.bytes});
  if (!loaded) return nullptr;
  why = CUDA_SUCCESS;
  auto module = std::make_shared<Module>();
  module->object_ = *std::move(loaded);
  return module;
}

Kernel* Module::kernel(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const auto found = kernels_.find(name); found != kernels_.end()) return &found->second;
  void* run = object_->symbol("run_" + name);
  const auto* counts = static_cast<const int*>(object_->symbol("parameters_" + name));
  void* accesses = object_->symbol("accesses_" + name);
  if (run == nullptr || counts == nullptr || accesses == nullptr) return nullptr;
  return &kernels_
              .emplace(name, Kernel{this, reinterpret_cast<decltype(Kernel::run)>(run), counts[0],
                                    counts[1], reinterpret_cast<const char* (*)()>(accesses)()})
              .first->second;
}

bool Module::run(const Kernel& kernel, const std::vector<void*>& parameters, std::int64_t blocks) {
  // Few blocks, so that loops have to stride: how many there are must not matter.
  constexpr std::int64_t kFew = 3;
  const std::lock_guard lock(mutex_);
  return kernel.run(parameters.data(), std::min(blocks, kFew)) == 0;
}

}  // namespace lockstep::emulated_cuda
