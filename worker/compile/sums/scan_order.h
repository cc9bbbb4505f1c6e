// The order in which a scan of floats is computed (cumsum, cumprod, logcumsumexp): the same on
// every target, for any number of threads.
//
// Every kScanGroup consecutive elements of a row are a group and are joined one after another.
// Every kSumTerms consecutive groups are a batch; batches are joined pairwise. The value at an
// element is the join of all earlier groups and of its own group up to and including the element,
// rounded to the type of the result. Sums and products are in f64.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <lockstep/worker/compile/sums/sum_order.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {

inline constexpr std::int64_t kScanGroup = 32;

/// True if the bits of a node depend on the order of a scan.
[[nodiscard]] inline bool has_scan_order(const Node& node) {
  return is_scan(op_row(node.op)) && is_float(node.meta.dtype);
}

struct ScanSum {
  double total = 0;
  void add(double x) { total += x; }
  void join(const ScanSum& next) { total += next.total; }
  [[nodiscard]] double value() const { return total; }
};

struct ScanProduct {
  double total = 1;
  void add(double x) { total *= x; }
  void join(const ScanProduct& next) { total *= next.total; }
  [[nodiscard]] double value() const { return total; }
};

/// The logarithm of a sum of exponentials. Each exponent is an element minus the largest so far, so
/// that nothing overflows. A NaN makes the sum NaN and is never the largest.
template <class T>
struct ScanLogSum {
  T most = -std::numeric_limits<T>::infinity();
  double sum = 0;
  void add(T x) { join({x, 1}); }
  void join(const ScanLogSum& next) {
    const T top = next.most > most ? next.most : most;
    const auto shrunk = [top](T mine) { return static_cast<double>(std::exp(mine - top)); };
    sum = (most == top ? sum : sum * shrunk(most)) +
          (next.most == top ? next.sum : next.sum * shrunk(next.most));
    most = top;
  }
  [[nodiscard]] double value() const { return most + std::log(static_cast<T>(sum)); }
};

/// The join of all groups added so far.
template <class State>
class ScanPrefix {
 public:
  [[nodiscard]] State now() const { return joined(base_, batch_); }
  void add(const State& group) {
    batch_.join(group);
    if (++groups_ % kSumTerms != 0) return;
    for (std::int64_t batches = groups_ / kSumTerms - 1; batches % 2 == 1; batches /= 2)
      batch_ = joined(kept_[--depth_], batch_);
    kept_[depth_++] = base_ = batch_;
    for (std::size_t at = depth_ - 1; at-- > 0;) base_ = joined(kept_[at], base_);
    batch_ = State();
  }

 private:
  static State joined(State a, const State& b) {
    a.join(b);
    return a;
  }
  State base_, batch_;
  std::array<State, 64> kept_{};
  std::size_t depth_ = 0;
  std::int64_t groups_ = 0;
};

/// Scans a row of n elements.
template <class State, class T>
void scan_row(const T* x, T* out, std::int64_t n) {
  ScanPrefix<State> prefix;
  for (std::int64_t start = 0; start < n; start += kScanGroup) {
    State group;
    for (std::int64_t i = start; i < n && i < start + kScanGroup; ++i) {
      group.add(x[i]);
      State all = prefix.now();
      all.join(group);
      out[i] = static_cast<T>(all.value());
    }
    prefix.add(group);
  }
}

}  // namespace lockstep::worker
