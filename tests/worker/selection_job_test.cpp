// Ops whose results have as many elements as the data says, on real ranks: every rank has its own
// counts, all run one graph, and a rank whose data do not fit ends the call for all.
#include <algorithm>
#include <fstream>
#include <limits>

#include "job_ranks.h"
#include <sys/resource.h>

#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

/// Sanitizers refuse memory as a system does, in place of ending the process.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace lockstep::worker::selection_job_test {
namespace {

class SelectionJob : public JobRanks {};

Tensor doubles(const std::vector<double>& values) {
  return Array::of(DType::F64, {static_cast<std::int64_t>(values.size())}, values);
}

struct Totals {
  Tensor sum, kept, distinct;
  template <class V>
  void fields(V& v) {
    v("distinct", distinct), v("kept", kept), v("sum", sum);
  }
};

TEST_F(SelectionJob, RanksKeepOtherCounts_OneGraphServesAll) {
  auto step = job->frame<X, Totals>("step", [](X in) {
    const Tensor kept = in.x[in.x > 0.0];
    const auto total = [](const SymInt& n) { return all_reduce(scalar(n)); };
    return Totals{all_reduce(sum(kept)), total(kept.size(0)), total(unique(in.x).values.size(0))};
  });
  int compiles = 0;
  for (std::int64_t call = 0; call < 6; ++call) {
    // Rank r keeps r + call of them, each value twice; rank 0 keeps nothing in the first call.
    double sum = 0;
    std::int64_t kept = 0, distinct = 0;
    std::vector<double> mine;
    for (std::int64_t r = 0; r < size; ++r) {
      std::vector<double> x(4, -1.0);
      for (std::int64_t k = 0; k < 2 * (r + call); ++k)
        x.push_back(1.0 + static_cast<double>(k / 2));
      for (const double value : x) sum += value > 0 ? value : 0;
      kept += 2 * (r + call);
      distinct += 1 + r + call;
      if (r == rank) mine = x;
    }
    const auto out = step({doubles(mine)});
    ASSERT_TRUE(out) << out.error().text();
    compiles += step.last_compiled();
    EXPECT_EQ(only(out->sum), sum);
    EXPECT_EQ(only(out->kept), static_cast<double>(kept));
    EXPECT_EQ(only(out->distinct), static_cast<double>(distinct));
  }
  EXPECT_LE(compiles, 2) << "static at first, then a symbol; counts make no entry";
  EXPECT_TRUE(finish()) << "the ranks' graphs are the same";
}

class AbsurdSizes : public JobRanks {
 protected:
  /// What the last rank's data ask for is one error for all, with the line of the op; the calls
  /// before and after it are well.
  void expect_refused(const std::function<Tensor(Tensor)>& body, double absurd,
                      const std::vector<std::string>& parts) {
    for (const bool compiled : {true, false}) {
      if (compiled)
        start({});
      else
        start({.automatic_dynamic = false, .recompile_limit = 1, .settle = false});
      auto step = job->frame<X, Y>("step", [&](X in) {
        return Y{all_reduce(sum(cast(body(cast(in.x, DType::I64)), DType::F64)))};
      });
      ASSERT_TRUE(step({doubles({2})}));
      for (const double most : {3.0, absurd, 4.0, absurd, 5.0}) {
        const auto out = step({doubles({1, last ? most : 2})});
        if (most < absurd) {
          ASSERT_TRUE(out) << out.error().text();
          EXPECT_EQ(contains(step.last_call(), "interpreted"), !compiled) << step.last_call();
          continue;
        }
        ASSERT_FALSE(out);
        for (const std::string& part : parts)
          EXPECT_TRUE(contains(out.error().text(), part))
              << part << " is not in " << out.error().text();
        expect_joint(out.error());
      }
      EXPECT_TRUE(finish());
    }
  }
};

TEST_F(AbsurdSizes, MoreThanThereIsMemoryFor_AreOneErrorAndTheJobGoesOn) {
  // A system may promise more than it has. A sanitizer takes more than this for itself.
  constexpr rlim_t kMost = rlim_t{1} << 40;
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit given{};
  getrlimit(RLIMIT_AS, &given);
  rlimit lowered = given;
  if (pages * 4096 < kMost) lowered.rlim_cur = std::min(given.rlim_max, kMost);
  setrlimit(RLIMIT_AS, &lowered);
  expect_refused([](Tensor x) { return bincount(x); }, 0x1p40,
                 {"no memory for the 8796093022216 bytes of", "selection_job_test.cpp:"});
  expect_refused([](Tensor x) { return repeat_interleave(x, x, 0); }, 0x1p42,
                 {"no memory for the ", "selection_job_test.cpp:"});
  setrlimit(RLIMIT_AS, &given);
}

// Its own number of classes would be one that no int is.
TEST_F(AbsurdSizes, BincountOfTheLargestInt_IsOneErrorAndTheJobGoesOn) {
  expect_refused(
      [](Tensor x) {
        const Tensor largest =
            full(*x.trace(), {2}, 0, DType::I64) + SymInt(std::numeric_limits<std::int64_t>::max());
        return bincount(where(x > 1000, largest, x));
      },
      2000, {"selection_job_test.cpp:", "= 9223372036854775807, but there are at most"});
}

TEST_F(AbsurdSizes, MoreThanAnyLoopGoesOver_OrCanBeCounted_AreOneErrorAndTheJobGoesOn) {
  const auto largest = [](const Tensor& x) { return item(amax(x), Values::NonNegative); };
  expect_refused(
      [&](Tensor x) { return sum(arange(largest(x))); }, 0x1p61,
      {"iota at selection_job_test.cpp:", "= 2305843009213693952, but there are at most"});
  expect_refused(
      [&](Tensor x) {
        const SymInt n = largest(x);
        return sum(ones({n * n}, DType::I64));
      },
      0x1p40, {"full at selection_job_test.cpp:", "what cannot be counted"});
}

/// LOCKSTEP_LOG=graph: which counts a graph reads back, and the line that needs each.
TEST_F(SelectionJob, Log_SaysWhichCountsAreReadBack_AndTheLineThatNeedsThem) {
  Settings loud = quiet();
  loud.log = {"graph"};
  start({}, loud);
  unsigned line = 0;
  auto step = job->frame<X, Totals>("step", [&](X in) {
    line = __LINE__ + 1;
    const Tensor total = sum(in.x[in.x > 0.0]), small = in.x[in.x < 2.0];
    const Tensor count = sum(arange(small.size(0)));
    return Totals{all_reduce(total), all_reduce(sum(small)), all_reduce(count)};
  });
  testing::internal::CaptureStderr();
  const auto out = step({doubles({-1, 1, 3})});
  const std::string told = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->sum), 4.0 * size);
  EXPECT_EQ(only(out->distinct), 1.0 * size);
  const auto place = [](unsigned at) { return "selection_job_test.cpp:" + std::to_string(at); };
  for (const std::string& want :
       {place(line) + " is not read back: where() stands in its place",
        place(line) + " is read back: ", " in " + place(line + 1) + " needs it"})
    EXPECT_EQ(contains(told, want), rank == 0) << want << "\n" << told;
  EXPECT_TRUE(finish());
}

