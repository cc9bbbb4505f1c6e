// Keys as inputs of frames, on real ranks: other numbers with every key and no compile, one error
// for all where a Key differs, parts of a whole, and records.
#include <filesystem>
#include <limits>
#include <vector>

#include "job_ranks.h"
#include <unistd.h>

#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/tensor/graph/philox.h>

namespace lockstep::worker::random_job_test {
namespace {

struct Keyed {
  Tensor x;
  Key key;
  template <class V>
  void fields(V& v) {
    v("x", x), v("key", key);
  }
};

struct Own {
  Tensor x;
  RankKey key;
  template <class V>
  void fields(V& v) {
    v("x", x), v("key", key);
  }
};

struct Stepped {
  Tensor x;
  Key key;
  SymInt step;
  template <class V>
  void fields(V& v) {
    v("x", x), v("key", key), v("step", step);
  }
};

double unit(std::int64_t key, std::int64_t i) {
  return static_cast<double>(static_cast<std::uint64_t>(philox(key, i, 0)) >> 11) * 0x1p-53;
}

class RandomJob : public JobRanks {
 protected:
  static Tensor drawn(const RankKey& key, const Tensor& x) {
    return uniform(key, {x.size(0)}, {.dtype = DType::F64}) + x * 0.0;
  }
  void expect_refused(const Result<Y>& out, std::int64_t mine, const char* advice) const {
    ASSERT_FALSE(out);
    const Status& error = out.error();
    EXPECT_EQ(error.code, Code::ConstraintViolation) << error.text();
    EXPECT_EQ(error.source, "key") << error.text();
    EXPECT_TRUE(contains(error.message, advice)) << error.text();
    ASSERT_EQ(error.groups.size(), 2U) << error.text();
    EXPECT_EQ(error.groups[1].ranks.text(), std::to_string(size - 1));
    EXPECT_EQ(error.groups[last ? 1 : 0].value, std::to_string(mine));
    expect_joint(error);
  }
};

TEST_F(RandomJob, KeyOfEveryStep_NeedsOneCompile) {
  auto step = job->frame<Keyed, Y>("step", [](const Keyed& in) { return Y{drawn(in.key, in.x)}; });
  bool first = true;
  for (const std::int64_t seed :
       {std::int64_t{7}, std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{-1},
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    const auto out = step({filled({5}, 1), Key(seed)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(step.last_compiled(), first && step.last_compiled()) << seed;
    EXPECT_TRUE(contains(step.last_call(), first ? "compiled" : "reused")) << step.last_call();
    first = false;
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(out->y.array().at(i), unit(seed, i)) << seed;
  }
  EXPECT_TRUE(finish());
}

TEST_F(RandomJob, KeyThatDiffers_IsOneErrorAtThatCall_AndTheNextCallWorks) {
  if (size == 1) return;  // one rank has one key
  auto step = job->frame<Keyed, Y>("step", [](const Keyed& in) { return Y{drawn(in.key, in.x)}; });
  const char* advice =
      "a Key is the same on all of them; make it of one seed on every rank, or "
      "declare it as a RankKey";
  const auto call = [&](std::int64_t seed) { return step({filled({5}, 1), Key(seed)}); };
  expect_refused(call(last ? 4 : 3), last ? 4 : 3, advice);
  ASSERT_TRUE(call(3));
  ASSERT_TRUE(call(4));
  expect_refused(call(last ? 1 : 0), last ? 1 : 0, advice);
  ASSERT_TRUE(call(5));
  EXPECT_FALSE(step.last_compiled());
  EXPECT_TRUE(finish());
}

TEST_F(RandomJob, RankKeys_DifferAsTheyLike) {
  auto step = job->frame<Own, Y>("step", [](const Own& in) { return Y{drawn(in.key, in.x)}; });
  auto folded = job->frame<Keyed, Y>(
      "folded", [](const Keyed& in) { return Y{drawn(in.key.fold_in(group_rank(in.x)), in.x)}; });
  for (const std::int64_t seed : {40, 50}) {
    const auto out = step({filled({3}, 1), RankKey(seed + rank)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(out->y.array().at(2), unit(seed + rank, 2));
    const auto other = folded({filled({3}, 1), Key(seed)});
    ASSERT_TRUE(other) << other.error().text();
    EXPECT_EQ(other->y.array().at(2), unit(Key(seed).fold_in(rank).value(), 2));
  }
  EXPECT_FALSE(step.last_compiled());
  EXPECT_TRUE(finish());
}

TEST_F(RandomJob, NumberFoldedIntoAKey_MustBeTheSame) {
  auto step = job->frame<Stepped, Y>(
      "step", [](const Stepped& in) { return Y{drawn(in.key.fold_in(in.step), in.x)}; });
  for (const std::int64_t number : {3, 4, 9}) {
    const auto out = step({filled({3}, 1), Key(5), number});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(out->y.array().at(1), unit(Key(5).fold_in(number).value(), 1));
  }
  EXPECT_FALSE(step.last_compiled());
  if (size > 1) {
    const auto out = step({filled({3}, 1), Key(5), last ? 8 : 7});
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code, Code::ConstraintViolation) << out.error().text();
    EXPECT_TRUE(contains(out.error().text(),
                         "step differs between ranks, and Key::fold_in at "
                         "random_job_test.cpp:"))
        << out.error().text();
    EXPECT_TRUE(contains(out.error().text(), "fold it into a RankKey")) << out.error().text();
    expect_joint(out.error());
  }
  EXPECT_TRUE(finish());
}

struct Spread {
  Tensor x;
  Key key;
  SymInt start;
  template <class V>
  void fields(V& v) {
    v("x", x), v("key", key), v("start", start);
  }
};

TEST_F(RandomJob, WholeThatIsSpreadUnevenly_HasTheNumbersOfOneRank) {
  auto by_rows = job->frame<Spread, Y>("rows", [](const Spread& in) {
    const Sizes sizes{in.x.size(0), 3};
    return Y{uniform(in.key, sizes, {.dtype = DType::F64, .part = {{-1, 3}, {in.start, 0}}})};
  });
  auto by_columns = job->frame<Spread, Y>("columns", [](const Spread& in) {
    const Tensor all = all_reduce(scalar(in.x.size(0)));  // columns of the whole
    const Sizes sizes{4, in.x.size(0)};
    return Y{uniform(in.key, sizes, {.dtype = DType::F64, .part = {{4, all}, {0, in.start}}})};
  });
  for (const std::int64_t extra : {2, 3, 0}) {
    const auto share = [&](int r) { return r == 0 ? extra : r + extra; };
    std::int64_t start = 0, all = 0;
    for (int r = 0; r < size; ++r) {
      if (r < rank) start += share(r);
      all += share(r);
    }
    const std::int64_t mine = share(rank);
    const Spread in{filled({mine}, 1), Key(extra), start};
    const auto rows = by_rows(in);
    const auto columns = by_columns(in);
    ASSERT_TRUE(rows) << rows.error().text();
    ASSERT_TRUE(columns) << columns.error().text();
    for (std::int64_t i = 0; i < 3 * mine; ++i)
      EXPECT_EQ(rows->y.array().at(i), unit(extra, 3 * start + i));
    for (std::int64_t i = 0; i < 4 * mine; ++i)
      EXPECT_EQ(columns->y.array().at(i), unit(extra, i / mine * all + start + i % mine));
  }
  EXPECT_TRUE(finish());
}

TEST_F(RandomJob, WhereGraphsMayDiffer_TheRunCompares) {
  const auto body = [](const Keyed& in) {
    return Y{drawn(in.key, in.x) + all_reduce(sum(in.x)) * 0.0};
  };
  auto alike = job->frame<Keyed, Y>("alike", {.consistency = Consistency::SameCollectives}, body);
  auto audited = job->frame<Keyed, Y>("audited", {.audit = true}, body);
  auto local = job->frame<Keyed, Y>("local", {.consistency = Consistency::Local},
                                    [](const Keyed& in) { return Y{drawn(in.key, in.x)}; });
  for (auto* step : {&alike, &audited}) {
    ASSERT_TRUE((*step)({filled({5}, 1), Key(6)}));
    if (size > 1) {
      const auto out = (*step)({filled({5}, 1), Key(last ? 9 : 8)});
      ASSERT_FALSE(out);
      EXPECT_TRUE(contains(out.error().text(), "a Key is the same on all ranks"))
          << out.error().text();
    }
    const auto next = (*step)({filled({5}, 1), Key(std::numeric_limits<std::int64_t>::min())});
    ASSERT_TRUE(next) << next.error().text();
  }
  auto folded = job->frame<Stepped, Y>("folded", {.audit = true}, [](const Stepped& in) {
    return Y{drawn(in.key.fold_in(in.step), in.x) + all_reduce(sum(in.x)) * 0.0};
  });
  ASSERT_TRUE(folded({filled({5}, 1), Key(6), 3}));
  if (size > 1) {
    const auto out = folded({filled({5}, 1), Key(6), last ? 3 : 4});
    ASSERT_FALSE(out);
    EXPECT_TRUE(contains(out.error().text(), "a Key is folded with the same number"))
        << out.error().text();
  }
  // A number of the program is in no vote, and here in no comparison of graphs.
  auto plain = job->frame<Keyed, Y>(
      "plain", {.consistency = Consistency::SameCollectives}, [&](const Keyed& in) {
        return Y{drawn(in.key.fold_in(last ? 3 : 4), in.x) + all_reduce(sum(in.x)) * 0.0};
      });
  const auto by_plain = plain({filled({5}, 1), Key(6)});
  ASSERT_EQ(by_plain.has_value(), size == 1);
  if (size > 1) {
    EXPECT_TRUE(contains(by_plain.error().text(), "a Key is folded with the same number"))
        << by_plain.error().text();
  }
  const auto own = local({filled({5}, 1), Key(rank)});
  ASSERT_TRUE(own) << own.error().text();
  EXPECT_EQ(own->y.array().at(4), unit(rank, 4));
  EXPECT_TRUE(finish());
}

TEST_F(RandomJob, RecordedJob_IsReplayedByteForByte) {
  // All ranks are children of one launcher, so they agree on the name.
  const std::string record = testing::TempDir() + "lockstep-keys-" + std::to_string(getppid());
  Settings settings = quiet();
  settings.record_dir = record;
  start({}, settings);
  auto step = job->frame<Keyed, Y>("step", [](const Keyed& in) { return Y{drawn(in.key, in.x)}; });
  for (const std::int64_t seed : {3, 0, -9}) {
    ASSERT_TRUE(step({filled({5}, 1), Key(seed)}));
    step.prefetch({filled({5}, 1), Key(seed + 1)});
    ASSERT_TRUE(step({filled({5}, 1), Key(seed + 1)}));
  }
  (void)step({filled({5}, 1), Key(last ? 2 : 1)});  // an error, but in a job of one
  ASSERT_TRUE(finish());
  job.reset();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) return;
  const auto ranks = simulator::read_record(record);
  ASSERT_TRUE(ranks) << ranks.error().text();
  const auto again = simulator::replay(*ranks);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_FALSE(again->difference) << again->difference->text();
  EXPECT_EQ(again->result.calls.size(), 7U);
  std::filesystem::remove_all(record);
}

}  // namespace
}  // namespace lockstep::worker::random_job_test
