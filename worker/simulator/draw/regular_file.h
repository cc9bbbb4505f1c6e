// Regular files: read at any place, and by lines without being held.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker::simulator {

/// Open for reading. Whatever may block or has no size (a pipe, a device, a directory) is refused.
class RegularFile {
 public:
  /// Errors: BadInput, "PATH: what.".
  [[nodiscard]] static Result<RegularFile> open(const std::string& path);
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&&) = delete;
  ~RegularFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  /// How many bytes there were when it was opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Fills `out` with what stands from `offset` on; how much there was. Errors: BadInput.
  [[nodiscard]] Result<std::size_t> read(std::uint64_t offset, std::span<char> out) const;

 private:
  RegularFile(std::string path, int fd, std::uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}
  std::string path_;
  int fd_;
  std::uint64_t size_;
};

/// The lines of a file, one after another. Holds one line and a block.
class LineReader {
 public:
  struct Line {
    std::string_view text;  // without its end; good until the next one is asked for
    std::uint64_t offset = 0;
    bool whole = true;  // false: the file ends before the line does
  };
  explicit LineReader(const RegularFile& file) : file_(file) {}
  /// nullopt: there are no more. Errors: BadInput (also of a line of more than 256 MiB).
  [[nodiscard]] Result<std::optional<Line>> next();

 private:
  const RegularFile& file_;
  std::string held_;          // bytes from `offset_` on
  std::size_t line_ = 0;      // where the next line starts in them
  std::size_t number_ = 0;    // lines given
  std::uint64_t offset_ = 0;  // of held_ in the file
};

/// Bytes that were in a file when it was read for the first time.
struct Stretch {
  std::uint64_t offset = 0, size = 0;
  std::uint32_t check = 0;  // check_of() them
};
[[nodiscard]] std::uint32_t check_of(std::string_view bytes);
/// Reads them again. `where` stands in messages. Errors: BadInput (they are not the same any more).
[[nodiscard]] Result<std::string> read_again(const std::string& path, const Stretch& stretch,
                                             std::string_view where);

/// A file's bytes, or what comes out of a pipe up to its end, of which there may be 1 GiB. Errors:
/// BadInput (missing, a directory, not readable, more than `most` bytes, a pipe out of which
/// nothing comes for `patience`), in one sentence.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t most = SIZE_MAX,
                                            Duration patience = std::chrono::seconds(60));

}  // namespace lockstep::worker::simulator
