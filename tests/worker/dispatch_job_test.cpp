// Rows to experts of a fixed capacity on real ranks: the numbers of the plain way, in which counts
// are read back; and a count beyond its bound on one rank ends the call for all.
#include <random>

#include "job_ranks.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/bounded/dispatch.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::dispatch_job_test {
namespace {

struct Routed {
  Tensor w, x, expert;  // w [2, 2] of this rank's two experts, x [R, 2], expert [R]
  template <class V>
  void fields(V& v) {
    v("expert", expert), v("w", w), v("x", x);
  }
};

struct Answer {
  Tensor counts, gw, gx, y;
  template <class V>
  void fields(V& v) {
    v("counts", counts), v("gw", gw), v("gx", gx), v("y", y);
  }
};

class DispatchJob : public JobRanks {
 protected:
  Answer bounded(const Routed& in, std::int64_t room) const {
    const Dispatched sent = dispatch(in.x, in.expert, 2 * size, at_most(room));
    const Received here = send_to_owners(sent);
    const Tensor made = tanh(here.rows * unsqueeze(in.w, 1));
    const Tensor y = combine(send_back(made), sent.place);
    const std::vector<Tensor> back = grad(sum(y * y), {in.w, in.x});
    return {here.counts, back[0], back[1], y};
  }
  /// By counts that are exchanged and read back.
  Answer counted(const Routed& in) const {
    const Tensor order = argsort(in.expert), mine = bincount(in.expert, 2 * size);
    const Tensor theirs = all_to_all_single(mine);
    const auto by_rank = [&](const Tensor& counts) {
      return tolist(sum(reshape(counts, {size, 2}), {1}), Values::NonNegative);
    };
    const Sizes there = by_rank(mine), here = by_rank(theirs);
    const Tensor rows = all_to_all_single(index_select(in.x, order), here, there);
    const Tensor expert = repeat_interleave(arange(theirs.size(0)) % 2, theirs, 0);
    const Tensor made = tanh(rows * index_select(in.w, expert));
    const Tensor sorted = all_to_all_single(made, there, here);
    const Tensor y = index_add(in.x.size(0), order, sorted);
    const std::vector<Tensor> back = grad(sum(y * y), {in.w, in.x});
    return {transpose(reshape(theirs, {size, 2}), 0, 1), back[0], back[1], y};
  }
  /// Another number of rows on every rank and in every step, none of an expert beyond 6.
  Routed routed(std::int64_t step) const {
    std::mt19937_64 random(static_cast<std::uint64_t>(100 * step + rank));
    const std::int64_t rows = (step * 3 + rank * 5) % 7;
    std::vector<std::int64_t> experts;
    for (std::int64_t r = 0; r < rows; ++r)
      experts.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * size)));
    const auto numbers = [&](std::int64_t n) {
      Array out(DType::F64, {n, 2});
      for (std::int64_t i = 0; i < 2 * n; ++i)
        out.set(i, static_cast<double>(random() % 1000) / 500 - 1);
      return out;
    };
    return {numbers(2), numbers(rows), integers(experts)};
  }
  static void expect_equal(const Tensor& a, const Tensor& b) {
    ASSERT_EQ(a.array().sizes(), b.array().sizes());
    for (std::int64_t i = 0; i < a.array().elements(); ++i)
      EXPECT_NEAR(a.array().at(i), b.array().at(i), 1e-12) << i;
  }
};

TEST_F(DispatchJob, GivesWhatTheCountedWayGives) {
  auto fixed = job->frame<Routed, Answer>("fixed", [&](Routed in) { return bounded(in, 6); });
  auto plain = job->frame<Routed, Answer>("plain", [&](Routed in) { return counted(in); });
  int compiles = 0;
  for (std::int64_t step = 0; step < 8; ++step) {
    const auto a = fixed(routed(step)), b = plain(routed(step));
    ASSERT_TRUE(a) << a.error().text();
    ASSERT_TRUE(b) << b.error().text();
    compiles += fixed.last_compiled();
    expect_equal(a->y, b->y);
    expect_equal(a->counts, b->counts);
    expect_equal(a->gx, b->gx);
    expect_equal(a->gw, b->gw);
  }
  EXPECT_LE(compiles, 2);
  EXPECT_TRUE(finish());
}

