#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/worker/compile/toolchain/memory_file.h>

namespace lockstep::worker {

Result<std::unique_ptr<MemoryFile>> MemoryFile::create(std::span<const std::byte> content) {
  const auto failure = [](const char* what) {
    return environment_error(
        fmt::format("cannot {} a file in memory: {}", what, std::strerror(errno)));
  };
  const int fd = ::memfd_create("lockstep", MFD_CLOEXEC);
  if (fd < 0) return failure("make");
  std::unique_ptr<MemoryFile> file(new MemoryFile(fd));
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failure("fill");
    content = content.subspan(static_cast<std::size_t>(n));
  }
  if (::lseek(fd, 0, SEEK_SET) != 0) return failure("rewind");
  return file;
}

MemoryFile::~MemoryFile() { ::close(fd_); }

std::string MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", fd_); }

Bytes MemoryFile::content(std::size_t limit) const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return {};
  Bytes bytes(std::min(limit, static_cast<std::size_t>(info.st_size)));
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = ::pread(fd_, bytes.data() + got, bytes.size() - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace lockstep::worker
