// Checked 128-bit integers for products and sums of int64, so that a result that fits in int64 is
// found even if an intermediate value does not. Internal to shapes.
#pragma once

#include <cstdint>

namespace lockstep::shapes {

__extension__ typedef __int128 Wide;

[[nodiscard]] inline bool fits_int64(Wide v) { return v == static_cast<std::int64_t>(v); }

/// These functions return false, and leave `out` unspecified, if the result does not fit.
[[nodiscard]] inline bool add_wide(Wide a, Wide b, Wide& out) {
  return !__builtin_add_overflow(a, b, &out);
}
[[nodiscard]] inline bool multiply_wide(Wide a, Wide b, Wide& out) {
  if (fits_int64(a) && fits_int64(b)) [[likely]] {
    out = Wide{static_cast<std::int64_t>(a)} * static_cast<std::int64_t>(b);
    return true;
  }
  return !__builtin_mul_overflow(a, b, &out);
}
[[nodiscard]] inline Wide magnitude(Wide v) { return v < 0 ? -v : v; }
/// Rounds towards minus infinity. Also returns false for b == 0.
[[nodiscard]] inline bool floor_divide_wide(Wide a, Wide b, Wide& out) {
  if (b == 0) return false;
  if (b == -1) return !__builtin_sub_overflow(Wide{0}, a, &out);
  if (fits_int64(a) && fits_int64(b)) [[likely]] {
    const std::int64_t x = static_cast<std::int64_t>(a), y = static_cast<std::int64_t>(b);
    const std::int64_t q = x / y;
    out = q - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
    return true;
  }
  const Wide q = a / b;
  out = q - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
  return true;
}
/// a - floor(a/b)*b. Returns false for b == 0.
[[nodiscard]] inline bool modulo_wide(Wide a, Wide b, Wide& out) {
  if (b == 0) return false;
  if (b == -1) {
    out = 0;
    return true;
  }
  const Wide r = fits_int64(a) && fits_int64(b)
                     ? Wide{static_cast<std::int64_t>(a) % static_cast<std::int64_t>(b)}
                     : a % b;
  out = r != 0 && (r < 0) != (b < 0) ? r + b : r;
  return true;
}

}  // namespace lockstep::shapes
