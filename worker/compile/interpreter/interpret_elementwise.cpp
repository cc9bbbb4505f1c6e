#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include <lockstep/worker/compile/interpreter/interpret.h>
#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/graph/op_map.h>
#include <lockstep/worker/tensor/graph/philox.h>

namespace lockstep::worker {
namespace {

template <class T>
T divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a / b;
  } else {
    if (b == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return wrapping(T(0), a, [](auto x, auto y) { return x - y; });
      return static_cast<T>(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
    }
    return static_cast<T>(a / b);
  }
}

template <class T>
T remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    const T product = wrapping(divide(a, b), b, [](auto x, auto y) { return x * y; });
    return wrapping(a, product, [](auto x, auto y) { return x - y; });
  }
}

/// Returns the quotient rounded down, computed from the remainder: 1 / 0.1 is 9.
template <class T>
T floor_divided(T a, T b) {
  if (b == T(0)) return a / b;
  const T rest = std::fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != T(0) && (rest < T(0)) != (b < T(0))) quotient -= T(1);
  if (quotient == T(0)) return std::copysign(T(0), a / b);
  const T below = std::floor(quotient);
  return quotient - below > T(0.5) ? below + T(1) : below;
}

/// Like C's %: the result has the sign of a.
template <class T>
T c_remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    if (b == T(0)) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T(0);
    return static_cast<T>(a % b);
  }
}

/// For ints, a negative power is cut to an integer, so it is 0 unless a is 1 or -1.
template <class T>
T power(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::pow(a, b);
  } else {
    T out(1);
    if (b < T(0)) {
      if (a == T(1)) return a;
      if (a != static_cast<T>(-1)) return T(0);
      return b % 2 == 0 ? T(1) : a;
    }
    T square = a;
    for (T left = b; left != T(0); left = static_cast<T>(left / 2)) {
      const auto times = [](auto x, auto y) { return x * y; };
      if (left % 2 != 0) out = wrapping(out, square, times);
      square = wrapping(square, square, times);
    }
    return out;
  }
}

/// Bit operation on ints. Also instantiated for floats, but never called with them.
template <class T, class F>
T by_bits(T a, T b, F f) {
  return static_cast<T>(f(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)));
}

/// A shift by less than 0, or by all bits or more, shifts everything out.
template <class T>
T shifted_left(T a, T b) {
  if (b < T(0) || static_cast<std::int64_t>(b) >= std::int64_t{8 * sizeof(T)}) return T(0);
  return static_cast<T>(static_cast<std::uint64_t>(a) << static_cast<std::uint64_t>(b));
}
template <class T>
T shifted_right(T a, T b) {
  const auto by = static_cast<std::int64_t>(b);
  const bool out = by < 0 || by >= std::int64_t{8 * sizeof(T)};
  if (out) return static_cast<T>(a < T(0) ? -1 : 0);
  return static_cast<T>(static_cast<std::int64_t>(a) >> by);
}

template <class T>
T negated(T x) {
  if constexpr (std::is_floating_point_v<T>) return -x;
  return wrapping(T(0), x, [](auto a, auto b) { return a - b; });
}

template <class T>
T absolute(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
  return x < T(0) ? negated(x) : x;
}

/// Float to int cuts off the fraction and converts to i64 (for i64 and u8) or i32: a value that
/// does not fit (or NaN) becomes the lowest number of that type. Then the low bits are kept.
template <class To, class From>
To cast(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<To>) {
    using Via = std::conditional_t<std::is_same_v<To, std::int64_t> || std::is_unsigned_v<To>,
                                   std::int64_t, std::int32_t>;
    constexpr Via lowest = std::numeric_limits<Via>::min();
    const bool fits = x >= From(lowest) && x < -From(lowest);
    return static_cast<To>(fits ? static_cast<Via>(x) : lowest);
  } else {
    return static_cast<To>(x);
  }
}

/// Rounds once, from any dtype.
void cast_to_half(const Array& from, Array& out) {
  auto* to = out.data_as<std::uint16_t>();
  if (is_half(from.dtype())) {
    for (std::int64_t i = 0; i < out.elements(); ++i) to[i] = half_bits(out.dtype(), from.at(i));
    return;
  }
  with_type(from.dtype(), [&]<class From>(std::type_identity<From>) {
    for (std::int64_t i = 0; i < out.elements(); ++i)
      to[i] = half_bits(out.dtype(), static_cast<long double>(from.data_as<From>()[i]));
  });
}

void cast_all(const NodeCall& call, Array& out) {
  const Array& from = *call.operands[0];
  if (is_half(out.dtype())) return cast_to_half(from, out);
  with_type(out.dtype(), [&]<class To>(std::type_identity<To>) {
    To* to = out.data_as<To>();
    if (is_half(from.dtype())) {
      for (std::int64_t i = 0; i < out.elements(); ++i) to[i] = cast<To>(from.at(i));
      return;
    }
    with_type(from.dtype(), [&]<class From>(std::type_identity<From>) {
      for (std::int64_t i = 0; i < out.elements(); ++i) to[i] = cast<To>(from.data_as<From>()[i]);
    });
  });
}

void choose(const NodeCall& call, Array& out) {
  const std::size_t width = dtype_size(out.dtype());
  const bool* condition = call.operands[0]->data_as<bool>();
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    const auto at = static_cast<std::size_t>(i) * width;
    const Array& from = *call.operands[condition[i] ? 1 : 2];
    std::memcpy(static_cast<std::byte*>(out.data()) + at,
                static_cast<const std::byte*>(from.data()) + at, width);
  }
}

using Loop = void (*)(const NodeCall& call, Array& out);

/// Applies `F` to each element. Instantiated for every dtype; called only with those that the op
/// takes.
template <class F>
constexpr Loop each_of_one(F) {
  return [](const NodeCall& call, Array& out) {
    with_type(call.operands[0]->dtype(), [&]<class T>(std::type_identity<T>) {
      const T* a = call.operands[0]->data_as<T>();
      for (std::int64_t i = 0; i < out.elements(); ++i)
        out.data_as<T>()[i] = static_cast<T>(F{}(a[i]));
    });
  };
}

/// Applies `F` to the elements of two operands of one dtype. The result has that dtype, or bool.
template <class F>
constexpr Loop each_of_two(F) {
  return [](const NodeCall& call, Array& out) {
    with_type(call.operands[0]->dtype(), [&]<class T>(std::type_identity<T>) {
      using To = decltype(F{}(T{}, T{}));
      const T* a = call.operands[0]->data_as<T>();
      const T* b = call.operands[1]->data_as<T>();
      for (std::int64_t i = 0; i < out.elements(); ++i) out.data_as<To>()[i] = F{}(a[i], b[i]);
    });
  };
}

void random_bits(const NodeCall& call, Array& out) {
  const auto* key = call.operands[0]->data_as<std::int64_t>();
  const auto* counter = call.operands[1]->data_as<std::int64_t>();
  const auto* stream = call.operands[2]->data_as<std::int64_t>();
  for (std::int64_t i = 0; i < out.elements(); ++i)
    out.data_as<std::int64_t>()[i] = philox(key[i], counter[i], stream[i]);
}

// clang-format off
constexpr OpMap<Loop> kElementwise(of_class<OpClass::Elementwise>, {
    {Op::Neg, each_of_one([](auto x) { return negated(x); })},
    {Op::Abs, each_of_one([](auto x) { return absolute(x); })},
    {Op::Exp, each_of_one([](auto x) { return std::exp(x); })},
    {Op::Log, each_of_one([](auto x) { return std::log(x); })},
    {Op::Sqrt, each_of_one([](auto x) { return std::sqrt(x); })},
    {Op::Rsqrt, each_of_one([](auto x) { return decltype(x)(1) / std::sqrt(x); })},
    {Op::Tanh, each_of_one([](auto x) { return std::tanh(x); })},
    {Op::Sigmoid, each_of_one([]<class T>(T x) { return T(1) / (T(1) + std::exp(-x)); })},
    {Op::Relu, each_of_one([]<class T>(T x) { return x < T(0) ? T(0) : x; })},
    {Op::Not, each_of_one([](auto x) { return !x; })},
    {Op::Cast, cast_all},
    {Op::Add, each_of_two([](auto a, auto b) { return wrapping(a, b, std::plus()); })},
    {Op::Sub, each_of_two([](auto a, auto b) { return wrapping(a, b, std::minus()); })},
    {Op::Mul, each_of_two([](auto a, auto b) { return wrapping(a, b, std::multiplies()); })},
    {Op::Div, each_of_two([](auto a, auto b) { return divide(a, b); })},
    {Op::Mod, each_of_two([](auto a, auto b) { return remainder(a, b); })},
    {Op::Maximum, each_of_two([](auto a, auto b) { return a > b || a != a ? a : b; })},
    {Op::Minimum, each_of_two([](auto a, auto b) { return a < b || a != a ? a : b; })},
    {Op::Lt, each_of_two([](auto a, auto b) { return a < b; })},
    {Op::Le, each_of_two([](auto a, auto b) { return a <= b; })},
    {Op::Gt, each_of_two([](auto a, auto b) { return a > b; })},
    {Op::Ge, each_of_two([](auto a, auto b) { return a >= b; })},
    {Op::Eq, each_of_two([](auto a, auto b) { return a == b; })},
    {Op::Ne, each_of_two([](auto a, auto b) { return a != b; })},
    {Op::And, each_of_two([](auto a, auto b) { return a != 0 && b != 0; })},
    {Op::Or, each_of_two([](auto a, auto b) { return a != 0 || b != 0; })},
    {Op::Where, choose},
    {Op::Exp2, each_of_one([](auto x) { return std::exp2(x); })},
    {Op::Log2, each_of_one([](auto x) { return std::log2(x); })},
    {Op::Log1p, each_of_one([](auto x) { return std::log1p(x); })},
    {Op::Expm1, each_of_one([](auto x) { return std::expm1(x); })},
    {Op::Sin, each_of_one([](auto x) { return std::sin(x); })},
    {Op::Cos, each_of_one([](auto x) { return std::cos(x); })},
    {Op::Tan, each_of_one([](auto x) { return std::tan(x); })},
    {Op::Erf, each_of_one([](auto x) { return std::erf(x); })},
    {Op::Floor, each_of_one([](auto x) { return std::floor(x); })},
    {Op::Ceil, each_of_one([](auto x) { return std::ceil(x); })},
    {Op::Round, each_of_one([](auto x) { return std::nearbyint(x); })},
    {Op::Trunc, each_of_one([](auto x) { return std::trunc(x); })},
    {Op::Pow, each_of_two([](auto a, auto b) { return power(a, b); })},
    {Op::Atan2, each_of_two([](auto a, auto b) { return std::atan2(a, b); })},
    {Op::Fmod, each_of_two([](auto a, auto b) { return c_remainder(a, b); })},
    {Op::FloorDivide, each_of_two([](auto a, auto b) { return floor_divided(a, b); })},
    {Op::BitAnd, each_of_two([](auto a, auto b) { return by_bits(a, b, std::bit_and()); })},
    {Op::BitOr, each_of_two([](auto a, auto b) { return by_bits(a, b, std::bit_or()); })},
    {Op::BitXor, each_of_two([](auto a, auto b) { return by_bits(a, b, std::bit_xor()); })},
    {Op::BitNot, each_of_one([](auto x) { return ~static_cast<std::int64_t>(x); })},
    {Op::ShiftLeft, each_of_two([](auto a, auto b) { return shifted_left(a, b); })},
    {Op::ShiftRight, each_of_two([](auto a, auto b) { return shifted_right(a, b); })},
    {Op::Philox, random_bits},
});
// clang-format on

void iota(const NodeCall& call, Array& out) {
  const auto dim = static_cast<std::size_t>(call.node().ints[0]);
  std::vector<std::int64_t> index(call.sizes.size(), 0);
  for (std::int64_t i = 0; i < out.elements(); ++i, advance(index, call.sizes))
    out.data_as<std::int64_t>()[i] = index[dim];
}

void full(const NodeCall& call, Array& out) {
  const double number = call.node().number;
  if (is_half(call.dtype())) {
    for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, number);
    return;
  }
  with_type(call.dtype(), [&]<class T>(std::type_identity<T>) {
    std::fill_n(out.data_as<T>(), out.elements(), cast<T>(number));
  });
}

void scalar(const NodeCall& call, Array& out) { out.data_as<std::int64_t>()[0] = call.exprs[0]; }

constexpr OpMap<Loop> kSources(of_class<OpClass::Source>, {{Op::Input, nullptr},
                                                           {Op::Scalar, scalar},
                                                           {Op::Full, full},
                                                           {Op::Iota, iota}});

}  // namespace

Array interpret_source(const NodeCall& call) {
  Array out(call.dtype(), call.sizes);
  kSources[call.node().op](call, out);
  return out;
}

Array interpret_elementwise(const NodeCall& call) {
  Array out(call.dtype(), call.sizes);
  kElementwise[call.node().op](call, out);
  return out;
}

}  // namespace lockstep::worker
