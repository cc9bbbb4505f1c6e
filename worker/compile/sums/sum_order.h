// The order in which a sum or a product of floats is computed: the same on every target, so that
// its bits depend only on the elements.
//
// The elements of a run (SumRun) become terms. In a run over the last dims ("rows"), the whole
// groups of kSumLanes elements go first, in blocks of kSumBlock. Each lane joins kSumFours of its
// elements pairwise in their own type (a remainder one by one) and adds the results up in f64. Then
// one half of the lanes is joined with the other, until one lane is left, which is the block's
// term. The rest of the run is one term, added up in f64. In any other run ("columns"), a term is
// kSumFew elements joined pairwise in their own type; elements left over make terms of four, two
// and one. Every kSumTerms consecutive terms are joined one after another in f64 to a batch;
// batches are joined pairwise. Everything is rounded to the type of the result once, at the end. So
// a sum of equal f32 numbers is rounded once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

inline constexpr std::int64_t kSumLanes = 16, kSumFours = 4, kSumBlock = 1024, kSumFew = 8,
                              kSumTerms = 32;

/// True for a sum or a product of floats.
[[nodiscard]] bool has_sum_order(const Node& node);

/// The run of a reduction: the innermost range [first, last) of its operand's dims that are all
/// reduced. Sizes do not matter, so a program for any sizes gives the same bits as one for fixed
/// sizes. The runs that are added to one total follow each other in row-major order of the other
/// reduced dims.
struct SumRun {
  std::size_t first = 0, last = 0;
  bool rows = true;  // the run reaches the last dim
};
[[nodiscard]] SumRun sum_run(std::size_t dims, std::span<const std::int64_t> reduced);

/// Joins terms in their order by Join::add(double& total, double term), starting with
/// Join::first<double>.
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

/// Joins `few` elements value(k) pairwise in their own type: k = start, start + apart, ...
template <class Join, class T, class Value>
T pairwise(std::int64_t start, std::int64_t few, std::int64_t apart, const Value& value) {
  if (few == 1) return value(start);
  T total = pairwise<Join, T>(start, few / 2, apart, value);
  Join::add(total, pairwise<Join, T>(start + few / 2 * apart, few / 2, apart, value));
  return total;
}

/// Adds the terms of a run of columns, whose n elements are value(k).
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
