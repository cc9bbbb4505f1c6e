// A shared object in this process, loaded from a private copy in memory: what was verified is what
// is loaded, whatever happens to a file meanwhile.
#pragma once

#include <lockstep/worker/toolchain/memory_file.h>

namespace lockstep::worker {

class LoadedObject {
 public:
  /// `bytes` are ones that the artifact store verified or a toolchain just made. Errors:
  /// Environment (not loadable here: another architecture, a library that is missing).
  [[nodiscard]] static Result<std::unique_ptr<LoadedObject>> load(std::span<const std::byte> bytes);
  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  /// Null if there is none of that name.
  [[nodiscard]] void* symbol(const std::string& name) const;

 private:
  LoadedObject(std::unique_ptr<MemoryFile> file, void* handle)
      : file_(std::move(file)), handle_(handle) {}
  // Kept open: the loader knows objects by path, so the descriptor's number must not be given to
  // another one.
  std::unique_ptr<MemoryFile> file_;
  void* handle_;
};

}  // namespace lockstep::worker
