#include <algorithm>
#include <functional>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/prelude.h>
#include <lockstep/worker/compile/codegen/prelude_sums.h>

namespace lockstep::worker {
namespace {

// C library functions with one and two operands. Kernels call them by names that end in "_".
constexpr std::string_view kOfOne[] = {"exp",   "log", "tanh", "exp2", "log2", "log1p",
                                       "expm1", "sin", "cos",  "tan",  "erf"};
constexpr std::string_view kOfTwo[] = {"pow", "atan2"};

// exp gives 0 for results below the smallest normal number. The vector function would fall back to
// a slow scalar one there, and only masked softmaxes have such results.
constexpr std::string_view kHostExp = R"(inline float exp_(float x) {
  const float y = expf(x < -87.0f ? -87.0f : x);
  return x < -87.0f ? 0.0f : y;
}
inline double exp_(double x) {
  const double y = exp(x < -708.0 ? -708.0 : x);
  return x < -708.0 ? 0.0 : y;
}
)";

constexpr std::string_view kHostBits =
    R"(inline unsigned bits_of(float x) { return __builtin_bit_cast(unsigned, x); }
inline float float_of(unsigned bits) { return __builtin_bit_cast(float, bits); }
)";

// All targets. `place_of` returns the first place in the ascending x whose element does not sort
// before the value, or, with `right`, the place after all equal elements. `philox_` keeps its
// 32-bit words in 64 bits, so that GCC vectorises it.
constexpr std::string_view kShared = R"(inline float sqrt_(float x) { return __builtin_sqrtf(x); }
inline double sqrt_(double x) { return __builtin_sqrt(x); }
inline float abs_(float x) { return __builtin_fabsf(x); }
inline double abs_(double x) { return __builtin_fabs(x); }
template <class T> inline T abs_(T x) { return x < T(0) ? T(-x) : x; }
inline float floor_(float x) { return __builtin_floorf(x); }
inline double floor_(double x) { return __builtin_floor(x); }
inline float ceil_(float x) { return __builtin_ceilf(x); }
inline double ceil_(double x) { return __builtin_ceil(x); }
inline float round_(float x) { return __builtin_rintf(x); }
inline double round_(double x) { return __builtin_rint(x); }
inline float trunc_(float x) { return __builtin_truncf(x); }
inline double trunc_(double x) { return __builtin_trunc(x); }
inline float div_(float a, float b) { return a / b; }
inline double div_(double a, double b) { return a / b; }
template <class T> inline T div_(T a, T b) {
  if (b == T(0)) return T(0);
  if (T(-1) < T(0)) {
    if (b == T(-1)) return T(-a);
    return T(a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0));
  }
  return T(a / b);
}
template <class T> inline T mod_(T a, T b) { return T(a - div_(a, b) * b); }
inline float mod_(float a, float b) {
  const float r = __builtin_fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
inline double mod_(double a, double b) {
  const double r = __builtin_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
inline float fmod_(float a, float b) { return __builtin_fmodf(a, b); }
inline double fmod_(double a, double b) { return __builtin_fmod(a, b); }
template <class T> inline T fmod_(T a, T b) {
  if (b == T(0)) return a;
  if (T(-1) < T(0) && b == T(-1)) return T(0);
  return T(a % b);
}
template <class T> inline T floor_div_(T a, T b) {
  if (b == T(0)) return a / b;
  const T rest = fmod_(a, b);
  const T exact = (a - rest) / b - (rest != T(0) && (b < T(0)) != (rest < T(0)) ? T(1) : T(0));
  if (exact == T(0)) return T(0) * (a / b);
  const T below = floor_(exact);
  return exact - below > T(0.5) ? below + T(1) : below;
}
template <class T> inline T pow_(T a, T b) {
  if (b < T(0)) return a == T(1) ? a : a == T(-1) ? (b % 2 == 0 ? T(1) : a) : T(0);
  unsigned long out = 1, square = (unsigned long)a;
  for (T left = b; left != T(0); left = T(left >> 1)) {
    if ((left & 1) != 0) out *= square;
    square *= square;
  }
  return T(out);
}
template <class T> inline T shift_left_(T a, T b) {
  return b < T(0) || b >= T(8 * sizeof(T)) ? T(0) : T((unsigned long)a << b);
}
template <class T> inline T shift_right_(T a, T b) {
  const T most = T(8 * sizeof(T) - (T(-1) < T(0) ? 1 : 0));
  return T(a >> (b < T(0) || b > most ? most : b));
}
inline long philox_(long key, long counter, long stream) {
  const unsigned long low = 0xffffffffUL;
  unsigned long k0 = (unsigned long)key & low, k1 = (unsigned long)key >> 32;
  unsigned long a = (unsigned long)counter & low, b = (unsigned long)counter >> 32;
  unsigned long c = (unsigned long)stream & low, d = (unsigned long)stream >> 32;
  for (int round = 0; round < 10; ++round) {
    const unsigned long p = 0xd2511f53UL * a, q = 0xcd9e8d57UL * c;
    a = (q >> 32) ^ b ^ k0;
    b = q & low;
    c = (p >> 32) ^ d ^ k1;
    d = p & low;
    k0 = (k0 + 0x9e3779b9UL) & low;
    k1 = (k1 + 0xbb67ae85UL) & low;
  }
  return (long)(b << 32 | a);
}
template <class T> inline long to_long(T x) {
  return x >= T(-9223372036854775808.0) && x < T(9223372036854775808.0) ? long(x) : -__LONG_MAX__ - 1;
}
template <class T> inline int to_int(T x) {
  return x >= T(-2147483648.0) && x < T(2147483648.0) ? int(x) : -2147483647 - 1;
}
template <class T> inline bool sorts_before(T a, T b) { return a < b || (a == a && b != b); }
template <class T> inline long place_of(const T* x, long n, T value, bool right) {
  long low = 0, high = n;
  while (low < high) {
    const long middle = low + (high - low) / 2;
    if (right ? !sorts_before(value, x[middle]) : sorts_before(x[middle], value)) low = middle + 1;
    else high = middle;
  }
  return low;
}
)";

// All targets: casts of f16 and bf16, whose elements are bits. A float holds all of their values.
// Casts to them go through `to_odd`, which sets the last bit of a float if anything was cut off, so
// that only the second rounding counts. In casts from f16, a factor of 2^112 corrects the exponent,
// also of subnormal numbers. In casts to a subnormal f16, adding 0.5 rounds: the last place of 0.5
// in f32 is that of a subnormal f16. Values are chosen by masks instead of branches, because
// compilers vectorise masks better.
constexpr std::string_view kHalf = R"(inline float to_odd(float x) { return x; }
inline float to_odd(double x) {
  const float y = (float)x;
  const double back = (double)y;
  if (back == x || x != x) return y;
  return float_of((bits_of(y) - ((back > x) == (x > 0.0) ? 1U : 0U)) | 1U);
}
inline float to_odd(long x) {
  if (x >= -9007199254740992L && x <= 9007199254740992L) return to_odd((double)x);
  return to_odd((double)((x & -2048L) | ((x & 2047L) != 0 ? 2048L : 0L)));
}
template <class T> inline float to_odd(T x) { return to_odd((long)x); }
inline unsigned chosen(bool first, unsigned a, unsigned b) {
  const unsigned mask = 0U - (unsigned)first;
  return (a & mask) | (b & ~mask);
}
inline float of_bf16(unsigned short h) {
  const unsigned bits = (unsigned)h << 16;
  return float_of(chosen(float_of(bits) == float_of(bits), bits, 0x7fc00000U));
}
inline unsigned short bf16_of(float x) {
  const unsigned bits = bits_of(x), nearest = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  return (unsigned short)chosen(x == x, nearest, 0x7fc0U);
}
inline float of_f16(unsigned short h) {
  const unsigned sign = (h & 0x8000U) << 16;
  const float x = float_of((h & 0x7fffU) << 13) * 0x1p112f;
  const unsigned size = chosen(x < 65536.0f, bits_of(x), 0x7f800000U);
  return float_of(chosen(x > 65536.0f, 0x7fc00000U, size | sign));
}
inline unsigned short f16_of(float x) {
  const unsigned bits = bits_of(x), sign = bits >> 16 & 0x8000U, rest = bits & 0x7fffffffU;
  const float size = float_of(rest);
  const unsigned small = bits_of(size + 0.5f) - 0x3f000000U;
  const unsigned normal = ((rest + 0xfffU + (rest >> 13 & 1U)) >> 13) - 0x1c000U;
  const unsigned finite = chosen(size < 0x1p-14f, small, normal);
  const unsigned most = chosen(size < 65520.0f, finite, 0x7c00U);
  return (unsigned short)chosen(x == x, most | sign, 0x7e00U);
}
)";

constexpr std::string_view kHostTail =
    R"(template <class T> void argsort(const T* x, long* out, long* scratch, long n) {
  long* from = out;
  long* to = scratch;
  for (long i = 0; i < n; ++i) from[i] = i;
  for (long width = 1; width < n; width *= 2) {
    for (long start = 0; start < n; start += 2 * width) {
      const long middle = start + width < n ? start + width : n;
      const long end = middle + width < n ? middle + width : n;
      long a = start, b = middle;
      for (long k = start; k < end; ++k)
        to[k] = b < end && (a == middle || sorts_before(x[from[b]], x[from[a]])) ? from[b++] : from[a++];
    }
    long* swapped = from;
    from = to;
    to = swapped;
  }
  if (from != out)
    for (long i = 0; i < n; ++i) out[i] = from[i];
}
}
)";

// NVRTC knows CUDA's functions without headers, but not GCC's builtins. `merge_step` is one pass of
// a stable sort, which merges pairs of runs of `width` elements: every element finds its own place.
// `merge_rows` does this for rows of n elements. `first_place` finds where a value of x begins in
// the sorted `order`. `segment_of` returns the first segment whose end is beyond i.
constexpr std::string_view kCudaHead = R"(// lockstep kernels for CUDA, format 2
#define __builtin_sqrtf sqrtf
#define __builtin_sqrt sqrt
#define __builtin_fabsf fabsf
#define __builtin_fabs fabs
#define __builtin_floorf floorf
#define __builtin_floor floor
#define __builtin_ceilf ceilf
#define __builtin_ceil ceil
#define __builtin_rintf rintf
#define __builtin_rint rint
#define __builtin_truncf truncf
#define __builtin_trunc trunc
#define __builtin_fmodf fmodf
#define __builtin_fmod fmod
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000)
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000)
#define __LONG_MAX__ 9223372036854775807L
)";

constexpr std::string_view kCudaBits =
    R"(__device__ inline unsigned bits_of(float x) { return __float_as_uint(x); }
__device__ inline float float_of(unsigned bits) { return __uint_as_float(bits); }
)";

constexpr std::string_view kCudaTail =
    R"(__device__ inline long first_place(const long* x, const long* order, long n, long value) {
  long low = 0, high = n;
  while (low < high) {
    const long middle = low + (high - low) / 2;
    if (x[order[middle]] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
__device__ inline long segment_of(const long* ends, long n, long i) {
  long low = 0, high = n;
  while (low < high) {
    const long middle = low + (high - low) / 2;
    if (ends[middle] <= i) low = middle + 1;
    else high = middle;
  }
  return low;
}
template <class T> __device__ inline void merge_element(const T* x, const long* from, long* to, long n, long width, long t) {
  const long start = t / width / 2 * 2 * width;
  const long middle = start + width < n ? start + width : n;
  const long end = middle + width < n ? middle + width : n;
  const long me = from[t];
  const T value = x[me];
  const bool first = t < middle;
  long low = first ? middle : start, high = first ? end : middle;
  const long begin = low;
  while (low < high) {
    const long at = low + (high - low) / 2;
    const T other = x[from[at]];
    if (first ? sorts_before(other, value) : !sorts_before(value, other)) low = at + 1;
    else high = at;
  }
  to[first ? t + (low - begin) : start + (t - middle) + (low - begin)] = me;
}
template <class T> __device__ inline void merge_step(const T* x, const long* from, long* to, long n, long width) {
  for (long t = (long)blockIdx.x * 256 + threadIdx.x; t < n; t += (long)gridDim.x * 256)
    merge_element(x, from, to, n, width, t);
}
template <class T> __device__ inline void merge_rows(const T* x, const long* from, long* to, long all, long n, long width) {
  for (long t = (long)blockIdx.x * 256 + threadIdx.x; t < all; t += (long)gridDim.x * 256) {
    const long row = t / n * n;
    merge_element(x + row, from + row, to + row, n, width, t - row);
  }
}
}
)";

/// Returns `text` with `by` before every "inline".
std::string qualified(std::string_view text, std::string_view by) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto found = std::min(text.find("inline ", at), text.size());
    out += text.substr(at, found - at);
    at = found;
    if (at == text.size()) break;
    out += by;
    out += "inline ";
    at += 7;
  }
  return out;
}

/// Returns `text` for each function, for float and double. {f} is the function's name, {p} its
/// parameters, {x} their names, {t} the type, {s} the library's suffix for the type.
std::string for_functions(std::string_view text, bool with_exp) {
  std::string out;
  const auto add = [&](std::string_view name, std::string_view names, std::string_view parameters) {
    for (const auto& [type, end] : {std::pair{"float", "f"}, {"double", ""}})
      out += fmt::format(fmt::runtime(text), fmt::arg("f", name), fmt::arg("x", names),
                         fmt::arg("s", end), fmt::arg("t", type),
                         fmt::arg("p", fmt::format(fmt::runtime(parameters), fmt::arg("t", type))));
  };
  for (const std::string_view name : kOfOne)
    if (with_exp || name != "exp") add(name, "x", "{t} x");
  for (const std::string_view name : kOfTwo) add(name, "x, y", "{t} x, {t} y");
  return out;
}

std::string host_prelude() {
  return fmt::format(
      "// lockstep kernels, format 2\nextern \"C\" {{\n{}}}\nnamespace {{\n{}{}{}{}{}{}{}{}{}",
      for_functions("__attribute__((simd(\"notinbranch\"))) {t} {f}{s}({p}) noexcept;\n", true),
      kHostExp, for_functions("inline {t} {f}_({p}) {{ return {f}{s}({x}); }}\n", false), kHostBits,
      kShared, kHalf, sums_prelude(), scans_prelude(), host_sums_prelude(), kHostTail);
}

std::string cuda_prelude() {
  return fmt::format(
      "{}namespace {{\n{}{}{}{}{}{}{}{}", kCudaHead,
      for_functions("__device__ inline {t} {f}_({p}) {{ return {f}{s}({x}); }}\n", true), kCudaBits,
      qualified(kShared, "__device__ "), qualified(kHalf, "__device__ "),
      qualified(sums_prelude(), "__device__ "), qualified(scans_prelude(), "__device__ "),
      qualified(cuda_sums_prelude(), "__device__ "), kCudaTail);
}

/// A part of a prelude: the declaration of a name, or, without a name, text that every unit needs.
struct Part {
  std::string_view name;
  std::string_view text;
};

bool is_of_word(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

void each_word(std::string_view text, const std::function<void(std::string_view)>& tell) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_of_word(text[end])) ++end;
    if (end > at) tell(text.substr(at, end - at));
    at = end + 1;
  }
}

/// Returns the name declared by a declaration's first line: the word before parameters or members.
std::string_view declared_in(std::string_view line) {
  constexpr std::string_view kDefine = "#define ", kSimd = "__attribute__((simd(\"notinbranch\")))";
  if (line.starts_with(kDefine)) {
    line.remove_prefix(kDefine.size());
    return line.substr(0, line.find_first_of(" ("));
  }
  if (line.starts_with(kSimd))
    line.remove_prefix(kSimd.size());
  else if (!line.starts_with("inline ") && !line.starts_with("template ") &&
           !line.starts_with("__device__ "))
    return {};
  std::string_view before = line.substr(0, line.find_first_of("({"));
  while (before.ends_with(' ')) before.remove_suffix(1);
  return before.substr(before.rfind(' ') + 1);
}

/// Splits the prelude. A declaration ends with its first line, or with the line "}" or "};".
std::vector<Part> parts_of(std::string_view prelude) {
  std::vector<Part> out;
  const auto line_at = [&](std::size_t at) {
    return prelude.substr(at, prelude.find('\n', at) + 1 - at);
  };
  for (std::size_t at = 0; at < prelude.size();) {
    const std::string_view first = line_at(at);
    const std::string_view name = declared_in(first);
    std::size_t end = at + first.size();
    if (!name.empty() && first.ends_with("{\n"))
      while (!prelude.substr(0, end).ends_with("\n}\n") &&
             !prelude.substr(0, end).ends_with("\n};\n"))
        end += line_at(end).size();
    out.push_back({name, prelude.substr(at, end - at)});
    at = end;
  }
  return out;
}

const std::vector<Part>& parts_of(Target target) {
  static const std::vector<Part> host = parts_of(kernel_prelude(Target::Host)),
                                 cuda = parts_of(kernel_prelude(Target::Cuda));
  return target == Target::Host ? host : cuda;
}

}  // namespace

const std::string& kernel_prelude(Target target) {
  static const std::string host = host_prelude(), cuda = cuda_prelude();
  return target == Target::Host ? host : cuda;
}

std::string unit_text(Target target, std::string_view kernels) {
  std::set<std::string_view> used;
  const auto use = [&](std::string_view text) {
    each_word(text, [&](std::string_view word) { used.insert(word); });
  };
  use(kernels);
  // Goes backwards, because a declaration uses only declarations before it.
  std::vector<std::string_view> kept;
  for (const Part& part : parts_of(target) | std::views::reverse) {
    if (!part.name.empty() && !used.contains(part.name)) continue;
    if (!part.name.empty()) use(part.text);
    kept.push_back(part.text);
  }
  std::string out;
  for (const std::string_view text : kept | std::views::reverse) out += text;
  out += kernels;
  return out;
}

}  // namespace lockstep::worker
