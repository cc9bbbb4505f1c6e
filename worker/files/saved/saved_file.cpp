#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/collectives/base/whole_file.h>
#include <lockstep/worker/files/saved/saved_file.h>

namespace lockstep::worker {
namespace {

Status about(const std::string& path, Code code, std::string_view what) {
  return {code, fmt::format("{} {}", path, what), {}, {}};
}

Result<Bytes> bytes_of(const std::string& path) {
  const auto unreadable = [&] {
    return about(path, Code::BadInput, fmt::format("cannot be read ({})", std::strerror(errno)));
  };
  // Does not wait if `path` is a pipe.
  const OpenFile in(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat there {};
  if (in.fd() < 0 || ::fstat(in.fd(), &there) != 0) return unreadable();
  if (!S_ISREG(there.st_mode)) return about(path, Code::BadInput, "is no file of a saved program");
  const auto size = static_cast<std::uint64_t>(there.st_size);
  if (size > kMostProgramBytes)
    return about(
        path, Code::BadInput,
        fmt::format("has {} bytes, and a saved program at most {}", size, kMostProgramBytes));
  Bytes bytes(size);
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = ::read(in.fd(), bytes.data() + got, bytes.size() - got);
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
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const auto fault = write_whole_file(path, text, {.mode = 0644});
  if (!fault) return {};
  return about(path, Code::Environment, fmt::format("cannot be written ({})", fault->reason()));
}

Result<SavedProgram> read_program(const std::string& path, const OwnOps& own) {
  const auto bytes = bytes_of(path);
  if (!bytes) return bytes.error();
  auto program = decode_program(*bytes, own);
  if (!program) return about(path, program.error().code, program.error().message);
  return program;
}

}  // namespace lockstep::worker
