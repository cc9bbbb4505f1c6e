// Modulo by a fixed divisor without division: multiplies by the divisor's inverse, rounded up
// (Granlund and Montgomery, "Division by invariant integers using multiplication").
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep::worker::simulator {

/// Exact for every dividend of 64 bits. Requires a divisor of at least 2.
class FastModulo {
 public:
  explicit FastModulo(std::uint64_t divisor) : divisor_(divisor) {
    const int log = 63 - std::countl_zero(divisor);
    shift_ = static_cast<std::uint8_t>(log);
    if (std::has_single_bit(divisor)) {
      --shift_;
      return;  // the quotient is (n >> 1) >> shift
    }
    const Wide power = Wide{1} << (64 + log);
    const auto rest = static_cast<std::uint64_t>(power % divisor);
    inverse_ = static_cast<std::uint64_t>(power / divisor) * 2 + (Wide{rest} * 2 >= divisor) + 1;
  }
  [[nodiscard]] std::uint64_t of(std::uint64_t n) const {
    return of(n, static_cast<std::uint64_t>(Wide{n} * inverse_ >> 64));
  }
  /// Returns the same as of(), without a product of 128 bits, so that compilers can vectorise it.
  [[nodiscard]] std::uint64_t of_in_halves(std::uint64_t n) const {
    constexpr std::uint64_t kLow = 0xFFFFFFFF;
    const std::uint64_t cross =
        (n >> 32) * (inverse_ & kLow) + ((n & kLow) * (inverse_ & kLow) >> 32);
    const std::uint64_t other = (n & kLow) * (inverse_ >> 32) + (cross & kLow);
    return of(n, (n >> 32) * (inverse_ >> 32) + (cross >> 32) + (other >> 32));
  }
  bool operator==(const FastModulo&) const = default;

 private:
  /// `high`: upper half of the product of n and the inverse.
  [[nodiscard]] std::uint64_t of(std::uint64_t n, std::uint64_t high) const {
    return n - ((((n - high) >> 1) + high) >> shift_) * divisor_;
  }
  __extension__ using Wide = unsigned __int128;
  std::uint64_t divisor_, inverse_ = 0;
  std::uint8_t shift_ = 0;
};

}  // namespace lockstep::worker::simulator
