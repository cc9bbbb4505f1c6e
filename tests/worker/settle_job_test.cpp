// Frames that settle, through the job on real ranks: inputs that change one after another come to
// an end of compiling, and what they compute stays right.
#include <filesystem>
#include <numeric>
#include <random>
#include <vector>

#include "job_ranks.h"

#include <lockstep/worker/simulator/answers/explain.h>
#include <lockstep/worker/simulator/input/record_reader.h>

namespace lockstep::worker::settle_job_test {
namespace {

struct Many {
  std::vector<Tensor> xs;
  template <class V>
  void fields(V& v) {
    v("xs", xs);
  }
};

struct Numbers {
  Tensor x;
  std::vector<SymInt> ns;
  template <class V>
  void fields(V& v) {
    v("x", x), v("ns", ns);
  }
};

struct Affine {
  Tensor x, w, bias;
  template <class V>
  void fields(V& v) {
    v("x", x), v("w", w), v("bias", bias);
  }
};

constexpr std::size_t kInputs = 14;

class SettleJob : public JobRanks {
 protected:
  int compiles = 0, interpreted = 0;

  template <class Step>
  void count(const Step& step) {
    compiles += step.last_compiled() ? 1 : 0;
    interpreted += contains(step.last_call(), "interpreted") ? 1 : 0;
  }

  /// Each of fourteen tensors gets another size, one after the other, then all of them any.
  void call_with_sizes() {
    auto step = job->frame<Many, Y>("step", [](const Many& in) {
      Tensor all = sum(in.xs[0]);
      for (std::size_t i = 1; i < in.xs.size(); ++i) all = all + sum(in.xs[i]);
      return Y{all_reduce(all)};
    });
    std::vector<std::int64_t> sizes(kInputs, 3);
    std::mt19937_64 random(7);
    for (std::size_t call = 0; call < 2 * kInputs; ++call) {
      if (call > kInputs)
        for (std::int64_t& n : sizes) n = static_cast<std::int64_t>(random() % 6);
      else if (call > 0)
        sizes[call - 1] = 5;
      Many in;
      for (const std::int64_t n : sizes) in.xs.push_back(filled({n, 2}, 1));
      const auto out = step(in);
      ASSERT_TRUE(out) << out.error().text();
      const auto rows = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
      EXPECT_EQ(only(out->y), static_cast<double>(2 * rows * size)) << "call " << call;
      count(step);
    }
  }
};

TEST_F(SettleJob, FourteenSizesThatChangeOneAfterAnother_AreFourEntries) {
  call_with_sizes();
  EXPECT_EQ(compiles, 4);
  EXPECT_EQ(interpreted, 0);
  EXPECT_TRUE(finish());
}

TEST_F(SettleJob, Off_TheSameCallsEndInTheInterpreter) {
  start({.settle = false});
  call_with_sizes();
  EXPECT_EQ(compiles, 8);
  EXPECT_GT(interpreted, 0);
  EXPECT_TRUE(finish());
}

TEST_F(SettleJob, EveryLimit_HoldsAtMostHalfOfIt) {
  for (int limit = 1; limit <= 6; ++limit) {
    start({.recompile_limit = limit});
    compiles = interpreted = 0;
    call_with_sizes();
    EXPECT_LE(compiles, (limit + 1) / 2) << "limit " << limit;
    EXPECT_EQ(interpreted, 0) << "limit " << limit;
    EXPECT_TRUE(finish());
  }
}

TEST_F(SettleJob, FourteenIntsThatChangeOneAfterAnother_AreFourEntries) {
  auto step = job->frame<Numbers, Y>("step", [](const Numbers& in) {
    Tensor all = sum(in.x);
    for (std::size_t i = 0; i < in.ns.size(); ++i)
      all = all +
            cast(scalar(*in.x.trace(), in.ns[i] * static_cast<std::int64_t>(i + 1)), DType::F64);
    return Y{all_reduce(all)};
  });
  std::vector<std::int64_t> numbers(kInputs, 1);
  std::mt19937_64 random(8);
  for (std::size_t call = 0; call < 2 * kInputs; ++call) {
    if (call > kInputs)
      for (std::int64_t& number : numbers) number = static_cast<std::int64_t>(random() % 9) - 4;
    else if (call > 0)
      numbers[call - 1] = -2;
    Numbers in{.x = filled({3}, 1), .ns = {}};
    double want = 3;
    for (std::size_t i = 0; i < kInputs; ++i) {
      in.ns.emplace_back(numbers[i]);
      want += static_cast<double>(numbers[i]) * static_cast<double>(i + 1);
    }
    const auto out = step(in);
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), want * size) << "call " << call;
    count(step);
  }
  EXPECT_EQ(compiles, 4);
  EXPECT_EQ(interpreted, 0);
  EXPECT_TRUE(finish());
}

