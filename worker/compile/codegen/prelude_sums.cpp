#include <lockstep/worker/compile/codegen/prelude_sums.h>

namespace lockstep::worker {
namespace {

// All targets: joins of rows (sums/join_order.h), and sums and products (sums/sum_order.h); `P` is
// true for products. Totals are in f64.
constexpr std::string_view kSums =
    R"(inline void add_compensated(double& total, double& lost, double x) {
  const double sum = total + x, mine = sum - total;
  lost += (total - (sum - mine)) + (x - mine);
  total = sum;
}
inline double compensated_total(double total, double lost) { return lost - lost == 0.0 ? total + lost : total; }
inline long row_terms(long n) { return (n / 16 * 16 + 1023) / 1024 + (n % 16 != 0 ? 1 : 0); }
struct Terms { double batch, kept[64]; long terms; int depth; };
template <bool P, class T> inline void join(T& a, const T& b) {
  if constexpr (P) a *= b;
  else a += b;
}
template <bool P> inline void start_terms(Terms& t) {
  t.batch = P ? 1 : 0;
  t.terms = t.depth = 0;
}
template <bool P> inline void add_term(Terms& t, double term) {
  join<P>(t.batch, term);
  if ((++t.terms & 31) != 0) return;
  for (long b = t.terms / 32 - 1; (b & 1) != 0; b >>= 1) join<P>(t.batch, t.kept[--t.depth]);
  t.kept[t.depth++] = t.batch;
  t.batch = P ? 1 : 0;
}
template <bool P> inline double total_of(Terms& t) {
  while (t.depth > 0) join<P>(t.batch, t.kept[--t.depth]);
  return t.batch;
}
template <bool P, class T, int N, class F> inline T few_of(long start, long apart, F value) {
  if constexpr (N == 1) {
    return value(start);
  } else {
    T total = few_of<P, T, N / 2>(start, apart, value);
    join<P>(total, few_of<P, T, N / 2>(start + N / 2 * apart, apart, value));
    return total;
  }
}
template <bool P, class T, class F> inline void add_column(Terms& t, long n, F value) {
  for (long k = 0; k + 8 <= n; k += 8) add_term<P>(t, (double)few_of<P, T, 8>(k, 1, value));
  if ((n & 4) != 0) add_term<P>(t, (double)few_of<P, T, 4>(n & ~7L, 1, value));
  if ((n & 2) != 0) add_term<P>(t, (double)few_of<P, T, 2>(n & ~3L, 1, value));
  if ((n & 1) != 0) add_term<P>(t, (double)few_of<P, T, 1>(n - 1, 1, value));
}
)";

// All targets: the state that a scan keeps from element to element, and the order of its joins
// (sums/scan_order.h). States have no constructors, so that kept[] costs nothing.
constexpr std::string_view kScans =
    R"(// A group behind what stands before it.
