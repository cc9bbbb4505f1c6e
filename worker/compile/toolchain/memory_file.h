// A file that exists in memory only, for the input and output of a compiler, and for objects to be
// loaded. An interrupt cannot leave it behind.
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
  /// A path by which this process can open the file while this object lives.
  [[nodiscard]] std::string path() const;
  /// Returns at most `limit` bytes from the start.
  [[nodiscard]] Bytes content(std::size_t limit = SIZE_MAX) const;

 private:
  explicit MemoryFile(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace lockstep::worker
