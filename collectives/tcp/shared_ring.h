// A ring of messages in memory shared by two processes: one writes, the other reads, and neither
// waits for the other. Used by host_rings.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// The ring in memory, initially zero. A message is contiguous: its length in eight bytes, then its
/// bytes, padded to a multiple of eight.
struct SharedRing {
  static constexpr std::size_t kBytes = 32 * 1024;
  /// Longest message.
  static constexpr std::size_t kMostBytes = kBytes / 2 - 8;
  alignas(64) std::atomic<std::uint64_t> written{0};  // bytes so far, including lengths and gaps
  alignas(64) std::atomic<std::uint64_t> read{0};
  alignas(64) std::array<std::byte, kBytes> bytes{};
};

/// Writes to a ring. Used by one thread.
class RingWriter {
 public:
  RingWriter() = default;
  explicit RingWriter(SharedRing& ring) : ring_(&ring) {}
  /// Writes `head` and `body` as one message of at most kMostBytes. False: there is no room at the
  /// moment.
  [[nodiscard]] bool write(std::span<const std::byte> head, std::span<const std::byte> body);

 private:
  SharedRing* ring_ = nullptr;
  std::uint64_t written_ = 0, read_ = 0;  // read_: SharedRing::read as last seen
};

/// Reads from a ring. Used by one thread.
class RingReader {
 public:
  RingReader() = default;
  explicit RingReader(SharedRing& ring) : ring_(&ring) {}
  [[nodiscard]] bool empty() const;
  /// The next message, which stays in the ring's memory until took(); null if the ring is empty.
  /// Errors: Internal (the bytes there are no message).
  [[nodiscard]] Result<std::span<const std::byte>> next();
  void took();

 private:
  SharedRing* ring_ = nullptr;
  std::uint64_t read_ = 0, next_ = 0;  // next_: end of the message that next() returned
};

}  // namespace lockstep::collectives
