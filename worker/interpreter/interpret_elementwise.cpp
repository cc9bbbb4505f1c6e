#include <cmath>
#include <cstring>
#include <limits>

#include <lockstep/worker/graph/half.h>
#include <lockstep/worker/interpreter/interpret.h>

namespace lockstep::worker {
namespace {

/// Ints wrap: computed without sign, in 64 bits, and cut.
template <class T, class F>
T wrapping(T a, T b, F f) {
  if constexpr (std::is_floating_point_v<T>) {
    return f(a, b);
  } else {
    return static_cast<T>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
  }
}

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

template <class T>
T unary(Op op, T x) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      case Op::Exp:
        return std::exp(x);
      case Op::Log:
        return std::log(x);
      case Op::Sqrt:
        return std::sqrt(x);
      case Op::Rsqrt:
        return T(1) / std::sqrt(x);
      case Op::Tanh:
        return std::tanh(x);
      case Op::Sigmoid:
        return T(1) / (T(1) + std::exp(-x));
      case Op::Neg:
        return -x;
      case Op::Abs:
        return std::fabs(x);
      default:
        break;
    }
  }
  switch (op) {
    case Op::Neg:
      return wrapping(T(0), x, [](auto a, auto b) { return a - b; });
    case Op::Abs:
      return x < T(0) ? wrapping(T(0), x, [](auto a, auto b) { return a - b; }) : x;
    case Op::Not:
      return static_cast<T>(!x);
    default:
      return x < T(0) ? T(0) : x;  // Relu
  }
}

template <class T>
T arithmetic(Op op, T a, T b) {
  switch (op) {
    case Op::Add:
      return wrapping(a, b, [](auto x, auto y) { return x + y; });
    case Op::Sub:
      return wrapping(a, b, [](auto x, auto y) { return x - y; });
    case Op::Mul:
      return wrapping(a, b, [](auto x, auto y) { return x * y; });
    case Op::Div:
      return divide(a, b);
    case Op::Mod:
      return remainder(a, b);
    case Op::Maximum:
      return a > b || a != a ? a : b;
    default:
      return a < b || a != a ? a : b;  // Minimum
  }
}

template <class T>
bool relation(Op op, T a, T b) {
  switch (op) {
    case Op::Lt:
      return a < b;
    case Op::Le:
      return a <= b;
    case Op::Gt:
      return a > b;
    case Op::Ge:
      return a >= b;
    case Op::Eq:
      return a == b;
    case Op::Ne:
      return a != b;
    case Op::And:
      return a != T(0) && b != T(0);
    default:
      return a != T(0) || b != T(0);  // Or
  }
}

/// Float to int cuts the fraction off; what does not fit (and NaN) becomes the lowest int64, cut to
/// the target's width.
template <class To, class From>
To cast(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<To>) {
    const bool fits = x >= From(-9223372036854775808.0) && x < From(9223372036854775808.0);
    return static_cast<To>(fits ? static_cast<std::int64_t>(x)
                                : std::numeric_limits<std::int64_t>::min());
  } else {
    return static_cast<To>(x);
  }
}

/// One rounding, whatever it is cast from.
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

void cast_all(const Array& from, Array& out) {
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

template <class T>
void binary_loop(const NodeCall& call, Array& out) {
  const T* a = call.operands[0]->data_as<T>();
  const T* b = call.operands[1]->data_as<T>();
  const std::int64_t n = out.elements();
  const Op op = call.node().op;
  if (op >= Op::Lt && op <= Op::Or) {
    for (std::int64_t i = 0; i < n; ++i) out.data_as<bool>()[i] = relation(op, a[i], b[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out.data_as<T>()[i] = arithmetic(op, a[i], b[i]);
  }
}

template <class T>
void fill(const NodeCall& call, Array& out) {
  T* to = out.data_as<T>();
  const Node& node = call.node();
  const std::int64_t n = out.elements();
  if (node.op == Op::Full) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = cast<T>(node.number);
  } else if (node.op == Op::Scalar) {
    to[0] = static_cast<T>(call.exprs[0]);
  } else {
    std::vector<std::int64_t> index(call.sizes.size(), 0);
    for (std::int64_t i = 0; i < n; ++i, advance(index, call.sizes))
      to[i] = static_cast<T>(index[static_cast<std::size_t>(node.ints[0])]);
  }
}

}  // namespace

Array interpret_source(const NodeCall& call) {
  Array out(call.dtype(), call.sizes);
  if (is_half(call.dtype())) {
    for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, call.node().number);
    return out;
  }
  with_type(call.dtype(), [&]<class T>(std::type_identity<T>) { fill<T>(call, out); });
  return out;
}

Array interpret_elementwise(const NodeCall& call) {
  Array out(call.dtype(), call.sizes);
  const std::int64_t n = out.elements();
  const Array& first = *call.operands[0];
  switch (call.node().op) {
    case Op::Cast:
      cast_all(first, out);
      break;
    case Op::Where:
      choose(call, out);
      break;
    default:
      with_type(first.dtype(), [&]<class T>(std::type_identity<T>) {
        if (call.operands.size() == 2) return binary_loop<T>(call, out);
        for (std::int64_t i = 0; i < n; ++i)
          out.data_as<T>()[i] = unary(call.node().op, first.data_as<T>()[i]);
      });
  }
  return out;
}

}  // namespace lockstep::worker
