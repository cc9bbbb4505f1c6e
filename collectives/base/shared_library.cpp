#include <utility>

#include <dlfcn.h>
#include <link.h>

#include <lockstep/collectives/base/shared_library.h>

namespace lockstep {

SharedLibrary::SharedLibrary(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
    const char* said = ::dlerror();
    if (why_.empty() && said != nullptr) why_ = said;
  }
}

std::string SharedLibrary::path() const {
  link_map* entry = nullptr;
  return ::dlinfo(handle_, RTLD_DI_LINKMAP, &entry) == 0 ? entry->l_name : "";
}

void SharedLibrary::drop() {
  if (void* handle = std::exchange(handle_, nullptr); handle != nullptr) ::dlclose(handle);
}

void* SharedLibrary::symbol(const char* name) {
  void* found = ::dlsym(handle_, name);
  if (found == nullptr && lacks_.empty()) lacks_ = name;
  return found;
}

}  // namespace lockstep
