#include <dlfcn.h>
#include <fmt/format.h>

#include <lockstep/worker/compile/execution/loaded_object.h>

namespace lockstep::worker {

Result<std::unique_ptr<LoadedObject>> LoadedObject::load(std::span<const std::byte> bytes) {
  auto file = MemoryFile::create(bytes);
  if (!file) return file.error();
  void* handle = ::dlopen((*file)->path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    // The text begins with a path of this process, which is removed so that all ranks report the
    // same text.
    std::string why = ::dlerror();
    if (const std::string name = (*file)->path() + ": "; why.starts_with(name))
      why.erase(0, name.size());
    return environment_error(fmt::format("cannot load compiled kernels: {}", why));
  }
  return std::unique_ptr<LoadedObject>(new LoadedObject(*std::move(file), handle));
}

LoadedObject::~LoadedObject() { ::dlclose(handle_); }

void* LoadedObject::symbol(const std::string& name) const { return ::dlsym(handle_, name.c_str()); }

}  // namespace lockstep::worker
