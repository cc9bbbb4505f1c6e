// An open file, by its number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// Closes what it holds. Movable.
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

/// Environment: "cannot WHAT FILE: the reason in errno".
[[nodiscard]] Status file_error(const char* what, const std::string& file);
/// It is file_error()'s where a disk, or this user's part of it, had no room left.
[[nodiscard]] bool is_full(const Status& error);
/// Fills `into` from `offset` on, without moving the file's own position. Errors: BadInput (the
/// file ends before), Environment.
[[nodiscard]] Result<void> read_at(const OpenFile& from, std::uint64_t offset,
                                   std::span<std::byte> into, const std::string& file);
/// Errors: Environment (a full disk, for example).
[[nodiscard]] Result<void> write_whole(const OpenFile& to, std::span<const std::byte> bytes,
                                       const std::string& file);
/// Has the names in a folder written to disk. Errors: Environment.
[[nodiscard]] Result<void> sync_folder(const std::string& folder);
/// "a/b" of "a/b/c"; "." where there is no folder in it.
[[nodiscard]] std::string folder_of(const std::string& path);

}  // namespace lockstep::worker
