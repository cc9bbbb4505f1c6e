#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/coordinator/store/private_directory.h>

namespace lockstep::coordinator {

Result<PrivateDirectory> PrivateDirectory::open(const std::string& path, std::string_view noun,
                                                std::string_view danger) {
  const auto refuse = [&](std::string_view what, const std::string& why) {
    return environment_error(
        fmt::format("cannot {} the {} directory {}: {}", what, noun, path, why));
  };
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return refuse("make",
                  std::strerror(errno) + std::string("; choose another with LOCKSTEP_CACHE_DIR"));
  PrivateDirectory directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                             {});
  if (directory.fd() < 0)
    return refuse("open", std::strerror(errno) +
                              std::string("; it must be a directory and not a symbolic link"));
  struct stat info {};
  if (::fstat(directory.fd(), &info) != 0) return refuse("examine", std::strerror(errno));
  if (info.st_uid != ::geteuid())
    return refuse("use", fmt::format("it belongs to user {}, not to this one ({}); {}, so choose "
                                     "one of your own with LOCKSTEP_CACHE_DIR",
                                     info.st_uid, ::geteuid(), danger));
  if ((info.st_mode & 077) != 0)
    return refuse("use",
                  fmt::format("it is open to other users (mode {:o}); {}, so run chmod 700 {}",
                              info.st_mode & 0777u, danger, path));
  directory.identity_ = fmt::format("{}:{} on {}", info.st_dev, info.st_ino, host_name());
  return directory;
}

PrivateDirectory::~PrivateDirectory() {
  if (fd_ >= 0) ::close(fd_);
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

}  // namespace lockstep::coordinator
