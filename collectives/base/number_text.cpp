#include <lockstep/collectives/base/number_text.h>

namespace lockstep {

std::string hex_of(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : bytes) {
    out += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    out += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return out;
}

std::optional<Bytes> bytes_of_hex(std::string_view hex) {
  Bytes out;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const auto value = number_in<std::uint8_t>(hex.substr(i, 2), 16);
    if (!value || i + 2 > hex.size()) return std::nullopt;
    out.push_back(std::byte{*value});
  }
  return out;
}

}  // namespace lockstep
