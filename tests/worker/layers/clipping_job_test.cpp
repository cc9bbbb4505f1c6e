// Gradients clipped over a part of the job's ranks: with four ranks two groups of two, each of
// which holds shares of parameters of its own, beside a loop over the shares of the group.
#include <algorithm>
#include <cmath>

#include "job_ranks.h"

#include <lockstep/worker/tensor/layers/clipping.h>

namespace lockstep::worker::clipping_job_test {
namespace {

using I = std::int64_t;
constexpr double kMost = 1.5;

struct Shares {
  Tensor matrix, vector;
  template <class V>
  void fields(V& v) {
    v("matrix", matrix), v("vector", vector);
  }
};
struct Cut {
  Shares grads;
  Tensor norm;
  template <class V>
  void fields(V& v) {
    v("grads", grads), v("norm", norm);
  }
};

/// An element of the share of one rank, in a call: other numbers in every group.
double value_of(int rank, int call, I i) {
  return std::sin(static_cast<double>(i) * 1.3 + rank) * (rank + 1) / (call + 1);
}
Tensor share_of(int rank, int call, std::vector<I> sizes, I from) {
  Array out(DType::F64, std::move(sizes));
  for (I i = 0; i < out.elements(); ++i) out.set(i, value_of(rank, call, from + i));
  return Tensor(out);
}
/// Uneven: rank r has r + call rows, so the first rank has none at first.
Shares shares_of(int rank, int call) {
  const I rows = rank + call;
  return {share_of(rank, call, {rows, 3}, 0), share_of(rank, call, {2}, rows * 3)};
}
double squares(const Tensor& x) {
  double total = 0;
  for (I i = 0; i < x.array().elements(); ++i) total += x.array().at(i) * x.array().at(i);
  return total;
}

class ClippingJob : public JobRanks {
 protected:
  /// The norm of the shares of ranks first, .., first + count - 1.
  static double norm_of(int first, int count, int call) {
    double total = 0;
    for (int r = first; r < first + count; ++r) {
      const Shares shares = shares_of(r, call);
      total += squares(shares.matrix) + squares(shares.vector);
    }
    return std::sqrt(total);
  }
  void expect_cut(const Cut& cut, double norm, int call) const {
    EXPECT_NEAR(cut.norm.array().at(0), norm, 1e-12 * std::max(1.0, norm));
    const double part = std::min(1.0, kMost / (norm + 1e-6));
    const Shares given = shares_of(rank, call);
    for (const auto& [got, of] :
         {std::pair(cut.grads.matrix, given.matrix), std::pair(cut.grads.vector, given.vector)}) {
      ASSERT_EQ(got.array().sizes(), of.array().sizes());
      for (I i = 0; i < of.array().elements(); ++i)
        EXPECT_NEAR(got.array().at(i), of.array().at(i) * part, 1e-12);
    }
  }
};

TEST_F(ClippingJob, GroupsOfHalfTheRanks_EachHasTheNormOfItsOwnShares) {
  const int half = size % 2 == 0 ? size / 2 : size, first = rank / half * half;
  const Group group = job->group("shards", RankSet::range({first}, {first + half - 1})).value();
  auto step = job->frame<Shares, Cut>("step", [&](const Shares& grads) {
    const Clipped clipped = clip_grad_norm({grads.matrix, grads.vector}, kMost, group);
    return Cut{{clipped.grads[0], clipped.grads[1]}, clipped.norm};
  });
  for (const int call : {0, 1, 2, 9}) {
    const auto out = step(shares_of(rank, call));
    ASSERT_TRUE(out) << out.error().text();
    expect_cut(*out, norm_of(first, half, call), call);
  }
  EXPECT_TRUE(finish());
}

TEST_F(ClippingJob, FrameOfHalfTheRanks_ADefaultGroupIsTheFrames) {
  const int half = size % 2 == 0 ? size / 2 : size, first = rank / half * half;
  const Group group = job->group("shards", RankSet::range({first}, {first + half - 1})).value();
  auto step = job->frame<Shares, Cut>("step", {.group = group}, [&](const Shares& grads) {
    const Clipped clipped = clip_grad_norm({grads.matrix, grads.vector}, kMost, Group{});
    return Cut{{clipped.grads[0], clipped.grads[1]}, clipped.norm};
  });
  for (const int call : {0, 3}) {
    const auto out = step(shares_of(rank, call));
    ASSERT_TRUE(out) << out.error().text();
    expect_cut(*out, norm_of(first, half, call), call);
  }
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::clipping_job_test
