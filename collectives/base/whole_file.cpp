#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/collectives/base/whole_file.h>

namespace lockstep {
namespace {

/// Repeats a call as long as signals interrupt it; returns its result.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

OpenFile::~OpenFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool write_all(int fd, std::string_view text) {
  constexpr std::size_t kMostAtOnce = std::size_t{8} << 20;
  while (!text.empty()) {
    const ssize_t n =
        uninterrupted([&] { return ::write(fd, text.data(), std::min(text.size(), kMostAtOnce)); });
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string FileFault::reason() const { return std::strerror(number); }

DraftFile::DraftFile(std::string path, DraftOptions options)
    : path_(std::move(path)), options_(std::move(options)) {
  if (options_.draft.empty())
    options_.draft = fmt::format("{}.tmp-{}-{:08x}", path_, ::getpid(), std::random_device()());
  else
    ::unlinkat(options_.folder, options_.draft.c_str(), 0);
  file_ = OpenFile(uninterrupted([this] {
    return ::openat(options_.folder, options_.draft.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, options_.mode);
  }));
  const auto is_private = [this] {
    constexpr unsigned kPrivate = 0600, kAll = 07777;
    struct stat made {};
    return options_.mode != kPrivate ||
           (::fstat(file_.fd(), &made) == 0 && (made.st_mode & kAll) == kPrivate) ||
           ::fchmod(file_.fd(), kPrivate) == 0;
  };
  done(file_.is_open() && is_private(), "create");
}

DraftFile::DraftFile(DraftFile&& other) noexcept
    : path_(std::move(other.path_)),
      options_(std::move(other.options_)),
      file_(std::move(other.file_)),
      named_(std::exchange(other.named_, true)),
      fault_(other.fault_) {}

DraftFile::~DraftFile() {
  if (!named_ && file_.is_open()) ::unlinkat(options_.folder, options_.draft.c_str(), 0);
}

bool DraftFile::done(bool well, const char* step) {
  if (!well) fault_ = FileFault{step, errno};
  return well;
}

bool DraftFile::write(std::span<const std::byte> bytes) {
  return write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

bool DraftFile::write(std::string_view text) {
  return !fault_ && done(write_all(file_.fd(), text), "write");
}

bool DraftFile::flush() {
  return !fault_ && done(uninterrupted([this] { return ::fsync(file_.fd()); }) == 0, "flush");
}

bool DraftFile::name() {
  if (fault_) return false;
  const char *from = options_.draft.c_str(), *to = path_.c_str();
  if (options_.keeps_first) {
    const bool there = ::linkat(options_.folder, from, options_.folder, to, 0) == 0;
    return done(there || errno == EEXIST, "name");
  }
  named_ = ::renameat(options_.folder, from, options_.folder, to) == 0;
  return done(named_, "name");
}

bool DraftFile::flush_folder() {
  if (fault_) return false;
  const OpenFile folder(uninterrupted([this] {
    return ::openat(options_.folder, folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }));
  // True if this process may not read the folder, or if the file system cannot flush folders.
  // Neither is a fault.
  const auto cannot_be = [](bool done) { return !done && (errno == EACCES || errno == EINVAL); };
  if (cannot_be(folder.is_open())) return true;
  const bool flushed = folder.is_open() && uninterrupted([&] { return ::fsync(folder.fd()); }) == 0;
  return cannot_be(flushed) || done(flushed, "flush the folder of");
}

std::optional<FileFault> write_whole_file(const std::string& path, std::string_view bytes,
                                          DraftOptions options) {
  const bool on_disk = options.on_disk;
  DraftFile draft(path, std::move(options));
  (void)(draft.write(bytes) && (!on_disk || draft.flush()) && draft.name() &&
         (!on_disk || draft.flush_folder()));
  return draft.fault();
}

}  // namespace lockstep