template <class S> struct ScanWithin {
  S before, group;
  inline static ScanWithin behind(const S& before) { return {before, S::first()}; }
  template <class T> inline void add(T x, long at) { group.add(x, at); }
  inline auto value() const {
    S all = before;
    all.join(group);
    return all.value();
  }
};
template <class T> struct ScanSum {
  using Within = ScanWithin<ScanSum>;
  T total;
  inline static ScanSum first() { return {0}; }
  inline void add(T x, long) { total = (T)(total + x); }
  inline void join(const ScanSum& next) { total = (T)(total + next.total); }
  inline T value() const { return total; }
};
template <class T> struct ScanProduct {
  using Within = ScanWithin<ScanProduct>;
  T total;
  inline static ScanProduct first() { return {1}; }
  inline void add(T x, long) { total = (T)(total * x); }
  inline void join(const ScanProduct& next) { total = (T)(total * next.total); }
  inline T value() const { return total; }
};
template <class T> struct ScanLargest {
  T best;
  long place;
  inline static ScanLargest first() { return {0, -1}; }
  inline void add(T x, long at) {
    if (place >= 0 && !(x >= best) && x == x) return;
    best = x;
    place = at;
  }
  inline void join(const ScanLargest& next) {
    if (next.place >= 0) add(next.best, next.place);
  }
  inline long value() const { return place; }
};
// A group of a logarithm of sums: how much each is shrunk changes with the largest of the group only.
template <class S, class T> struct ScanLogSumWithin {
  S before, group;
  T of, top;
  double shrunk, factor;
  inline static ScanLogSumWithin behind(const S& before) {
    const T none = (T)(__builtin_inf() - __builtin_inf());  // is no largest
    return {before, S::first(), none, none, 0, 0};
  }
  inline void add(T x, long at) { group.add(x, at); }
  inline T value() {
    if (of != group.most) {
      of = group.most;
      top = of > before.most ? of : before.most;
      shrunk = before.most == top ? before.sum : before.sum * (double)exp_(before.most - top);
      factor = of == top ? 1 : (double)exp_(of - top);
    }
    return top + log_((T)(shrunk + group.sum * factor));
  }
};
template <class T> struct ScanLogSum {
  using Within = ScanLogSumWithin<ScanLogSum, T>;
  T most;
  double sum;
  inline static ScanLogSum first() { return {(T)-__builtin_inf(), 0}; }
  inline void add(T x, long) { join({x, 1}); }
  inline void join(const ScanLogSum& next) {
    const T top = next.most > most ? next.most : most;
    sum = (most == top ? sum : sum * (double)exp_(most - top)) +
          (next.most == top ? next.sum : next.sum * (double)exp_(next.most - top));
    most = top;
  }
  inline T value() const { return most + log_((T)sum); }
};
template <class S> struct ScanBatches {
  S base, kept[64];
  long count;
  int depth;
  inline void start() {
    base = S::first();
    count = depth = 0;
  }
  inline void add(S batch) {
    for (long b = count++; (b & 1) != 0; b >>= 1) {
      S both = kept[--depth];
      both.join(batch);
      batch = both;
    }
    kept[depth++] = base = batch;
    for (int at = depth - 1; at-- > 0;) {
      S both = kept[at];
      both.join(base);
      base = both;
    }
  }
};
template <class S> struct ScanPrefix {
  ScanBatches<S> batches;
  S batch;
  long groups;
  inline void start() {
    batches.start();
    batch = S::first();
    groups = 0;
  }
  inline S now() const {
    S out = batches.base;
    out.join(batch);
    return out;
  }
  inline void add(const S& group) {
    batch.join(group);
    if ((++groups & 31) != 0) return;
    batches.add(batch);
    batch = S::first();
  }
};
)";

// CUDA: each term is made by its own threads. `pairwise_of` joins all batches, or only up to 32
// that begin at a multiple of 32; joining those results gives the same bits.
constexpr std::string_view kCudaSums =
    R"(template <bool P, class T, class F> inline double lane_of(long n, long term, long lane, F value) {
  const long whole = n / 16 * 16, start = term * 1024, end = start + 1024 < whole ? start + 1024 : whole;
  double total = P;
  if (start < whole) {
    long k = start + lane;
    for (; k + 48 < end; k += 64) join<P>(total, (double)few_of<P, T, 4>(k, 16, value));
    for (; k < end; k += 16) join<P>(total, (double)value(k));
  } else if (lane == 0) {
    for (long k = whole; k < n; ++k) join<P>(total, (double)value(k));
  }
  return total;
}
template <bool P, class T, class F> inline void add_row(Terms& t, long n, F value) {
  for (long term = 0; term < row_terms(n); ++term) {
    double lanes[16];
    for (int l = 0; l < 16; ++l) lanes[l] = lane_of<P, T>(n, term, l, value);
    for (int width = 8; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) join<P>(lanes[l], lanes[l + width]);
    add_term<P>(t, lanes[0]);
  }
}
inline long column_terms(long n) { return n / 8 + (n >> 2 & 1) + (n >> 1 & 1) + (n & 1); }
template <bool P, class T, class F> inline double column_of(long n, long term, F value) {
  if (term < n / 8) return (double)few_of<P, T, 8>(term * 8, 1, value);
  const long left = term - n / 8 - (n >> 2 & 1), at = left - (n >> 1 & 1);
  if (left < 0) return (double)few_of<P, T, 4>(n & ~7L, 1, value);
  if (at < 0) return (double)few_of<P, T, 2>(n & ~3L, 1, value);
  return (double)value(n - 1);
}
template <bool P> inline double batch_of(const double* x, long apart, long start, long count) {
  double total = P;
  for (long k = start; k < start + 32 && k < count; ++k) join<P>(total, x[k * apart]);
  return total;
}
template <bool P> inline double pairwise_of(const double* x, long apart, long start, long count, long most) {
  double kept[64];
  int depth = 0;
  const long end = count - start > most ? start + most : count;
  for (long k = start; k < end; ++k) {
    double done = x[k * apart];
    for (long b = k - start; (b & 1) != 0; b >>= 1) join<P>(done, kept[--depth]);
    kept[depth++] = done;
  }
  double total = P;
  while (depth > 0) join<P>(total, kept[--depth]);
  return total;
}
)";

