// A ring of messages in memory that two processes share: one writes, the other reads, neither waits
// for the other. Used by host_rings.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// The ring as it lies in memory, zero at first. A message is its length in eight bytes and its
/// bytes, made up to a multiple of eight; each lies in one piece.
struct SharedRing {
  static constexpr std::size_t kBytes = 32 * 1024;
  /// Of one message.
  static constexpr std::size_t kMostBytes = kBytes / 2 - 8;
  alignas(64) std::atomic<std::uint64_t> written{0};  // bytes ever, with lengths and gaps
  alignas(64) std::atomic<std::uint64_t> read{0};
  alignas(64) std::array<std::byte, kBytes> bytes{};
};

/// The one side. One thread.
class RingWriter {
 public:
  RingWriter() = default;
  explicit RingWriter(SharedRing& ring) : ring_(&ring) {}
  /// Writes both as one message; false where there is no room for it just now. Requires kMostBytes
  /// at most.
  [[nodiscard]] bool write(std::span<const std::byte> head, std::span<const std::byte> body);

 private:
  SharedRing* ring_ = nullptr;
  std::uint64_t written_ = 0, read_ = 0;  // the latter as last seen
};

/// The other side. One thread.
class RingReader {
 public:
  RingReader() = default;
  explicit RingReader(SharedRing& ring) : ring_(&ring) {}
  [[nodiscard]] bool empty() const;
  /// The next message, where it lies; nothing (null) where there is none. Taken by took(), if
  /// not null. Errors: Internal (what lies there is no message).
  [[nodiscard]] Result<std::span<const std::byte>> next();
  void took();

 private:
  SharedRing* ring_ = nullptr;
  std::uint64_t read_ = 0, next_ = 0;  // the latter: behind the message that next() gave
};

}  // namespace lockstep::collectives
