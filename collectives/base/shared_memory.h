// Memory that processes of one host share. Used by the board and by the rings of collectives/tcp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>

namespace lockstep {

/// One mapping of it; zero at first. It lives until all who have it are gone and its name is taken
/// away.
class SharedMemory {
 public:
  /// `use` is part of its name. The first `reserved` bytes are there to be touched; see reserve().
  /// Errors: Environment (no shared memory to be had).
  [[nodiscard]] static Result<SharedMemory> create(std::string_view use, std::size_t bytes,
                                                   std::size_t reserved);
  /// Errors: Environment (no memory of that name, or a shorter one).
  [[nodiscard]] static Result<SharedMemory> open(const std::string& name, std::size_t bytes);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  /// Takes the name away. Idempotent.
  static void unlink(const std::string& name);
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(pages_); }
  /// Makes bytes [at, at + bytes) ones that can be touched; false where the system has none left.
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