// Host. A row has n elements value(i), whose terms are made sixteen elements at a time; compilers
// use vectors for them if the row is an array of its own. Columns, with elements value(k, j), are
// summed side by side: `p` holds each column's batches that wait to be joined, then the current
// batch.
constexpr std::string_view kHostSums =
    R"(typedef float f8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double d2 __attribute__((vector_size(16), aligned(8), may_alias));
typedef double d4 __attribute__((vector_size(32), aligned(8), may_alias));
struct Floats { f8 a, b; };
struct Doubles { d4 a, b, c, d; };
inline d4 low_of(const f8& x) { return __builtin_convertvector(__builtin_shufflevector(x, x, 0, 1, 2, 3), d4); }
inline d4 high_of(const f8& x) { return __builtin_convertvector(__builtin_shufflevector(x, x, 4, 5, 6, 7), d4); }
inline void take_lanes(Floats& lanes, const float* x) {
  lanes.a = *(const f8*)x;
  lanes.b = *(const f8*)(x + 8);
}
inline void take_lanes(Doubles& lanes, const double* x) {
  lanes.a = *(const d4*)x;
  lanes.b = *(const d4*)(x + 4);
  lanes.c = *(const d4*)(x + 8);
  lanes.d = *(const d4*)(x + 12);
}
template <bool P> inline void join_lanes(Floats& lanes, const Floats& x) {
  join<P>(lanes.a, x.a);
  join<P>(lanes.b, x.b);
}
template <bool P> inline void join_lanes(Doubles& lanes, const Floats& x) {
  join<P>(lanes.a, low_of(x.a));
  join<P>(lanes.b, high_of(x.a));
  join<P>(lanes.c, low_of(x.b));
  join<P>(lanes.d, high_of(x.b));
}
template <bool P> inline void join_lanes(Doubles& lanes, const Doubles& x) {
  join<P>(lanes.a, x.a);
  join<P>(lanes.b, x.b);
  join<P>(lanes.c, x.c);
  join<P>(lanes.d, x.d);
}
template <bool P> inline void start_lanes(Doubles& lanes) {
  const d4 first = {P, P, P, P};
  lanes.a = lanes.b = lanes.c = lanes.d = first;
}
template <bool P> inline double total_lanes(Doubles& lanes) {
  join<P>(lanes.a, lanes.c);
  join<P>(lanes.b, lanes.d);
  join<P>(lanes.a, lanes.b);
  d2 low = __builtin_shufflevector(lanes.a, lanes.a, 0, 1), high = __builtin_shufflevector(lanes.a, lanes.a, 2, 3);
  join<P>(low, high);
  double out = low[0];
  join<P>(out, (double)low[1]);
  return out;
}
inline Floats chains_of(float) { return Floats(); }
inline Doubles chains_of(double) { return Doubles(); }
template <class T, class L, class F> inline void fill_lanes(L& lanes, long at, F value) {
  T x[16];
#pragma omp simd
  for (long l = 0; l < 16; ++l) x[l] = value(at + l);
  take_lanes(lanes, x);
}
template <bool P, class T, class F> inline double block_of(long start, long end, F value) {
  Doubles lanes;
  start_lanes<P>(lanes);
  long at = start;
  for (; at + 64 <= end; at += 64) {
    auto a = chains_of(T()), b = a, c = a, d = a;
    fill_lanes<T>(a, at, value);
    fill_lanes<T>(b, at + 16, value);
    fill_lanes<T>(c, at + 32, value);
    fill_lanes<T>(d, at + 48, value);
    join_lanes<P>(a, b);
    join_lanes<P>(c, d);
    join_lanes<P>(a, c);
    join_lanes<P>(lanes, a);
  }
  for (; at < end; at += 16) {
    auto a = chains_of(T());
    fill_lanes<T>(a, at, value);
    join_lanes<P>(lanes, a);
  }
  return total_lanes<P>(lanes);
}
template <bool P, class T, class F> inline void add_row(Terms& t, long n, F value) {
  const long whole = n / 16 * 16;
  for (long at = 0; at < whole; at += 1024)
    add_term<P>(t, block_of<P, T>(at, at + 1024 < whole ? at + 1024 : whole, value));
  if (whole == n) return;
  double rest = P;
  for (long at = whole; at < n; ++at) join<P>(rest, (double)value(at));
  add_term<P>(t, rest);
}
template <bool P, class T, class F> inline double row_batch(long n, long batch, F value) {
  const long whole = n / 16 * 16, terms = row_terms(n);
  double total = P;
  for (long term = batch * 32; term < batch * 32 + 32 && term < terms; ++term) {
    const long at = term * 1024;
    if (at < whole) {
      join<P>(total, block_of<P, T>(at, at + 1024 < whole ? at + 1024 : whole, value));
      continue;
    }
    double rest = P;
    for (long k = whole; k < n; ++k) join<P>(rest, (double)value(k));
    join<P>(total, rest);
  }
  return total;
}
template <bool P> inline double total_of_batches(const double* batches, long n) {
  const long terms = row_terms(n), whole = terms / 32;
  Terms t;
  start_terms<P>(t);
  for (long batch = 0; batch < whole; ++batch) {
    t.batch = batches[batch];
    for (long b = batch; (b & 1) != 0; b >>= 1) join<P>(t.batch, t.kept[--t.depth]);
    t.kept[t.depth++] = t.batch;
  }
  t.batch = batches[whole];
  return total_of<P>(t);
}
struct Columns { double* p; long wide, terms, depth; };
template <bool P> inline void start_batch(Columns& c) {
  double* const batch = c.p + c.wide * c.depth;
#pragma omp simd
  for (long j = 0; j < c.wide; ++j) batch[j] = P;
}
template <bool P> inline void start_columns(Columns& c, double* p, long wide) {
  c.p = p;
  c.wide = wide;
  c.terms = c.depth = 0;
  start_batch<P>(c);
}
template <bool P> inline void join_batches(Columns& c) {
  const double* __restrict from = c.p + c.wide * c.depth;
  double* __restrict into = c.p + c.wide * --c.depth;
#pragma omp simd
  for (long j = 0; j < c.wide; ++j) join<P>(into[j], from[j]);
}
template <bool P> inline void total_columns(Columns& c) {
  while (c.depth > 0) join_batches<P>(c);
}
template <bool P, class T, int N, class F> inline void add_few(Columns& c, long k, F value) {
  double* const __restrict batch = c.p + c.wide * c.depth;
#pragma omp simd
  for (long j = 0; j < c.wide; ++j)
    join<P>(batch[j], (double)few_of<P, T, N>(k, 1, [&](long q) __attribute__((always_inline)) { return value(q, j); }));
  if ((++c.terms & 31) != 0) return;
  for (long b = c.terms / 32 - 1; (b & 1) != 0; b >>= 1) join_batches<P>(c);
  ++c.depth;
  start_batch<P>(c);
}
template <bool P, class T, class F> inline void add_columns(Columns& c, long n, F value) {
  for (long k = 0; k + 8 <= n; k += 8) add_few<P, T, 8>(c, k, value);
  if ((n & 4) != 0) add_few<P, T, 4>(c, n & ~7L, value);
  if ((n & 2) != 0) add_few<P, T, 2>(c, n & ~3L, value);
  if ((n & 1) != 0) add_few<P, T, 1>(c, n - 1, value);
}
)";

}  // namespace

std::string_view sums_prelude() { return kSums; }
std::string_view scans_prelude() { return kScans; }
std::string_view host_sums_prelude() { return kHostSums; }
std::string_view cuda_sums_prelude() { return kCudaSums; }

}  // namespace lockstep::worker
