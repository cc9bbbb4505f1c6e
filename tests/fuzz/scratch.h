// A directory for what one simulated job keeps on disk, in memory where the host has such a place.
#pragma once

#include <string>

namespace lockstep::fuzz {

/// Made at the first path(), gone with the object. Its name is never part of what ranks compare.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  /// A folder of that name in it.
  [[nodiscard]] std::string path(const std::string& name);

 private:
  std::string root_;
};

}  // namespace lockstep::fuzz
