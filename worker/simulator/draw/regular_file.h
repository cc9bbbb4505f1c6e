// Regular files: read at any offset, and by lines without holding the whole file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker::simulator {

/// A file open for reading. Files that may block or have no size (a pipe, a device, a directory)
/// are refused.
class RegularFile {
 public:
  /// Errors: BadInput, "PATH: what.".
  [[nodiscard]] static Result<RegularFile> open(const std::string& path);
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&&) = delete;
  ~RegularFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Returns the size when the file was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Fills `out` from `offset` on. Returns the number of bytes read. Errors: BadInput.
  [[nodiscard]] Result<std::size_t> read(std::uint64_t offset, std::span<char> out) const;

 private:
  RegularFile(std::string path, int fd, std::uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}
  std::string path_;
  int fd_;
  std::uint64_t size_;
};

/// Reads the lines of a file in order. Holds one line and one block of the file in memory.
class LineReader {
 public:
  struct Line {
    std::string_view text;  // without the newline; valid until the next call of next()
    std::uint64_t offset = 0;
    bool whole = true;  // false: the file ends before the line does
  };
  explicit LineReader(const RegularFile& file) : file_(file) {}
  /// Returns nullopt after the last line. Errors: BadInput (also for a line of more than 256 MiB).
  [[nodiscard]] Result<std::optional<Line>> next();

 private:
  const RegularFile& file_;
  std::string held_;          // bytes from `offset_` on
  std::size_t line_ = 0;      // where the next line starts in held_
  std::size_t number_ = 0;    // number of lines returned so far
  std::uint64_t offset_ = 0;  // position of held_ in the file
};

/// A range of bytes of a file, with a checksum of the bytes as first read.
struct Stretch {
  std::uint64_t offset = 0, size = 0;
  std::uint32_t check = 0;  // check_of() of the bytes as first read
};
[[nodiscard]] std::uint32_t check_of(std::string_view bytes);
/// Reads the bytes of a stretch again. `where` is for messages. Errors: BadInput (the bytes have
/// changed).
[[nodiscard]] Result<std::string> read_again(const std::string& path, const Stretch& stretch,
                                             std::string_view where);

/// Returns the bytes of a file, or of a pipe up to its end (at most 1 GiB). Errors: BadInput, in
/// one sentence (missing, a directory, not readable, more than `most` bytes, a pipe without output
/// for `patience`).
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t most = SIZE_MAX,
                                            Duration patience = std::chrono::seconds(60));

}  // namespace lockstep::worker::simulator
