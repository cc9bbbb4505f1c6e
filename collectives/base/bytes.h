// Little-endian bytes of control messages. Fields lie in the order in which they are written. The
// reader never trusts a length: it checks every read against the bytes that are left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

using Bytes = std::vector<std::byte>;

class ByteWriter {
 public:
  void u8(std::uint8_t v);
  void u32(std::uint32_t v);
  void u64(std::uint64_t v);
  void i64(std::int64_t v);
  void f64(double v);
  /// Length (u32) and bytes.
  void text(std::string_view v);
  [[nodiscard]] Bytes take() && { return std::move(bytes_); }
  [[nodiscard]] std::span<const std::byte> view() const { return bytes_; }

 private:
  Bytes bytes_;
};

/// Reads what ByteWriter wrote. After the first read past the end every read returns zero or empty
/// and ok() stays false; callers check ok() and at_end() once, at the end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  std::int64_t i64();
  double f64();
  /// A text's length and bytes, as a view.
  std::span<const std::byte> bytes();
  std::string text();
  /// A count of elements of at least `min_bytes` each; 0, and ok() is false, if the bytes left
  /// cannot hold that many.
  std::uint32_t count(std::size_t min_bytes);
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  bool need(std::size_t n);
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace lockstep
