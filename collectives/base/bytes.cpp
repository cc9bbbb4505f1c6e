#include <bit>
#include <cstring>

#include <lockstep/collectives/base/bytes.h>

namespace lockstep {

static_assert(std::endian::native == std::endian::little, "control messages are little-endian");

namespace {
template <class T>
void append(Bytes& bytes, T v) {
  const auto* p = reinterpret_cast<const std::byte*>(&v);
  bytes.insert(bytes.end(), p, p + sizeof v);
}
template <class T>
T take(std::span<const std::byte>& rest) {
  T v;
  std::memcpy(&v, rest.data(), sizeof v);
  rest = rest.subspan(sizeof v);
  return v;
}
}  // namespace

void ByteWriter::u8(std::uint8_t v) { append(bytes_, v); }
void ByteWriter::u32(std::uint32_t v) { append(bytes_, v); }
void ByteWriter::u64(std::uint64_t v) { append(bytes_, v); }
void ByteWriter::i64(std::int64_t v) { append(bytes_, v); }
void ByteWriter::f64(double v) { append(bytes_, v); }
void ByteWriter::text(std::string_view v) {
  u32(static_cast<std::uint32_t>(v.size()));
  const auto* p = reinterpret_cast<const std::byte*>(v.data());
  bytes_.insert(bytes_.end(), p, p + v.size());
}

bool ByteReader::need(std::size_t n) {
  if (ok_ && rest_.size() >= n) return true;
  ok_ = false;
  return false;
}

std::uint8_t ByteReader::u8() { return need(1) ? take<std::uint8_t>(rest_) : std::uint8_t{0}; }
std::uint32_t ByteReader::u32() { return need(4) ? take<std::uint32_t>(rest_) : 0; }
std::uint64_t ByteReader::u64() { return need(8) ? take<std::uint64_t>(rest_) : 0; }
std::int64_t ByteReader::i64() { return need(8) ? take<std::int64_t>(rest_) : 0; }
double ByteReader::f64() { return need(8) ? take<double>(rest_) : 0.0; }

std::span<const std::byte> ByteReader::bytes() {
  const std::uint32_t n = u32();
  if (!need(n)) return {};
  const std::span<const std::byte> out = rest_.first(n);
  rest_ = rest_.subspan(n);
  return out;
}

std::string ByteReader::text() {
  const std::span<const std::byte> text = bytes();
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

std::uint32_t ByteReader::count(std::size_t min_bytes) {
  const std::uint32_t n = u32();
  return need(static_cast<std::size_t>(n) * min_bytes) ? n : 0;
}

}  // namespace lockstep