TEST_F(SettleJob, SharedSizes_RanksWithInputsOfTheirOwn_AreFourEntries) {
  start({.consistency = Consistency::SharedSizes});
  auto step = job->frame<Many, Y>("step", [](const Many& in) {
    Tensor all = sum(in.xs[0]);
    for (std::size_t i = 1; i < in.xs.size(); ++i) all = all + sum(in.xs[i]);
    return Y{all};
  });
  // One rank has a tensor more, so that the ranks' lists differ.
  const std::size_t inputs = kInputs + (last && size > 1 ? 1 : 0);
  std::vector<std::int64_t> sizes(inputs, 3);
  for (std::size_t call = 0; call <= kInputs; ++call) {
    if (call > 0) sizes[call - 1] = 5 + rank;
    Many in;
    for (const std::int64_t n : sizes) in.xs.push_back(filled({n}, 1));
    const auto out = step(in);
    ASSERT_TRUE(out) << out.error().text();
    const auto rows = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    EXPECT_EQ(only(out->y), static_cast<double>(rows)) << "call " << call;
    count(step);
  }
  EXPECT_EQ(compiles, 4);
  EXPECT_EQ(interpreted, 0);
  EXPECT_TRUE(finish());
}

// A bias of one row is broadcast whatever the number of rows of x was when the frame settled, one
// included; sizes that a collective needs equal are numbers.
TEST_F(SettleJob, SizesOfOneAndSizesInCollectives_StayWhatTheyAre) {
  for (const std::int64_t rows_then : {1, 4}) {
    start({.recompile_limit = 6});
    auto step = job->frame<Affine, Y>("step" + std::to_string(rows_then), [](const Affine& in) {
      const Tensor out = matmul(in.x, in.w) + in.bias;
      return Y{all_reduce(sum(out, {0}))};
    });
    constexpr std::int64_t width = 6;
    const auto call = [&](std::int64_t rows, std::int64_t inner) {
      const auto out =
          step({filled({rows, inner}, 1), filled({inner, width}, 2), filled({1, width}, 3)});
      ASSERT_TRUE(out) << out.error().text();
      ASSERT_EQ(out->y.array().sizes(), std::vector{width});
      EXPECT_EQ(only(out->y), static_cast<double>(rows * (2 * inner + 3) * size));
    };
    call(3, 2);
    call(5, 2);
    call(rows_then, 3);
    EXPECT_TRUE(step.last_compiled());
    for (const std::int64_t inner : {3, 4, 2})
      for (const std::int64_t rows : {2, 1, 8, 0, 5}) {
        call(rows, inner);
        EXPECT_FALSE(step.last_compiled()) << rows << " rows, " << inner;
      }
    EXPECT_TRUE(finish());
  }
}

