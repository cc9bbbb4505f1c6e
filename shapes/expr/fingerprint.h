// 128-bit fingerprints of canonical content: graphs, decisions, source lists, kernel texts. Stable
// across ranks, hosts, builds and compilers; not a defence against forgery.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::shapes {

struct Fingerprint {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const Fingerprint&) const = default;
  /// 32 lower-case hexadecimal digits.
  [[nodiscard]] std::string text() const;
  /// The fingerprint whose 32 hexadecimal digits are `text`; nullopt: `text` is something else.
  [[nodiscard]] static std::optional<Fingerprint> read(std::string_view text);
};

/// XXH3 (128 bits, seed 0) of the bytes.
[[nodiscard]] Fingerprint fingerprint(std::span<const std::byte> bytes);
[[nodiscard]] Fingerprint fingerprint(std::string_view text);

/// Collects fields into one fingerprint. Every field is delimited, so ("ab", "c") and ("a", "bc")
/// differ.
class FingerprintBuilder {
 public:
  FingerprintBuilder& add(std::string_view text);
  /// Takes a literal as text, not as a truth value or a number.
  FingerprintBuilder& add(const char* text) { return add(std::string_view(text)); }
  FingerprintBuilder& add(std::int64_t number);
  FingerprintBuilder& add(const Fingerprint& other);
  [[nodiscard]] Fingerprint finish() const;

 private:
  std::string bytes_;
};

}  // namespace lockstep::shapes
