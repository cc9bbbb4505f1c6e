// A library that is loaded when it is asked for and not linked, so that programs start where it is
// not installed.
#pragma once

#include <initializer_list>
#include <string>

namespace lockstep {

/// Stays loaded for the life of the process, whatever becomes of this, unless dropped. One thread.
class SharedLibrary {
 public:
  /// The first of these names and paths that can be loaded.
  explicit SharedLibrary(std::initializer_list<const char*> names);

  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }
  /// The file that the loader took. Requires loaded().
  [[nodiscard]] std::string path() const;
  /// It may be unloaded, unless others use it: nothing that was found in it is used any more.
  void drop();
  /// What the loader says of the first name, where none was loaded.
  [[nodiscard]] const std::string& why() const { return why_; }

  /// Null where it has none of that name. Requires loaded().
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(symbol(name));
  }
  /// The first name that was looked for and is not there; empty: none.
  [[nodiscard]] const std::string& lacks() const { return lacks_; }

 private:
  void* symbol(const char* name);
  void* handle_ = nullptr;
  std::string why_, lacks_;
};

}  // namespace lockstep
