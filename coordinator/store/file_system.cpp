#include <algorithm>
#include <array>

#include <linux/magic.h>
#include <sys/vfs.h>

#include <lockstep/coordinator/store/file_system.h>

namespace lockstep::coordinator {
namespace {

constexpr std::uint32_t kXfs = 0x58465342, kZfs = 0x2FC12FC1, kBcachefs = 0xCA451A4E;

constexpr std::array<std::uint32_t, 10> kLocal = {
    EXT4_SUPER_MAGIC, kXfs, BTRFS_SUPER_MAGIC, TMPFS_MAGIC,          RAMFS_MAGIC,
    F2FS_SUPER_MAGIC, kZfs, kBcachefs,         REISERFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};

}  // namespace

bool known_local(std::uint32_t kind) {
  return std::find(kLocal.begin(), kLocal.end(), kind) != kLocal.end();
}

bool on_local_file_system(const std::string& path) {
  struct statfs about {};
  return ::statfs(path.c_str(), &about) == 0 &&
         known_local(static_cast<std::uint32_t>(about.f_type));
}

}  // namespace lockstep::coordinator
