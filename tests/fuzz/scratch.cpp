#include "scratch.h"

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

namespace lockstep::fuzz {

Scratch::~Scratch() {
  std::error_code ignored;
  if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
}

std::string Scratch::path(const std::string& name) {
  if (root_.empty()) {
    const bool memory = ::access("/dev/shm", W_OK) == 0;
    root_ = (memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) /
            "lockstep-fuzz-XXXXXX";
    if (::mkdtemp(root_.data()) == nullptr) std::abort();
  }
  return root_ + "/" + name;
}

}  // namespace lockstep::fuzz
