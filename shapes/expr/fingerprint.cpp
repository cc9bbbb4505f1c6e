#include <charconv>

#include <xxhash.h>

#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::shapes {
namespace {

// Appends little-endian bytes, so that hosts of either byte order agree.
void append_word(std::string& bytes, std::uint64_t word) {
  for (int shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>(word >> shift & 0xff));
  }
}

Fingerprint of(const void* data, std::size_t size) {
  const XXH128_hash_t hash = XXH3_128bits(data, size);
  return {hash.high64, hash.low64};
}

}  // namespace

std::string Fingerprint::text() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint64_t word : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) out.push_back(kDigits[word >> shift & 0xf]);
  }
  return out;
}

std::optional<Fingerprint> Fingerprint::read(std::string_view text) {
  Fingerprint out;
  if (text.size() != 32) return std::nullopt;
  const char *begin = text.data(), *middle = begin + 16, *end = begin + 32;
  const bool whole = std::from_chars(begin, middle, out.high, 16).ptr == middle &&
                     std::from_chars(middle, end, out.low, 16).ptr == end;
  return whole ? std::optional(out) : std::nullopt;
}

Fingerprint fingerprint(std::span<const std::byte> bytes) { return of(bytes.data(), bytes.size()); }
Fingerprint fingerprint(std::string_view text) { return of(text.data(), text.size()); }

// Each field is a tag, then its length or a fixed number of bytes, so no two sequences of fields
// give the same bytes.
FingerprintBuilder& FingerprintBuilder::add(std::string_view text) {
  bytes_.push_back('t');
  append_word(bytes_, text.size());
  bytes_.append(text);
  return *this;
}

FingerprintBuilder& FingerprintBuilder::add(std::int64_t number) {
  bytes_.push_back('n');
  append_word(bytes_, static_cast<std::uint64_t>(number));
  return *this;
}

FingerprintBuilder& FingerprintBuilder::add(const Fingerprint& other) {
  bytes_.push_back('f');
  append_word(bytes_, other.high);
  append_word(bytes_, other.low);
  return *this;
}

Fingerprint FingerprintBuilder::finish() const { return of(bytes_.data(), bytes_.size()); }

}  // namespace lockstep::shapes
