// Writes a file whole or not at all: whatever fails, a reader finds the earlier file or the new one
// under the name.
//
// The bytes are written to a draft beside the file, which is flushed to disk and renamed to the
// file's name. Then the folder's names are flushed, where the file system can. Calls that a signal
// interrupts are repeated. If a step fails, no later step is made, and the draft is removed: until
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

/// The descriptor of an open file or folder; the destructor closes it. Movable.
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

/// Writes all bytes, in pieces, so that a disk that fills up is noticed early. False: see errno.
[[nodiscard]] bool write_all(int fd, std::string_view text);
/// "a/b" for "a/b/c"; "." if `path` names no folder.
[[nodiscard]] std::string folder_of(const std::string& path);

/// The step that failed, and errno.
struct FileFault {
  const char* step = "";  // "create", "write", "flush", "name", "flush the folder of"
  int number = 0;
  [[nodiscard]] std::string reason() const;  // "No space left on device"
};

struct DraftOptions {
  /// Permissions, less the umask; 0600 is set whatever the umask is.
  unsigned mode = 0666;
  /// Descriptor of the folder at which relative paths begin.
  int folder = AT_FDCWD;
  /// The draft's path; a file left over there is removed. Empty: PATH.tmp-PID-RANDOM.
  std::string draft{};
  /// True: a file that already has the name stays.
  bool keeps_first = false;
  /// For write_whole_file(): whether the file is flushed to disk. False for a file that other
  /// processes wait for, and that no process reads after a reboot.
  bool on_disk = true;
};

/// A draft. Steps in order: write() any number of times, flush(), name(), flush_folder(). Each
/// returns false if it or an earlier step failed; fault() says which. Used by one thread. Movable.
class DraftFile {
 public:
  explicit DraftFile(std::string path, DraftOptions options = {});
  DraftFile(DraftFile&& other) noexcept;
  DraftFile& operator=(DraftFile&&) = delete;
  /// Removes the draft, unless name() has renamed it.
  ~DraftFile();

  bool write(std::span<const std::byte> bytes);
  bool write(std::string_view text);
  /// Flushes the bytes to disk.
  bool flush();
  /// Gives the draft the name of the file.
  bool name();
  /// Flushes the names of the file's folder to disk.
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

/// Writes a file by all steps of DraftFile. nullopt: the file is written, and on disk if `on_disk`.
[[nodiscard]] std::optional<FileFault> write_whole_file(const std::string& path,
                                                        std::string_view bytes,
                                                        DraftOptions options = {});

}  // namespace lockstep
