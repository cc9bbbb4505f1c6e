// A file that is there whole or not at all: what a reader finds under its name is the file of
// before or the new one, whatever fails meanwhile.
//
// A draft beside the file takes the bytes, is flushed to disk, and takes the name of the file in
// one rename; then the folder's names are flushed, where that can be done. A call that a signal
// interrupts goes on. Where a step fails, nothing after it happens, and the draft is removed: up to
// the rename the file is as before. A process that is killed leaves its draft, PATH.tmp-PID-RANDOM.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>

namespace lockstep {

/// The number of an open file or folder, which it closes. Movable.
class OpenFile {
 public:
  OpenFile() = default;
  explicit OpenFile(int fd) : fd_(fd) {}
  OpenFile(OpenFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OpenFile();
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// All bytes, in pieces, so that a disk that fills up says so early. False: errno says why.
[[nodiscard]] bool write_all(int fd, std::string_view text);
/// "a/b" of "a/b/c"; "." where there is no folder in it.
[[nodiscard]] std::string folder_of(const std::string& path);

/// The step that failed, and errno.
struct FileFault {
  const char* step = "";  // "create", "write", "flush", "name", "flush the folder of"
  int number = 0;
  [[nodiscard]] std::string reason() const;  // "No space left on device"
};

struct DraftOptions {
  /// Permissions, as far as the umask leaves them; 0600 whatever the umask is.
  unsigned mode = 0666;
  /// Where the path begins.
  int folder = AT_FDCWD;
  /// The draft's path, where a leftover of that name is removed; empty: PATH.tmp-PID-RANDOM.
  std::string draft{};
  /// Whether a file that is there under the name stays.
  bool keeps_first = false;
  /// Of write_whole_file(): false for what only processes of this boot read, who wait for it.
  bool on_disk = true;
};

/// A draft. Steps in order: write() as often as there are bytes, flush(), name(). False: this step
/// failed, or one before it, and fault() says which. One thread. Movable.
class DraftFile {
 public:
  explicit DraftFile(std::string path, DraftOptions options = {});
  DraftFile(DraftFile&& other) noexcept;
  DraftFile& operator=(DraftFile&&) = delete;
  /// Without a name the draft goes.
  ~DraftFile();

  bool write(std::span<const std::byte> bytes);
  bool write(std::string_view text);
  /// Has what was written put on disk.
  bool flush();
  /// Gives the draft the name of the file.
  bool name();
  /// Has the names of the file's folder put on disk.
  bool flush_folder();

  [[nodiscard]] const std::optional<FileFault>& fault() const { return fault_; }
  [[nodiscard]] const std::string& path() const { return options_.draft; }

 private:
  bool done(bool well, const char* step);
  std::string path_;
  DraftOptions options_;
  OpenFile file_;
  bool named_ = false;
  std::optional<FileFault> fault_;
};

/// All steps. nullopt: the file is there, and on disk where it is to be.
[[nodiscard]] std::optional<FileFault> write_whole_file(const std::string& path,
                                                        std::string_view bytes,
                                                        DraftOptions options = {});

}  // namespace lockstep
