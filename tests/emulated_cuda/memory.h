// Memory of an emulated device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace lockstep::emulated_cuda {

/// Blocks at multiples of 256 bytes, filled with what is no number of any type, so that a kernel
/// that reads before it writes shows, between zones in which a write shows. Any thread.
class Memory {
 public:
  explicit Memory(std::size_t capacity) : capacity_(capacity) {}
  /// From now on; what there is stays.
  void set_capacity(std::size_t capacity);
  /// nullopt if there is not that much left.
  [[nodiscard]] std::optional<std::uint64_t> take(std::size_t bytes);
  /// False if there is no such block, or what is beside it was written to.
  [[nodiscard]] bool give_back(std::uint64_t block);
  /// Whether all of it lies in one block.
  [[nodiscard]] bool within(std::uint64_t at, std::size_t bytes) const;
  [[nodiscard]] std::size_t live() const;
  /// What is freed stays with the process until release(), and beyond that as much as `bytes`; then
  /// all of it goes, as a pool of the driver's does.
  void keep(std::size_t bytes);
  void release();
  [[nodiscard]] std::size_t kept() const;

 private:
  struct Block {
    std::unique_ptr<std::byte[]> all;
    std::size_t bytes = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;
  std::size_t capacity_, live_ = 0, freed_ = 0, keep_ = 0;
};

}  // namespace lockstep::emulated_cuda
