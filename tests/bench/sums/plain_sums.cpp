#include "plain_sums.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace lockstep::bench::plain {

template <class T>
void sum_rows(const T* __restrict x, T* __restrict out, I rows, I n, bool squares) {
  for (I r = 0; r < rows; ++r) {
    T total = 0;
    if (squares) {
#pragma omp simd reduction(+ : total)
      for (I i = 0; i < n; ++i) total += x[r * n + i] * x[r * n + i];
    } else {
#pragma omp simd reduction(+ : total)
      for (I i = 0; i < n; ++i) total += x[r * n + i];
    }
    out[r] = total;
  }
}

template <class T>
void sum_columns(const T* __restrict x, T* __restrict out, I rows, I n) {
  std::memset(out, 0, static_cast<std::size_t>(n) * sizeof(T));
  for (I r = 0; r < rows; ++r) {
#pragma omp simd
    for (I i = 0; i < n; ++i) out[i] += x[r * n + i];
  }
}

template <class T>
void cumsum(const T* __restrict x, T* __restrict out, I rows, I n) {
  for (I r = 0; r < rows; ++r) {
    T total = 0;
    for (I i = 0; i < n; ++i) out[r * n + i] = total += x[r * n + i];
  }
}

template <class T>
void logcumsumexp(const T* __restrict x, T* __restrict out, I rows, I n) {
  for (I r = 0; r < rows; ++r) {
    T most = -std::numeric_limits<T>::infinity(), sum = 0;
    for (I i = 0; i < n; ++i) {
      const T now = x[r * n + i], top = now > most ? now : most;
      sum = (most == top ? sum : sum * std::exp(most - top)) +
            (now == top ? T(1) : std::exp(now - top));
      most = top;
      out[r * n + i] = most + std::log(sum);
    }
  }
}

template <class T>
void index_add(const I* __restrict index, const T* __restrict x, T* __restrict out, I rows, I n,
               I count) {
  std::memset(out, 0, static_cast<std::size_t>(count * n) * sizeof(T));
  for (I r = 0; r < rows; ++r) {
    T* const to = out + index[r] * n;
#pragma omp simd
    for (I i = 0; i < n; ++i) to[i] += x[r * n + i];
  }
}

template void sum_rows(const float*, float*, I, I, bool);
template void sum_rows(const double*, double*, I, I, bool);
template void sum_columns(const float*, float*, I, I);
template void sum_columns(const double*, double*, I, I);
template void cumsum(const float*, float*, I, I);
template void cumsum(const double*, double*, I, I);
template void logcumsumexp(const float*, float*, I, I);
template void logcumsumexp(const double*, double*, I, I);
template void index_add(const I*, const float*, float*, I, I, I);
template void index_add(const I*, const double*, double*, I, I, I);

}  // namespace lockstep::bench::plain
