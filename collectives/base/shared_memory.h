// Memory that processes of one host share. Used by the board and by the rings of collectives/tcp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>

namespace lockstep {

/// One mapping of shared memory, which is initially zero. The memory lives until all mappings are
/// gone and its name is removed.
class SharedMemory {
 public:
  /// Makes shared memory with `use` in its name; allocates its first `reserved` bytes, see
  /// reserve(). Errors: Environment (no shared memory available).
  [[nodiscard]] static Result<SharedMemory> create(std::string_view use, std::size_t bytes,
                                                   std::size_t reserved);
  /// Errors: Environment (there is no memory of that name, or it has fewer bytes).
  [[nodiscard]] static Result<SharedMemory> open(const std::string& name, std::size_t bytes);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  /// Removes the name. Idempotent.
  static void unlink(const std::string& name);
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(pages_); }
  /// Allocates the bytes [at, at + bytes), which must not be touched before. False: no memory is
  /// left.
  [[nodiscard]] bool reserve(std::size_t at, std::size_t bytes) const;

 private:
  SharedMemory(std::string name, int file) : name_(std::move(name)), file_(file) {}
  [[nodiscard]] Result<void> map(std::size_t bytes);

  std::string name_;
  int file_ = -1;
  void* pages_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep
