// A shared object in this process, loaded from a private copy in memory: the verified bytes are
// what is loaded, even if a file changes meanwhile.
#pragma once

#include <lockstep/worker/compile/toolchain/memory_file.h>

namespace lockstep::worker {

class LoadedObject {
 public:
  /// `bytes` are verified by the artifact store or fresh from a toolchain. Errors: Environment (not
  /// loadable here: another architecture, a missing library).
  [[nodiscard]] static Result<std::unique_ptr<LoadedObject>> load(std::span<const std::byte> bytes);
  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  /// Returns the address of a symbol; null if the object has no such symbol.
  [[nodiscard]] void* symbol(const std::string& name) const;

 private:
  LoadedObject(std::unique_ptr<MemoryFile> file, void* handle)
      : file_(std::move(file)), handle_(handle) {}
  // Kept open: the loader identifies objects by path, so the descriptor's number must not be
  // reused.
  std::unique_ptr<MemoryFile> file_;
  void* handle_;
};

}  // namespace lockstep::worker
