// A private folder of this user, which is removed, with its contents, by the object's destructor.
#pragma once

#include <string>

namespace lockstep::worker::cli {

class Scratch {
 public:
  /// Makes the folder inside the folder for temporary files. The folder's name begins with `name`.
  explicit Scratch(const std::string& name);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  /// Empty: the folder could not be made.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace lockstep::worker::cli
