#include <algorithm>
#include <functional>
#include <numeric>
#include <type_traits>

#include <lockstep/worker/compile/interpreter/interpret_order.h>
#include <lockstep/worker/compile/sums/scan_order.h>

namespace lockstep::worker {
namespace {

/// Sorts NaN last, which makes this a strict weak order.
template <class T>
bool comes_before(T a, T b) {
  return a < b || (a == a && b != b);
}

/// Calls f(x, out, n) for every row of the operand (elements T) and of the result (elements To).
template <class T, class To, class F>
Array row_by_row(const NodeCall& call, F f) {
  Array out(call.dtype(), call.sizes);
  const std::int64_t n = call.sizes.back();
  for (std::int64_t at = 0; at < out.elements(); at += n)
    f(call.operands[0]->data_as<T>() + at, out.data_as<To>() + at, n);
  return out;
}

/// Scans each row: ints by `join`, one after the other; floats by scan_row<State>.
template <class State, class Join>
Array scanned(const NodeCall& call, Join join) {
  return with_type(call.dtype(), [&]<class T>(std::type_identity<T>) {
    return row_by_row<T, T>(call, [&](const T* x, T* out, std::int64_t n) {
      if constexpr (std::is_floating_point_v<T>) {
        scan_row<State>(x, out, n);
      } else {
        T total = static_cast<T>(State().value());
        for (std::int64_t i = 0; i < n; ++i) out[i] = total = wrapping(total, x[i], join);
      }
    });
  });
}

template <class T>
void order_of(const T* x, std::int64_t* out, std::int64_t n) {
  std::iota(out, out + n, 0);
  std::stable_sort(out, out + n,
                   [x](std::int64_t a, std::int64_t b) { return comes_before(x[a], x[b]); });
}

template <class T>
void places_of_largest(const T* x, std::int64_t* out, std::int64_t n) {
  for (std::int64_t i = 0, best = 0; i < n; ++i) {
    if (x[i] >= x[best] || x[i] != x[i]) best = i;
    out[i] = best;
  }
}

template <class T>
std::int64_t place_in(const T* sorted, std::int64_t n, T value, bool right) {
  std::int64_t low = 0, high = n;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const bool behind =
        right ? !comes_before(value, sorted[middle]) : comes_before(sorted[middle], value);
    (behind ? low : high) = behind ? middle + 1 : middle;
  }
  return low;
}

}  // namespace

Result<Array> interpret_argsort(const NodeCall& call) {
  return with_type(call.operands[0]->dtype(), [&]<class T>(std::type_identity<T>) {
    return row_by_row<T, std::int64_t>(call, order_of<T>);
  });
}

Result<Array> interpret_cumsum(const NodeCall& call) { return scanned<ScanSum>(call, std::plus()); }

Result<Array> interpret_cumprod(const NodeCall& call) {
  return scanned<ScanProduct>(call, std::multiplies());
}

Result<Array> interpret_cum_argmax(const NodeCall& call) {
  return with_type(call.operands[0]->dtype(), [&]<class T>(std::type_identity<T>) {
    return row_by_row<T, std::int64_t>(call, places_of_largest<T>);
  });
}

Result<Array> interpret_logcumsumexp(const NodeCall& call) {
  return call.dtype() == DType::F32
             ? row_by_row<float, float>(call, scan_row<ScanLogSum<float>, float>)
             : row_by_row<double, double>(call, scan_row<ScanLogSum<double>, double>);
}

Result<Array> interpret_searchsorted(const NodeCall& call) {
  const Array &sorted = *call.operands[0], &values = *call.operands[1];
  Array out(DType::I64, call.sizes);
  const std::int64_t n = sorted.sizes().back(), m = call.sizes.back();
  with_type(values.dtype(), [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < out.elements(); ++i)
      out.data_as<std::int64_t>()[i] = place_in(sorted.data_as<T>() + i / m * n, n,
                                                values.data_as<T>()[i], call.node().ints[0] == 1);
  });
  return out;
}

}  // namespace lockstep::worker
