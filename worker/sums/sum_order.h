// The order in which a sum or a product of floats is made: the same on every target, so that its
// bits depend on the elements alone.
//
// Elements of a run become terms. Of a run whose dims are the last ones ("rows") as many whole
// groups of kSumLanes as there are go first, in blocks: each lane joins kSumFours of its elements
// pairwise in their own type, or takes those that are too few for that one by one, and adds them up
// in f64; the lanes are halved until one is left, which is the block's term. The rest of the run is
// one term, added in f64. Of another run ("columns") kSumFew elements, joined pairwise in their own
// type, are a term, and of those left over four, two and one, as there are. kSumTerms terms, one
// after another in f64, are a batch, and batches are joined pairwise. Everything is rounded to the
// type of the result once, at the end. So a sum of equal f32 numbers is rounded once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

inline constexpr std::int64_t kSumLanes = 16, kSumFours = 4, kSumBlock = 1024, kSumFew = 8,
                              kSumTerms = 32;

/// A sum or a product of floats.
[[nodiscard]] bool has_sum_order(const Node& node);

/// The run of a reduction: dims of its operand, from `first` up to `last`, all reduced and
/// neighbours; the innermost such. Sizes do not matter, so that a program for any sizes has the
/// bits of one for these. Outer runs come in row-major order.
struct SumRun {
  std::size_t first = 0, last = 0;
  bool rows = true;  // no dim that is kept lies further inside
};
[[nodiscard]] SumRun sum_run(std::size_t dims, std::span<const std::int64_t> reduced);

/// Terms in order: Join::add(double& total, double term), from Join::first<double> on.
template <class Join>
class SumOfTerms {
 public:
  void add(double term) {
    Join::add(batch_, term);
    if (++terms_ % kSumTerms != 0) return;
    for (std::int64_t batches = terms_ / kSumTerms - 1; batches % 2 == 1; batches /= 2)
      batch_ = joined(kept_[--depth_], batch_);
    kept_[depth_++] = batch_;
    batch_ = Join::template first<double>;
  }
  [[nodiscard]] double total() const {
    double out = batch_;
    for (std::size_t at = depth_; at-- > 0;) out = joined(kept_[at], out);
    return out;
  }

 private:
  static double joined(double a, double b) {
    Join::add(a, b);
    return a;
  }
  double batch_ = Join::template first<double>;
  std::array<double, 64> kept_{};
  std::size_t depth_ = 0;
  std::int64_t terms_ = 0;
};

/// value(k) of `few` elements from `start` on, `apart` places apart, joined pairwise in their own
/// type.
template <class Join, class T, class Value>
T pairwise(std::int64_t start, std::int64_t few, std::int64_t apart, const Value& value) {
  if (few == 1) return value(start);
  T total = pairwise<Join, T>(start, few / 2, apart, value);
  Join::add(total, pairwise<Join, T>(start + few / 2 * apart, few / 2, apart, value));
  return total;
}

/// The terms of a run of columns: value(k) of n elements.
template <class Join, class T, class Value>
void add_column(SumOfTerms<Join>& terms, std::int64_t n, const Value& value) {
  std::int64_t k = 0;
  for (std::int64_t few = kSumFew; few > 0; few /= 2)
    for (; k + few <= n; k += few)
      terms.add(static_cast<double>(pairwise<Join, T>(k, few, 1, value)));
}

/// A Join by addition.
struct SumJoin {
  template <class T>
  static constexpr T first = T(0);
  template <class T>
  static void add(T& total, T x) {
    total += x;
  }
};

}  // namespace lockstep::worker
