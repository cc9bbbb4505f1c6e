// Numbers and bytes as text, and back.
#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <lockstep/collectives/base/bytes.h>

namespace lockstep {

/// The number that the whole of `text` spells; nullopt: `text` is no number, or T cannot hold the
/// number. `base` applies to integers; floats are decimal, with or without an exponent.
template <class T>
[[nodiscard]] std::optional<T> number_in(std::string_view text, int base = 10) {
  T value{};
  const char* const end = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (std::is_floating_point_v<T>)
    read = std::from_chars(text.data(), end, value);
  else
    read = std::from_chars(text.data(), end, value, base);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  return value;
}

/// "00ff": two digits a byte.
[[nodiscard]] std::string hex_of(std::span<const std::byte> bytes);
/// nullopt: `hex` is not pairs of hexadecimal digits.
[[nodiscard]] std::optional<Bytes> bytes_of_hex(std::string_view hex);

}  // namespace lockstep
