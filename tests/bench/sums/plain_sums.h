// Sums, scans and joins of rows as a loop in their own type says them: what a compiler makes of it
// with the flags of kernels.
#pragma once

#include <cstdint>

namespace lockstep::bench::plain {

using I = std::int64_t;

/// Of each of `rows` rows of n elements; `squares`: of what is made on the way.
template <class T>
void sum_rows(const T* x, T* out, I rows, I n, bool squares);
/// Of each of n columns of `rows` elements.
template <class T>
void sum_columns(const T* x, T* out, I rows, I n);
template <class T>
void cumsum(const T* x, T* out, I rows, I n);
template <class T>
void logcumsumexp(const T* x, T* out, I rows, I n);
/// Rows of n elements into `count`.
template <class T>
void index_add(const I* index, const T* x, T* out, I rows, I n, I count);

}  // namespace lockstep::bench::plain
