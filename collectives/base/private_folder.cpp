#include <cerrno>

#include <sys/stat.h>

#include <lockstep/collectives/base/private_folder.h>

namespace lockstep {

void make_private_folder(const std::filesystem::path& folder) {
  if (folder.empty() || ::mkdir(folder.c_str(), 0700) == 0 || errno != ENOENT) return;
  make_private_folder(folder.parent_path());
  (void)::mkdir(folder.c_str(), 0700);
}

}  // namespace lockstep
