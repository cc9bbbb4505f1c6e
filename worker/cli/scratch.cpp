#include <cstdlib>
#include <filesystem>

#include <lockstep/worker/cli/scratch.h>

namespace lockstep::worker::cli {

Scratch::Scratch(const std::string& name) {
  std::error_code failed;
  std::string path = std::filesystem::temp_directory_path(failed) / (name + "-XXXXXX");
  if (!failed && ::mkdtemp(path.data()) != nullptr) path_ = path;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace lockstep::worker::cli
