#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/collectives/base/shared_memory.h>

namespace lockstep {
namespace {

Status no_memory(std::string_view what, const std::string& name, int error) {
  return environment_error(
      fmt::format("Cannot {} the shared memory {}: {}. Check the size and the "
                  "permissions of /dev/shm.",
                  what, name, std::strerror(error)));
}

}  // namespace

Result<SharedMemory> SharedMemory::create(std::string_view use, std::size_t bytes,
                                          std::size_t reserved) {
  std::random_device random;
  const std::string name =
      fmt::format("/lockstep-{}-{}-{:08x}{:08x}", use, ::getpid(), random(), random());
  SharedMemory made(name, ::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (made.file_ < 0) return no_memory("make", name, errno);
  int failed = ::ftruncate(made.file_, static_cast<off_t>(bytes)) != 0 ? errno : 0;
  if (failed == 0) failed = ::posix_fallocate(made.file_, 0, static_cast<off_t>(reserved));
  auto mapped = failed == 0 ? made.map(bytes) : Result<void>(no_memory("make", name, failed));
  if (mapped) return made;
  unlink(name);
  return mapped.error();
}

Result<SharedMemory> SharedMemory::open(const std::string& name, std::size_t bytes) {
  SharedMemory found(name, ::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600));
  if (found.file_ < 0) return no_memory("open", name, errno);
  struct stat about {};
  if (::fstat(found.file_, &about) != 0) return no_memory("open", name, errno);
  if (static_cast<std::size_t>(about.st_size) < bytes) return no_memory("open", name, EINVAL);
  if (auto mapped = found.map(bytes); !mapped) return mapped.error();
  return found;
}

Result<void> SharedMemory::map(std::size_t bytes) {
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (pages == MAP_FAILED) return no_memory("map", name_, errno);
  pages_ = pages;
  bytes_ = bytes;
  return {};
}

SharedMemory::~SharedMemory() {
  if (pages_ != nullptr) ::munmap(pages_, bytes_);
  if (file_ >= 0) ::close(file_);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : name_(std::move(other.name_)),
      file_(std::exchange(other.file_, -1)),
      pages_(std::exchange(other.pages_, nullptr)),
      bytes_(other.bytes_) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(file_, other.file_);
  std::swap(pages_, other.pages_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void SharedMemory::unlink(const std::string& name) { ::shm_unlink(name.c_str()); }

// Without this call a page is allocated when it is first touched; if no memory is left then, the
// process gets a bus error.
bool SharedMemory::reserve(std::size_t at, std::size_t bytes) const {
  return ::posix_fallocate(file_, static_cast<off_t>(at), static_cast<off_t>(bytes)) == 0;
}

}  // namespace lockstep