// What needs a number of a size gets it, by a guard, and says where.
TEST_F(SettleJob, SizeThatHostCodePins_IsStaticAgain_AndNamedWithItsLine) {
  const std::string record = testing::TempDir() + "lockstep-settle-record-" + std::to_string(size);
  if (rank == 0) std::filesystem::remove_all(record);
  MPI_Barrier(MPI_COMM_WORLD);
  Settings loud = quiet();
  loud.log = {"info"};
  loud.record_dir = record;
  start({.recompile_limit = 2}, loud);
  unsigned line = 0;
  auto step = job->frame<Affine, Y>("step", [&](const Affine& in) {
    line = __LINE__ + 1;
    const std::int64_t width = in.w.size(0).to_int();
    return Y{all_reduce(sum(in.x) * static_cast<double>(width) + sum(in.w))};
  });
  testing::internal::CaptureStderr();
  for (const std::int64_t rows : {3, 5, 2, 9}) {
    const auto out = step({filled({rows}, 1), filled({4}, 1), filled({1}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), (4.0 * static_cast<double>(rows) + 4.0) * size);
    EXPECT_EQ(step.last_compiled(), rows == 3);
  }
  const auto out = step({filled({3}, 1), filled({6}, 1), filled({1}, 1)});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_TRUE(step.last_compiled());
  EXPECT_EQ(only(out->y), 24.0 * size);
  const std::string told = testing::internal::GetCapturedStderr();
  const std::string want =
      "step: settle_job_test.cpp:" + std::to_string(line) +
      " makes w.size(0) a number, so each of its values is an entry of its own; compute with "
      "the SymInt itself";
  EXPECT_EQ(told.find(want) != std::string::npos, rank == 0) << told;
  EXPECT_EQ(told.find(want), told.rfind(want)) << told;
  ASSERT_TRUE(finish());
  job.reset();
  if (rank != 0) return;
  const auto ranks = simulator::read_record(record);
  ASSERT_TRUE(ranks) << ranks.error().text();
  EXPECT_TRUE(ranks->front().header.config.settle);
  const simulator::Explanation explained = simulator::explain_record(*ranks);
  EXPECT_FALSE(explained.replay_differs) << explained.text;
  EXPECT_TRUE(contains(explained.text, "advice    " + want)) << explained.text;
  std::filesystem::remove_all(record);
}

TEST_F(SettleJob, ListThatGrows_IsNamedAtTheSecondRecompile) {
  Settings loud = quiet();
  loud.log = {"info"};
  start({}, loud);
  auto step = job->frame<Many, Y>("step", [](const Many& in) {
    Tensor all = sum(in.xs[0]);
    for (std::size_t i = 1; i < in.xs.size(); ++i) all = all + sum(in.xs[i]);
    return Y{all};
  });
  std::vector<std::string> told;
  for (std::size_t length = 1; length <= 4; ++length) {
    testing::internal::CaptureStderr();
    const auto out = step({std::vector<Tensor>(length, filled({2}, 1))});
    told.push_back(testing::internal::GetCapturedStderr());
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 2.0 * static_cast<double>(length));
  }
  EXPECT_FALSE(contains(told[1], "the list"));
  EXPECT_EQ(contains(told[2],
                     "step: the list xs has come with 1, 2 and 3 elements, and each length "
                     "is an entry of its own; stack the elements"),
            rank == 0)
      << told[2];
  EXPECT_TRUE(finish());
}

// A function that refuses sizes that are no numbers is traced with those that vary, as before.
TEST_F(SettleJob, FunctionThatNeedsNumbers_IsTracedAgainWithoutSettling) {
  start({.recompile_limit = 4});
  auto step = job->frame<Affine, Y>("step", [](const Affine& in) {
    if (!in.w.size(0).expr().constant()) throw std::runtime_error("w must have a size");
    return Y{all_reduce(sum(in.x) + sum(in.w))};
  });
  const auto call = [&](std::int64_t rows) {
    const auto out = step({filled({rows}, 1), filled({4}, 1), filled({1}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), static_cast<double>(rows + 4) * size);
    count(step);
  };
  for (const std::int64_t rows : {3, 5, 7, 1, 0, 9}) call(rows);
  EXPECT_EQ(interpreted, 0);
  EXPECT_TRUE(finish());
}

// Errors of the function itself are the error of all ranks, as they are without settling.
TEST_F(SettleJob, FunctionThatFailsEitherWay_IsTheErrorOfAll_AndTheNextCallWorks) {
  start({.recompile_limit = 2});
  bool wrong = true;
  auto step = job->frame<X, Y>("step", [&](const X& in) {
    if (wrong) throw std::runtime_error("not today");
    return Y{all_reduce(sum(in.x))};
  });
  const auto failed = step({filled({3}, 1)});
  ASSERT_FALSE(failed);
  expect_joint(failed.error());
  EXPECT_TRUE(contains(failed.error().text(), "not today"));
  wrong = false;
  const auto out = step({filled({3}, 1)});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->y), 3.0 * size);
  EXPECT_TRUE(finish());
}

TEST_F(SettleJob, OnSomeRanksOnly_IsRefusedAtTheStart) {
  if (size == 1) return;
  ASSERT_TRUE(finish());
  job.reset();
  const auto made =
      Job::attach(MPI_COMM_WORLD, {.decision = {.settle = last}, .settings = quiet()});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::ConfigMismatch);
  EXPECT_EQ(made.error().source, "settle");
  expect_joint(made.error());
}

TEST_F(SettleJob, ReadingBackAListOfAnInput_KeepsItsLength) {
  start({.recompile_limit = 1});
  auto step = job->frame<Affine, Y>("step", [](const Affine& in) {
    Tensor out = sum(in.x);
    for (const SymInt& n : tolist(cast(in.w, DType::I64)))
      out = out + cast(scalar(*in.x.trace(), n), DType::F64);
    return Y{all_reduce(out)};
  });
  for (const std::int64_t rows : {3, 5}) {
    const auto out = step({filled({rows}, 1), filled({4}, 2), filled({1}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), static_cast<double>(rows + 8) * size);
  }
  EXPECT_FALSE(step.last_compiled());
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::settle_job_test
