// 128-bit fingerprints of canonical content: graphs, decisions, source lists, kernel texts. Stable
// across ranks, hosts, builds and compilers; not a defence against forgery.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::shapes {

struct Fingerprint {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const Fingerprint&) const = default;
  /// 32 lower-case hexadecimal digits.
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] Fingerprint fingerprint(std::span<const std::byte> bytes);
[[nodiscard]] Fingerprint fingerprint(std::string_view text);

/// Collects fields into one fingerprint. Every field is delimited, so ("ab", "c") and ("a", "bc")
/// differ.
class FingerprintBuilder {
 public:
  FingerprintBuilder& add(std::string_view text);
  FingerprintBuilder& add(std::int64_t number);
  FingerprintBuilder& add(const Fingerprint& other);
  [[nodiscard]] Fingerprint finish() const;

 private:
  std::string bytes_;
};

}  // namespace lockstep::shapes
