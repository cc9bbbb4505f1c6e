// Split lists that a program gives itself, on real ranks: what does not fit is one error for all
// ranks before any row moves, and the next call works.
#include <algorithm>

#include "job_ranks.h"
#include <fmt/format.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/language/collective_ops.h>

namespace lockstep::worker::splits_job_test {
namespace {

/// The rows of x go by these lists.
struct Given {
  Tensor in, out, x;
  template <class V>
  void fields(V& v) {
    v("in", in), v("out", out), v("x", x);
  }
};

struct Moved {
  Tensor y, g;
  template <class V>
  void fields(V& v) {
    v("g", g), v("y", y);
  }
};

/// There, and the gradient of the sum of squares back.
Moved moved(const Given& given, const Group& group) {
  const Tensor y = all_to_all_single(given.x, tolist(given.out, Values::NonNegative),
                                     tolist(given.in, Values::NonNegative), group);
  return {y, grad(sum(y * y), {given.x})[0]};
}

class SplitsJob : public JobRanks {
 protected:
  using List = std::vector<std::int64_t>;
  [[nodiscard]] static std::int64_t rows(int from, int to) { return 1 + (from + 2 * to) % 3; }

  /// Between the ranks [first, first + ranks).
  [[nodiscard]] List sent(int first, int ranks) const {
    List list;
    for (int p = first; p < first + ranks; ++p) list.push_back(rows(rank, p));
    return list;
  }
  [[nodiscard]] List expected(int first, int ranks) const {
    List list;
    for (int p = first; p < first + ranks; ++p) list.push_back(rows(p, rank));
    return list;
  }
  [[nodiscard]] Result<Moved> call(CompiledFrame<Given, Moved>& step, const List& in,
                                   const List& out) const {
    std::int64_t all = 0;
    for (const std::int64_t each : in) all += each;
    return step({integers(in), integers(out), filled({all, 2}, 1 + rank)});
  }
  void expect_right(CompiledFrame<Given, Moved>& step, int first, int ranks) const {
    const auto out = call(step, sent(first, ranks), expected(first, ranks));
    ASSERT_TRUE(out) << out.error().text();
    const Array y = out->y.array(), g = out->g.array();
    std::int64_t at = 0;
    for (int p = first; p < first + ranks; ++p)
      for (std::int64_t k = 0; k < 2 * rows(p, rank); ++k) EXPECT_EQ(y.at(at++), 1 + p);
    EXPECT_EQ(y.elements(), at);
    for (std::int64_t k = 0; k < g.elements(); ++k) EXPECT_EQ(g.at(k), 2 * (1 + rank));
  }
  /// All ranks of the frame hear it, in numbers of the job's ranks.
  static void expect_misfit(const Result<Moved>& result, int who, std::int64_t expects, int peer) {
    ASSERT_FALSE(result.has_value()) << "rows moved";
    const Status& error = result.error();
    EXPECT_EQ(error.code, Code::RuntimeAssert) << error.text();
    const std::int64_t sends = rows(peer, who);
    EXPECT_TRUE(
        contains(error.text(), fmt::format("rank {} expects {} row{} from rank {}, which sends {};",
                                           who, expects, expects == 1 ? "" : "s", peer, sends)))
        << error.text();
    EXPECT_TRUE(contains(error.text(), "splits_job_test.cpp:")) << error.text();
  }
  /// A call with this rank's list changed, between two that are right.
  void expect_refused(const List& out, int who, std::int64_t expects, int peer) {
    auto step = job->frame<Given, Moved>("step" + std::to_string(frames++),
                                         [](const Given& given) { return moved(given, {}); });
    expect_right(step, 0, size);
    const auto result = call(step, sent(0, size), out);
    expect_misfit(result, who, expects, peer);
    if (!result) expect_joint(result.error());
    expect_right(step, 0, size);
    EXPECT_TRUE(finish());
  }
  int frames = 0;
};

TEST_F(SplitsJob, MoreRowsThanThePeerSends_EveryRank) {
  List out = expected(0, size);
  out[0] += 2;
  expect_refused(out, 0, rows(0, 0) + 2, 0);
}

TEST_F(SplitsJob, FewerRowsThanThePeerSends_EveryRank) {
  List out = expected(0, size);
  out.back() -= 1;
  expect_refused(out, 0, rows(size - 1, 0) - 1, size - 1);
}

TEST_F(SplitsJob, OneRankOnly) {
  List out = expected(0, size);
  if (last) out[0] += 1000;
  expect_refused(out, size - 1, rows(0, size - 1) + 1000, 0);
}

TEST_F(SplitsJob, SameSumInAnotherOrder) {
  List out = expected(0, size);
  if (size == 1) return;  // one order only
  if (last) out[0] += 1, out.back() -= 1;
  expect_refused(out, size - 1, rows(0, size - 1) + 1, 0);
}

TEST_F(SplitsJob, FrameOfAPartOfTheRanks_NamesRanksOfTheJob) {
  const int first = std::max(0, size - 2), ranks = size - first;
  const RankSet pair = rank >= first ? RankSet::range({first}, {size - 1}) : RankSet{};
  const Group group = job->group("pair", pair).value();
  if (!group.empty()) {
    auto step = job->frame<Given, Moved>("step", {.group = group},
                                         [](const Given& given) { return moved(given, {}); });
    expect_right(step, first, ranks);
    List out = expected(first, ranks);
    if (last) out[0] += 2;
    expect_misfit(call(step, sent(first, ranks), out), size - 1, rows(first, size - 1) + 2, first);
    expect_right(step, first, ranks);
  }
  EXPECT_TRUE(finish());
}

TEST_F(SplitsJob, CollectiveOfAPartOfTheRanks_AllRanksOfTheFrameGetTheError) {
  const int half = size % 2 == 0 ? size / 2 : size, first = rank / half * half;
  const Group group = job->group("half", RankSet::range({first}, {first + half - 1})).value();
  auto step =
      job->frame<Given, Moved>("step", [&](const Given& given) { return moved(given, group); });
  expect_right(step, first, half);
  List out = expected(first, half);
  if (last) out[0] += 2;
  const auto result = call(step, sent(first, half), out);
  expect_misfit(result, size - 1, rows(size - half, size - 1) + 2, size - half);
  if (!result) expect_joint(result.error());
  expect_right(step, first, half);
  EXPECT_TRUE(finish());
}

TEST_F(SplitsJob, GraphsThatMayDiffer_AreComparedAsWell) {
  auto step = job->frame<Given, Moved>("step", {.consistency = Consistency::SameCollectives},
                                       [](const Given& given) { return moved(given, {}); });
  expect_right(step, 0, size);
  List out = expected(0, size);
  if (last) out[0] += 1;
  const auto result = call(step, sent(0, size), out);
  expect_misfit(result, size - 1, rows(0, size - 1) + 1, 0);
  if (!result) expect_joint(result.error());
  expect_right(step, 0, size);
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::splits_job_test
