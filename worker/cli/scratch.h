// A folder of this user's alone, which goes with the object.
#pragma once

#include <string>

namespace lockstep::worker::cli {

class Scratch {
 public:
  /// In the folder for temporary files; `name` is what its name begins with.
  explicit Scratch(const std::string& name);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  /// Empty: none could be made.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace lockstep::worker::cli
