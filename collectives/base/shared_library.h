// A library that is loaded at first use instead of linked, so that programs start on machines
// without it.
#pragma once

#include <initializer_list>
#include <string>

namespace lockstep {

/// Stays loaded for the life of the process, even without this object, unless dropped. Used by one
/// thread.
class SharedLibrary {
 public:
  /// Loads the first of these names and paths that can be loaded.
  explicit SharedLibrary(std::initializer_list<const char*> names);

  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }
  /// The file that the loader took. Requires loaded().
  [[nodiscard]] std::string path() const;
  /// Unloads the library, unless others use it. Functions that were found in it must not be used
  /// any more.
  void drop();
  /// The loader's message about the first name that failed.
  [[nodiscard]] const std::string& why() const { return why_; }

  /// Sets `function` to the library's function `name`; to null if there is none. Requires loaded().
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(symbol(name));
  }
  /// The first name that find() did not find; empty: it found all.
  [[nodiscard]] const std::string& lacks() const { return lacks_; }

 private:
  void* symbol(const char* name);
  void* handle_ = nullptr;
  std::string why_, lacks_;
};

}  // namespace lockstep
