#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/simulator/draw/regular_file.h>

namespace lockstep::worker::simulator {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 18;
constexpr std::size_t kMostOfAPipe = std::size_t{1} << 30;
constexpr std::size_t kMostOfALine = std::size_t{1} << 28;

Status refuse(std::string_view where, std::string_view what) {
  return bad_input(fmt::format("{}: {}.", where, what));
}

/// Reads until the last writer closes the pipe.
Result<std::string> read_pipe(const std::string& path, std::size_t most, Duration patience) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return refuse(path, fmt::format("cannot be opened ({})", std::strerror(errno)));
  const auto limit =
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(patience).count());
  std::string out, wrong;
  for (pollfd ready{fd, POLLIN, 0}; wrong.empty();) {
    const int found = ::poll(&ready, 1, limit);
    if (found < 0 && errno == EINTR) continue;
    if (found == 0)
      wrong = fmt::format("nothing has come out of this pipe for {:g} s",
                          std::chrono::duration<double>(patience).count());
    if (!wrong.empty()) break;
    const std::size_t before = out.size();
    out.resize(before + kBlock);
    const ssize_t n = ::read(fd, out.data() + before, kBlock);
    const int why = errno;
    out.resize(before + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) break;
    if (n < 0 && why != EAGAIN && why != EINTR)
      wrong = fmt::format("cannot be read ({})", std::strerror(why));
    if (out.size() > most) wrong = fmt::format("is larger than {} bytes", most);
  }
  ::close(fd);
  if (!wrong.empty()) return refuse(path, wrong);
  return out;
}

}  // namespace

// O_NONBLOCK: otherwise a pipe without a writer would block open(2).
Result<RegularFile> RegularFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return refuse(path, fmt::format("cannot be opened ({})", std::strerror(errno)));
  struct stat about {};
  const bool known = ::fstat(fd, &about) == 0;
  RegularFile out(path, fd, static_cast<std::uint64_t>(std::max<off_t>(0, about.st_size)));
  if (known && S_ISDIR(about.st_mode))
    return refuse(path, "is a directory, where a file is expected");
  if (!known || !S_ISREG(about.st_mode))
    return refuse(path, "is a pipe, a device or a socket, where a regular file is expected");
  return out;
}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

RegularFile::~RegularFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::size_t> RegularFile::read(std::uint64_t offset, std::span<char> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n == 0) break;
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (errno != EINTR)
      return refuse(path_, fmt::format("cannot be read ({})", std::strerror(errno)));
  }
  return done;
}

Result<std::optional<LineReader::Line>> LineReader::next() {
  std::size_t seen = line_;  // end of the part of the line that was searched for its newline
  for (;;) {
    const std::size_t end = held_.find('\n', seen);
    if (end != held_.npos) {
      const std::size_t start = std::exchange(line_, end + 1);
      ++number_;
      return std::optional(
          Line{std::string_view(held_).substr(start, end - start), offset_ + start, true});
    }
    held_.erase(0, line_);
    offset_ += std::exchange(line_, 0);
    seen = held_.size();
    if (seen > kMostOfALine)
      return refuse(fmt::format("{}:{}", file_.path(), number_ + 1),
                    fmt::format("the line is longer than {} bytes", kMostOfALine));
    held_.resize(seen + kBlock);
    const auto got = file_.read(offset_ + seen, std::span(held_).subspan(seen));
    if (!got) return got.error();
    held_.resize(seen + *got);
    if (*got > 0) continue;
    line_ = held_.size();
    if (held_.empty()) return std::optional<Line>();
    return std::optional(Line{held_, offset_, false});
  }
}

std::uint32_t check_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(shapes::fingerprint(bytes).low);
}

Result<std::string> read_again(const std::string& path, const Stretch& stretch,
                               std::string_view where) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  std::string out(stretch.size, '\0');
  const auto got = file->read(stretch.offset, out);
  if (!got) return got.error();
  if (*got != out.size() || check_of(out) != stretch.check)
    return refuse(where, "the file was changed while it was read");
  return out;
}

Result<std::string> read_file(const std::string& path, std::size_t most, Duration patience) {
  if (std::error_code unknown; std::filesystem::is_fifo(path, unknown))
    return read_pipe(path, std::min(most, kMostOfAPipe), patience);
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  std::string out;
  for (;;) {
    const std::size_t before = out.size();
    // Asks for one byte more than the initial size, so that the end is found without another read.
    const std::size_t rest = file->size() > before ? file->size() - before + 1 : kBlock;
    out.resize(before + std::min(rest, most == SIZE_MAX ? rest : most - before + 1));
    const auto got = file->read(before, std::span(out).subspan(before));
    if (!got) return got.error();
    const bool end = before + *got < out.size();
    out.resize(before + *got);
    if (out.size() > most) return refuse(path, fmt::format("is larger than {} bytes", most));
    if (end) return out;
  }
}

}  // namespace lockstep::worker::simulator