TEST_F(SelectionJob, RowsGoToTheRankThatTheyName) {
  auto step = job->frame<X, Y>("step", [n = size](X in) {
    std::vector<Tensor> parts, counts;
    for (int to = 0; to < n; ++to) {
      parts.push_back(in.x[in.x == static_cast<double>(to)]);
      counts.push_back(reshape(scalar(parts.back().size(0)), {1}));
    }
    const Tensor sent = cat(counts, 0);
    const auto in_splits = tolist(sent, Values::NonNegative),
               out_splits = tolist(all_to_all_single(sent), Values::NonNegative);
    return Y{all_to_all_single(cat(parts, 0), out_splits, in_splits)};
  });
  for (std::int64_t call = 0; call < 3; ++call) {
    std::vector<double> mine;
    std::int64_t expected = 0;
    for (std::int64_t r = 0; r < size; ++r)
      for (std::int64_t to = 0; to < size; ++to) {
        const std::int64_t rows = (r * 3 + to * 2 + call) % 4;
        if (r == rank)
          mine.insert(mine.end(), static_cast<std::size_t>(rows), static_cast<double>(to));
        if (to == rank) expected += rows;
      }
    const auto out = step({doubles(mine)});
    ASSERT_TRUE(out) << out.error().text();
    ASSERT_EQ(out->y.array().elements(), expected);
    for (std::int64_t i = 0; i < expected; ++i) EXPECT_EQ(out->y.array().at(i), rank);
  }
  EXPECT_TRUE(finish());
}

/// x in parts, or repeated, as counts say.
struct Counted {
  Tensor counts, x;
  template <class V>
  void fields(V& v) {
    v("counts", counts), v("x", x);
  }
};

/// All ranks get the error of the last one, whose counts are wrong, and the next call works.
void expect_joint_failure(const std::function<Tensor(const Counted&)>& body, Job& job, bool last,
                          const std::vector<std::int64_t>& good,
                          const std::vector<std::int64_t>& bad, const std::string& says,
                          const std::function<void(const Status&)>& joint) {
  auto step =
      job.frame<Counted, Y>("step", [&](Counted in) { return Y{all_reduce(sum(body(in)))}; });
  const Tensor x = filled({4}, 1);
  const auto first = step({integers(good), x});
  ASSERT_TRUE(first) << first.error().text();
  const auto failed = step({integers(last ? bad : good), x});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, Code::RuntimeAssert) << failed.error().text();
  EXPECT_TRUE(contains(failed.error().text(), says)) << failed.error().text();
  EXPECT_TRUE(contains(failed.error().text(), "rank " + std::to_string(job.size() - 1)))
      << failed.error().text();
  joint(failed.error());
  const auto again = step({integers(good), x});
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(only(again->y), only(first->y));
}

TEST_F(SelectionJob, NegativeRepeatsOnOneRank_EndTheCallForAll) {
  const auto joint = [this](const Status& status) { expect_joint(status); };
  const auto body = [](const Counted& in) { return repeat_interleave(in.x, in.counts, 0); };
  expect_joint_failure(body, *job, last, {1, 0, 2, 3}, {1, -1, 2, 3}, "counts [1, -1, 2, 3]",
                       joint);
  EXPECT_TRUE(finish());
}

TEST_F(SelectionJob, Vector_35_SplitSizesOfOneRankThatDoNotFit_EndTheCallForAll) {
  const auto joint = [this](const Status& status) { expect_joint(status); };
  const auto body = [](const Counted& in) { return split(in.x, tolist(in.counts), 0)[1]; };
  expect_joint_failure(body, *job, last, {1, 3}, {1, 7}, "the left side is 8, the right side is 4",
                       joint);
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::selection_job_test
