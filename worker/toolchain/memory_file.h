// A file that exists in memory only: how text goes to a compiler, how its output comes back and how
// an object is loaded, without a temporary file that an interrupt could leave behind.
#pragma once

#include <memory>
#include <string>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

class MemoryFile {
 public:
  /// Errors: Environment.
  [[nodiscard]] static Result<std::unique_ptr<MemoryFile>> create(
      std::span<const std::byte> content = {});
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] int descriptor() const { return fd_; }
  /// Opens the file by name in this process, for as long as this object lives.
  [[nodiscard]] std::string path() const;
  /// At most `limit` bytes from its start.
  [[nodiscard]] Bytes content(std::size_t limit = SIZE_MAX) const;

 private:
  explicit MemoryFile(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace lockstep::worker