TEST_F(DispatchJob, BeyondTheCapacity_RowsAreDroppedAndCountedSo) {
  auto step = job->frame<Routed, Answer>("step", [&](Routed in) { return bounded(in, 1); });
  // Every row to expert 0, of which every rank sends one.
  Routed in{filled({2, 2}, 1), filled({3, 2}, 0.5), integers({0, 0, 0})};
  const auto out = step(in);
  ASSERT_TRUE(out) << out.error().text();
  for (std::int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(out->y.array().at(i), i < 2 ? std::tanh(0.5) : 0.0) << i;
  for (std::int64_t i = 0; i < 2 * size; ++i)
    EXPECT_EQ(out->counts.array().at(i), rank == 0 && i < size ? 1 : 0) << i;
  EXPECT_TRUE(finish());
}

/// Two experts on each rank of a half of the ranks.
TEST_F(DispatchJob, WithinAGroup_RowsStayThere) {
  const int half_size = std::max(1, size / 2), first = rank / half_size * half_size;
  const bool in_one = first < 2 * half_size;  // with an odd number the last rank is in neither
  const auto half =
      job->group("half", in_one ? RankSet::range({first}, {first + half_size - 1}) : RankSet{});
  ASSERT_TRUE(half) << half.error().text();
  auto step = job->frame<Routed, Answer>("step", {.group = *half}, [&](Routed in) {
    const Dispatched sent = dispatch(in.x, in.expert, 2 * half_size, at_most(4));
    const Received here = send_to_owners(sent, *half);
    const Tensor made = here.rows * unsqueeze(in.w, 1);
    const Tensor y = combine(send_back(made, *half), sent.place);
    const std::vector<Tensor> back = grad(sum(y), {in.w, in.x});
    return Answer{here.counts, back[0], back[1], y};
  });
  for (int call = 0; in_one && call < 3; ++call) {
    // Row r of a rank goes to expert (rank + r + call) of its half; expert e multiplies by 10 + e.
    const auto to = [&](int from, int row) { return (from + row + call) % (2 * half_size); };
    std::vector<std::int64_t> experts;
    for (int row = 0; row < 3; ++row) experts.push_back(to(rank - first, row));
    Array w(DType::F64, {2, 2});
    for (std::int64_t i = 0; i < 4; ++i)
      w.set(i, 10.0 + static_cast<double>(2 * (rank - first) + i / 2));
    const auto out = step({w, filled({3, 2}, 1 + rank), integers(experts)});
    ASSERT_TRUE(out) << out.error().text();
    for (int row = 0; row < 3; ++row)
      for (int c = 0; c < 2; ++c) {
        EXPECT_EQ(out->y.array().at(2 * row + c), (1.0 + rank) * (10 + to(rank - first, row)));
        EXPECT_EQ(out->gx.array().at(2 * row + c), 10 + to(rank - first, row));
      }
    for (int e = 0; e < 2; ++e) {
      double sum = 0;
      for (int from = 0; from < half_size; ++from) {
        int count = 0;
        for (int row = 0; row < 3; ++row) count += to(from, row) == 2 * (rank - first) + e;
        EXPECT_EQ(out->counts.array().at(e * half_size + from), count);
        sum += count * (1.0 + first + from);
      }
      EXPECT_EQ(out->gw.array().at(2 * e), sum);
    }
  }
  EXPECT_TRUE(finish());
}

TEST_F(DispatchJob, ExpertsThatRanksCannotShareEqually_AreRefused) {
  if (size == 1) return;
  auto step = job->frame<Routed, Y>("step", [&](Routed in) {
    return Y{send_to_owners(dispatch(in.x, in.expert, 2 * size + 1, at_most(4))).rows};
  });
  const auto out = step(routed(1));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code, Code::TraceError) << out.error().text();
  EXPECT_TRUE(contains(out.error().text(), "dispatch_job_test.cpp:")) << out.error().text();
  expect_joint(out.error());
}

/// The capacity as an input, and as a number of the program.
TEST_F(DispatchJob, CapacitiesThatDiffer_AreOneErrorOfAllRanks) {
  if (size == 1) return;
  const auto sent = [&](const Routed& in, const SymInt& room) {
    return Y{send_to_owners(dispatch(in.x, in.expert, 2 * size, at_most(room))).rows};
  };
  auto step = job->frame<Routed, Y>("sized", [&](Routed in) { return sent(in, in.w.size(0)); });
  const auto call = [&](std::int64_t room) {
    return step({filled({room, 2}, 1), filled({3, 2}, 1), integers({0, 1, 0})});
  };
  for (const std::int64_t room : {4, 5, 6}) ASSERT_TRUE(call(room));
  const auto sized = call(last ? 7 : 6);
  ASSERT_FALSE(sized);
  EXPECT_EQ(sized.error().code, Code::ConstraintViolation) << sized.error().text();
  EXPECT_TRUE(contains(sized.error().text(), "dispatch_job_test.cpp:")) << sized.error().text();
  expect_joint(sized.error());
  EXPECT_TRUE(call(6));
  auto numbered =
      job->frame<Routed, Y>("numbered", [&](Routed in) { return sent(in, last ? 5 : 4); });
  const auto number = numbered(routed(1));
  ASSERT_FALSE(number);
  EXPECT_EQ(number.error().code, Code::GraphDivergence) << number.error().text();
  expect_joint(number.error());
}

TEST_F(DispatchJob, ACountBeyondItsBoundOnOneRank_EndsTheCallForAll) {
  auto step = job->frame<X, Y>("step", [](X in) {
    return Y{all_reduce(sum(masked_select(in.x, in.x > 0.0, at_most(2)).values))};
  });
  const auto fine = step({filled({2}, 1)});
  ASSERT_TRUE(fine) << fine.error().text();
  EXPECT_EQ(only(fine->y), 2 * size);
  const auto bad = step({filled({rank == size - 1 ? 5 : 2}, 1)});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::RuntimeAssert) << bad.error().text();
  EXPECT_TRUE(contains(bad.error().text(), "found 5, but at_most(2) was declared"))
      << bad.error().text();
  EXPECT_TRUE(contains(bad.error().text(), "dispatch_job_test.cpp:")) << bad.error().text();
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::dispatch_job_test
