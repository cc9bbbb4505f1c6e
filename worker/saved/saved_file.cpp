#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/worker/saved/saved_file.h>

namespace lockstep::worker {
namespace {

Status about(const std::string& path, Code code, std::string_view what) {
  return {code, fmt::format("{} {}", path, what), {}, {}};
}

/// Closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

/// False: errno says why.
bool put_in_place(const std::string& draft, const std::string& path,
                  std::span<const std::byte> bytes) {
  const Descriptor out(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (out.get() < 0) return false;
  if (!write_all(out.get(), bytes) || ::fsync(out.get()) != 0 ||
      ::rename(draft.c_str(), path.c_str()) != 0)
    return false;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor place(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return place.get() >= 0 && ::fsync(place.get()) == 0;
}

Result<Bytes> bytes_of(const std::string& path) {
  const auto unreadable = [&] {
    return about(path, Code::BadInput, fmt::format("cannot be read ({})", std::strerror(errno)));
  };
  // A pipe of that name is not waited for.
  const Descriptor in(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat there {};
  if (in.get() < 0 || ::fstat(in.get(), &there) != 0) return unreadable();
  if (!S_ISREG(there.st_mode)) return about(path, Code::BadInput, "is no file of a saved program");
  const auto size = static_cast<std::uint64_t>(there.st_size);
  if (size > kMostProgramBytes)
    return about(
        path, Code::BadInput,
        fmt::format("has {} bytes, and a saved program at most {}", size, kMostProgramBytes));
  Bytes bytes(size);
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = ::read(in.get(), bytes.data() + got, bytes.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return unreadable();
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace

Result<void> write_program(const std::string& path, const SavedProgram& program) {
  const auto bytes = encode(program);
  if (!bytes)
    return about(path, bytes.error().code, "is not written: the program " + bytes.error().message);
  if (bytes->size() > kMostProgramBytes)
    return about(path, Code::BadInput,
                 fmt::format("is not written: the program has {} bytes, and may have at most {}",
                             bytes->size(), kMostProgramBytes));
  const std::string draft =
      fmt::format("{}.{}.{:08x}.tmp", path, ::getpid(), std::random_device()());
  if (put_in_place(draft, path, *bytes)) return {};
  const int why = errno;
  ::unlink(draft.c_str());
  return about(path, Code::Environment, fmt::format("cannot be written ({})", std::strerror(why)));
}

Result<SavedProgram> read_program(const std::string& path, const OwnOps& own) {
  const auto bytes = bytes_of(path);
  if (!bytes) return bytes.error();
  auto program = decode_program(*bytes, own);
  if (!program) return about(path, program.error().code, program.error().message);
  return program;
}

}  // namespace lockstep::worker
