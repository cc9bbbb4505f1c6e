#include <algorithm>
#include <cmath>
#include <limits>

#include <lockstep/worker/tensor/graph/half.h>

namespace lockstep::worker {
namespace {

static_assert(std::numeric_limits<long double>::digits >= 64);

/// Bits of the fraction, and the exponent of the smallest normal number.
struct Format {
  int fraction, lowest;
};
Format format_of(DType dtype) { return dtype == DType::F16 ? Format{10, -14} : Format{7, -126}; }
/// Infinity: all bits of the exponent set. Greater bits are not-a-numbers.
int infinity_of(const Format& format) { return 0x7fff >> format.fraction << format.fraction; }

}  // namespace

double half_value(DType dtype, std::uint16_t bits) {
  const Format format = format_of(dtype);
  const int rest = bits & 0x7fff;
  if (rest > infinity_of(format)) return std::numeric_limits<double>::quiet_NaN();
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (rest == infinity_of(format)) return sign * std::numeric_limits<double>::infinity();
  const int exponent = rest >> format.fraction, normal = 1 << format.fraction;
  const int units = rest % normal + (exponent > 0 ? normal : 0);
  return sign * std::ldexp(units, format.lowest - format.fraction + std::max(exponent, 1) - 1);
}

std::uint16_t half_bits(DType dtype, long double value) {
  const Format format = format_of(dtype);
  const int infinity = infinity_of(format), sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | 1 << (format.fraction - 1));
  if (value == 0) return static_cast<std::uint16_t>(sign);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  const int exponent = std::max(std::ilogb(value), format.lowest);
  if (exponent > -format.lowest + 1) return static_cast<std::uint16_t>(sign | infinity);
  const long double units =
      std::nearbyint(std::ldexp(std::fabs(value), format.fraction - exponent));
  // The leading unit of a normal number is the exponent's lowest bit; a carry gives the next
  // exponent.
  const int rest = ((exponent - format.lowest) << format.fraction) + static_cast<int>(units);
  return static_cast<std::uint16_t>(sign | std::min(rest, infinity));
}

}  // namespace lockstep::worker
