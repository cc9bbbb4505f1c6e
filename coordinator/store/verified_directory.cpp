#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/collectives/base/whole_file.h>
#include <lockstep/coordinator/store/archive.h>
#include <lockstep/coordinator/store/verified_directory.h>

namespace lockstep::coordinator {
namespace {

/// The content of a file, with its key, because a file could have been renamed.
struct KeyedFile {
  shapes::Fingerprint key;
  Bytes content;
};

template <class Archive>
void serialize(Archive& archive, KeyedFile& file, std::uint32_t) {
  archive(file.key, file.content);
}

}  // namespace
}  // namespace lockstep::coordinator

CEREAL_CLASS_VERSION(lockstep::coordinator::KeyedFile, 2)  // version 1 had a footer instead

namespace lockstep::coordinator {
namespace {

// Bytes of a file besides the payload: the seal, Cereal's byte order mark and version, the key, and
// the payload's size.
constexpr std::size_t kAround = kSealBytes + 1 + 4 + 16 + 8;
constexpr std::string_view kTemporary = "tmp.";
constexpr std::time_t kForeignLeftoverSeconds = 24 * 3600;

bool read_all(int fd, std::span<std::byte> into, std::size_t& got) {
  got = 0;
  while (got < into.size()) {
    const ssize_t n = ::read(fd, into.data() + got, into.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return true;
}

/// The number of the next temporary file of this process; several stores may share a directory.
unsigned next_number() {
  static std::atomic<unsigned> next{0};
  return next++;
}

/// The writer's process in the name "tmp.PID.NUMBER.HOST"; nullopt: the writer was on another host.
std::optional<pid_t> local_writer(std::string_view name) {
  name.remove_prefix(kTemporary.size());
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || pid <= 0) return std::nullopt;
  const std::string host = fmt::format(".{}", host_name());
  return name.ends_with(host) ? std::optional(pid) : std::nullopt;
}

/// The key whose file has this name.
std::optional<shapes::Fingerprint> key_of(std::string_view name) {
  const auto key = shapes::Fingerprint::read(name);
  return key && key->text() == name ? key : std::nullopt;
}

}  // namespace

Result<std::unique_ptr<VerifiedDirectory>> VerifiedDirectory::open(Options options) {
  auto directory =
      PrivateDirectory::open(options.path, options.content.noun, options.content.danger);
  if (!directory) return directory.error();
  std::unique_ptr<VerifiedDirectory> opened(
      new VerifiedDirectory(std::move(options), std::move(*directory)));
  opened->remove_leftovers();
  return opened;
}

void VerifiedDirectory::remove_leftovers() {
  DIR* listing = ::fdopendir(::openat(directory_.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (listing == nullptr) return;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (!name.starts_with(kTemporary)) continue;
    bool dead = false;
    if (const auto pid = local_writer(name)) {
      dead = ::kill(*pid, 0) != 0 && errno == ESRCH;
    } else {
      struct stat info {};
      dead = ::fstatat(directory_.fd(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
             info.st_mtime + kForeignLeftoverSeconds < std::time(nullptr);
    }
    if (dead) ::unlinkat(directory_.fd(), name.c_str(), 0);
  }
  ::closedir(listing);
}

std::vector<VerifiedDirectory::File> VerifiedDirectory::files() const {
  std::vector<File> found;
  DIR* listing = ::fdopendir(::openat(directory_.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (listing == nullptr) return found;
  while (const dirent* entry = ::readdir(listing)) {
    const auto key = key_of(entry->d_name);
    struct stat info {};
    if (!key || ::fstatat(directory_.fd(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    found.push_back({*key, static_cast<std::uint64_t>(info.st_size),
                     std::int64_t{info.st_mtim.tv_sec} * 1'000'000 + info.st_mtim.tv_nsec / 1000});
  }
  ::closedir(listing);
  return found;
}

std::uint64_t VerifiedDirectory::bytes_on_disk(std::size_t payload) { return payload + kAround; }

bool VerifiedDirectory::remove(const shapes::Fingerprint& key) {
  return ::unlinkat(directory_.fd(), key.text().c_str(), 0) == 0 || errno == ENOENT;
}

void VerifiedDirectory::set_aside(const shapes::Fingerprint& key, const std::string& why) {
  // If several processes notice the same damage, the process whose rename succeeds reports it. If
  // renaming fails (a read-only directory), each process reports the damage once.
  const std::string name = key.text();
  const bool moved =
      ::renameat(directory_.fd(), name.c_str(), directory_.fd(), (name + ".bad").c_str()) == 0;
  if (!moved && (errno == ENOENT || !reported_.insert(name).second)) return;
  if (options_.report)
    options_.report(environment_error(fmt::format(
        "the {} {}/{} is damaged ({}); {} and {}", options_.content.noun, options_.path, name, why,
        moved ? "it was renamed to .bad" : "it is left alone", options_.content.recovery)));
}

Result<std::optional<Bytes>> VerifiedDirectory::load(const shapes::Fingerprint& key) {
  const auto unusable = [&](const std::string& why) {
    set_aside(key, why);
    return std::optional<Bytes>();
  };
  const auto failure = [&](const char* what) {
    return environment_error(fmt::format("cannot {} the {} {}/{}: {}", what, options_.content.noun,
                                         options_.path, key.text(), std::strerror(errno)));
  };
  const OpenFile fd(
      ::openat(directory_.fd(), key.text().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.fd() < 0) {
    if (errno == ENOENT) return std::optional<Bytes>();
    if (errno == ELOOP) return unusable("it is a symbolic link");
    return failure("open");
  }
  struct stat info {};
  if (::fstat(fd.fd(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid())
    return unusable("it is not a file of this user");
  const auto size = static_cast<std::uintmax_t>(info.st_size);
  if (const std::uintmax_t most = bytes_on_disk(options_.content.largest); size > most)
    return unusable(fmt::format("it has {} bytes, at most {} are read", size, most));
  Bytes bytes(size);
  std::size_t got = 0;
  if (!read_all(fd.fd(), bytes, got)) return failure("read");
  auto file = unpack<KeyedFile>(options_.content.noun, std::span(bytes).first(got));
  if (!file) return unusable(file.error().message);
  if (file->key != key) return unusable("it is of another name");
  return std::optional<Bytes>(std::move(file->content));
}

Result<void> VerifiedDirectory::store(const shapes::Fingerprint& key,
                                      std::span<const std::byte> content) {
  if (content.size() > options_.content.largest)
    return environment_error(fmt::format("the {} {} has {} bytes, at most {} are kept",
                                         options_.content.noun, key.text(), content.size(),
                                         options_.content.largest));
  return write_and_rename(key.text(), pack(options_.content.noun,
                                           KeyedFile{key, Bytes(content.begin(), content.end())}));
}

Result<void> VerifiedDirectory::write_and_rename(const std::string& name,
                                                 std::span<const std::byte> bytes) {
  const std::string temporary =
      fmt::format("{}{}.{}.{}", kTemporary, ::getpid(), next_number(), host_name());
  DraftFile file(name, {.mode = 0600, .folder = directory_.fd(), .draft = temporary});
  if (file.write(bytes) && file.flush() && file.name() && file.flush_folder()) return {};
  return environment_error(fmt::format(
      "cannot {} a file in the {} directory {}: {}; free some space, or choose another "
      "directory with LOCKSTEP_CACHE_DIR",
      file.fault()->step, options_.content.noun, options_.path, file.fault()->reason()));
}

}  // namespace lockstep::coordinator
