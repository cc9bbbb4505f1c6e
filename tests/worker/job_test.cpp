// What a job's frames give on real ranks: values, entries that are made, kept and chosen.
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "job_ranks.h"

namespace lockstep::worker::job_test {
namespace {

struct Layer {
  Tensor weight, bias;
  template <class V>
  void fields(V& v) {
    v("weight", weight), v("bias", bias);
  }
};

struct Nested {
  std::vector<Layer> layers;
  std::map<std::string, Tensor> extra;
  SymInt repeats;
  std::int64_t power = 1;
  SymFloat rate;
  bool negate = false;
  template <class V>
  void fields(V& v) {
    v("layers", layers), v("extra", extra), v("repeats", repeats), v("power", power),
        v("rate", rate), v("negate", negate);
  }
};

struct NestedOut {
  std::vector<Tensor> layers;
  std::map<std::string, Tensor> extra;
  SymInt twice;
  SymFloat half;
  template <class V>
  void fields(V& v) {
    v("layers", layers), v("extra", extra), v("twice", twice), v("half", half);
  }
};

NestedOut compute(Nested in) {
  NestedOut out;
  for (const Layer& layer : in.layers) {
    Tensor y = layer.weight * in.rate + layer.bias;
    for (std::int64_t i = 1; i < in.power; ++i) y = y * y;
    out.layers.push_back(in.negate ? -y : y);
  }
  for (const auto& [name, tensor] : in.extra)
    out.extra[name] = tensor * cast(scalar(in.repeats), tensor.dtype());
  out.twice = in.repeats * 2;
  out.half = in.rate * 0.5;
  return out;
}

class JobTest : public JobRanks {};

TEST_F(JobTest, NestedInputsOfEveryKind_GiveNestedOutputs) {
  auto step = job->frame<Nested, NestedOut>("step", compute);
  Nested in{.layers = {{filled({2, 3}, 2), filled({3}, 1)}, {filled({4}, 5), filled({4}, -1)}},
            .extra = {{"a", filled({2}, 7)}},
            .repeats = 3,
            .power = 2,
            .rate = 0.5,
            .negate = true};
  struct Case {
    std::int64_t repeats, power;
    double rate;
    bool negate, compiles;
  };
  // A float is a runtime value; an int that changes becomes a symbol; a std::int64_t never does; a
  // bool is a constant.
  for (const Case& c :
       {Case{3, 2, 0.5, true, true}, Case{3, 2, 2.5, true, false}, Case{4, 2, 1.0, true, true},
        Case{9, 2, 3.0, true, false}, Case{9, 3, 1.0, true, true}, Case{9, 3, 1.0, false, true},
        Case{2, 3, 0.25, false, false}, Case{5, 2, 0.5, true, false}}) {
    in.repeats = c.repeats, in.power = c.power, in.rate = c.rate, in.negate = c.negate;
    const auto out = step(in);
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(step.last_compiled(), c.compiles) << step.last_call();
    for (std::size_t l = 0; l < 2; ++l) {
      double y = (l == 0 ? 2 : 5) * c.rate + (l == 0 ? 1 : -1);
      for (std::int64_t i = 1; i < c.power; ++i) y *= y;
      EXPECT_DOUBLE_EQ(only(out->layers[l]), c.negate ? -y : y);
    }
    EXPECT_EQ(out->layers[0].array().sizes(), (std::vector<std::int64_t>{2, 3}));
    EXPECT_DOUBLE_EQ(only(out->extra.at("a")), 7.0 * static_cast<double>(c.repeats));
    EXPECT_EQ(out->twice.to_int(), 2 * c.repeats);
    EXPECT_DOUBLE_EQ(out->half.value(), c.rate / 2);
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobTest, HalfPrecision_GoesInThroughCollectivesAndOut) {
  for (const DType dtype : {DType::F16, DType::BF16}) {
    const std::string name(dtype_name(dtype));
    auto step = job->frame<X, Y>("gather_" + name, [](X in) { return Y{all_gather(in.x)}; });
    auto narrow = job->frame<X, Y>("narrow_" + name, [dtype](X in) {
      return Y{cast(cast(in.x, DType::F32) * 2.0, dtype)};
    });
    auto sums = job->frame<X, Y>("sum_" + name, [](X in) { return Y{all_reduce(in.x)}; });
    const std::vector<double> mine{1.5, -0.25 * rank};
    const Tensor x = Array::of(dtype, {2}, mine);
    const auto all = step({x});
    ASSERT_TRUE(all) << all.error().text();
    EXPECT_EQ(all->y.dtype(), dtype);
    for (std::int64_t r = 0; r < size; ++r)
      EXPECT_EQ(all->y.array().at(2 * r + 1), -0.25 * static_cast<double>(r));
    const auto doubled = narrow({x});
    ASSERT_TRUE(doubled) << doubled.error().text();
    EXPECT_EQ(doubled->y.dtype(), dtype);
    EXPECT_EQ(doubled->y.array().at(0), 3);
    const auto total = sums({x});
    ASSERT_TRUE(total) << total.error().text();
    EXPECT_EQ(total->y.dtype(), dtype);
    EXPECT_EQ(total->y.array().at(0), 1.5 * size);
    EXPECT_EQ(total->y.array().at(1), -0.125 * size * (size - 1));
  }
  EXPECT_TRUE(finish());
}

/// Compiled units that this process has loaded: files in memory, mapped once each or more.
std::size_t loaded_units() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> files;  // by inode
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string address, access, offset, device, inode;
    words >> address >> access >> offset >> device >> inode;
    if (line.find("/memfd:lockstep") != std::string::npos) files.insert(inode);
  }
  return files.size();
}

TEST_F(JobTest, EntryThatIsReplaced_LetsGoOfItsMemory) {
  auto step = job->frame<X, Y>("step", [](X in) { return Y{sum(in.x * 3.0)}; });
  const auto call = [&](std::int64_t rows, std::int64_t columns) {
    const auto out = step({filled({rows, columns}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 3.0 * static_cast<double>(rows * columns));
  };
  call(4, 3);
  const std::size_t one = loaded_units();
  EXPECT_GT(one, 0U);
  call(5, 4);
  EXPECT_TRUE(step.last_compiled());
  const std::size_t two = loaded_units();
  EXPECT_GT(two, one);  // sizes of 2 and more, besides those of the first call
  call(1, 4);
  EXPECT_TRUE(step.last_compiled());
  EXPECT_EQ(loaded_units(), two);  // all sizes, which serves what the last one did
  call(4, 3);
  call(5, 4);
  EXPECT_FALSE(step.last_compiled());
  EXPECT_EQ(loaded_units(), two);
  EXPECT_TRUE(finish());
}

TEST_F(JobTest, JaggedRowsWithEmptyAndSingleOnes_SettleAfterFewCompiles) {
  auto step = job->frame<X, Y>("step", [](X in) { return Y{all_reduce(sum(in.x * 2.0))}; });
  const auto rows = [](std::int64_t r, std::int64_t call) { return (r * 7 + call * 3) % 5; };
  int compiles = 0, last_compile = 0;
  for (int call = 0; call < 40; ++call) {
    const auto out = step({filled({rows(rank, call), 3}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    std::int64_t all = 0;
    for (int r = 0; r < size; ++r) all += rows(r, call);
    EXPECT_EQ(only(out->y), 6.0 * static_cast<double>(all));
    if (!step.last_compiled()) continue;
    ++compiles;
    last_compile = call;
  }
  EXPECT_LE(compiles, 3);
  EXPECT_LE(last_compile, 5);
  EXPECT_TRUE(finish());
}

TEST_F(JobTest, MarkDynamic_CompilesOnce) {
  auto step = job->frame<X, Y>("step", [](X in) { return Y{in.x + 1.0}; });
  for (std::int64_t call = 0; call < 5; ++call) {
    X in{filled({2 + (call + rank) % 4, 3}, 1)};
    in.x.mark(0, Mark::Dynamic);
    const auto out = step(in);
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(out->y.array().sizes(), in.x.array().sizes());
    EXPECT_EQ(step.last_compiled(), call == 0);
  }
}

TEST_F(JobTest, MarkStatic_KeepsTheSizeAConstant_AndADifferenceIsAnError) {
  auto step = job->frame<X, Y>("step", [](X in) { return Y{in.x + 2.0}; });
  const auto call = [&](std::int64_t rows) {
    X in{filled({rows}, 1)};
    in.x.mark(0, Mark::Static);
    return step(in);
  };
  for (const std::int64_t rows : {3, 4, 5}) {
    ASSERT_TRUE(call(rows));
    EXPECT_TRUE(step.last_compiled()) << "a static size is a constant of its entry";
  }
  if (size > 1) {
    const auto out = call(last ? 7 : 6);
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code, Code::ConstraintViolation);
    EXPECT_EQ(out.error().source, "x.size(0)");
    expect_joint(out.error());
  }
  ASSERT_TRUE(call(4));
  EXPECT_FALSE(step.last_compiled());
}

TEST_F(JobTest, BranchThatHoldsOnAllRanks_IsAGuard_AndTheOtherSideASecondEntry) {
  auto step = job->frame<X, Y>("step", [](X in) {
    if (in.x.size(0) > 4) return Y{in.x * 2.0};
    return Y{in.x * 3.0};
  });
  struct Case {
    std::int64_t rows;
    int entry;
    bool compiles;
  };
  for (const Case& c : {Case{6, 0, true}, Case{2, 1, true}, Case{8, 0, false}, Case{3, 1, false}}) {
    X in{filled({c.rows + rank % 2}, 1)};
    in.x.mark(0, Mark::Dynamic);
    const auto out = step(in);
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), c.rows > 4 ? 2 : 3);
    EXPECT_EQ(step.last_call(), "[r" + std::to_string(rank) + "|0/" + std::to_string(c.entry) +
                                    "] " + (c.compiles ? "compiled" : "reused"));
  }
  EXPECT_TRUE(finish());
}

/// Rows of every rank but the last, and of the last; the answer, and which entry has it.
struct Question {
  std::int64_t others, at_last;
  bool answer;
  int entry;
  bool compiles;
};

TEST_F(JobTest, GroupAny_BothAnswersHaveAnEntryThatIsReused) {
  auto step = job->frame<X, Y>("step", [](X in) {
    Tensor y = sum(in.x);
    if (group_any(in.x.size(0) > 4)) y = y * 10.0;
    return Y{all_reduce(y)};
  });
  for (const Question& q : {Question{3, 2, false, 0, true}, Question{3, 6, true, 1, true},
                            Question{2, 4, false, 0, false}, Question{4, 5, true, 1, false},
                            Question{9, 8, true, 1, false}}) {
    X in{filled({last ? q.at_last : q.others}, 1)};
    in.x.mark(0, Mark::Dynamic);
    const auto out = step(in);
    ASSERT_TRUE(out) << out.error().text();
    const auto rows = static_cast<double>(q.others * (size - 1) + q.at_last);
    EXPECT_EQ(only(out->y), q.answer ? 10 * rows : rows);
    EXPECT_EQ(step.last_compiled(), q.compiles);
    EXPECT_TRUE(contains(step.last_call(), "/" + std::to_string(q.entry) + "]"))
        << step.last_call();
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobTest, GroupAll_BothAnswersHaveAnEntryThatIsReused) {
  auto step = job->frame<X, Y>("step", [](X in) {
    Tensor y = sum(in.x);
    if (group_all(in.x.size(0) > 4)) y = y * 10.0;
    return Y{all_reduce(y)};
  });
  for (const Question& q : {Question{6, 7, true, 0, true}, Question{6, 3, false, 1, true},
                            Question{5, 9, true, 0, false}, Question{3, 2, false, 1, false},
                            Question{8, 4, false, 1, false}}) {
    X in{filled({last ? q.at_last : q.others}, 1)};
    in.x.mark(0, Mark::Dynamic);
    const auto out = step(in);
    ASSERT_TRUE(out) << out.error().text();
    const auto rows = static_cast<double>(q.others * (size - 1) + q.at_last);
    EXPECT_EQ(only(out->y), q.answer ? 10 * rows : rows);
    EXPECT_EQ(step.last_compiled(), q.compiles);
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobTest, RecompileLimit_AllRanksInterpretTheRest) {
  start({.automatic_dynamic = false, .recompile_limit = 2, .settle = false});
  auto step = job->frame<X, Y>("step", [](X in) { return Y{all_reduce(sum(in.x * in.x))}; });
  for (std::int64_t call = 0; call < 6; ++call) {
    const std::int64_t rows = 2 + call % 4;
    const auto out = step({filled({rows}, 3)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 9.0 * static_cast<double>(rows * size));
    const std::string how = call < 2 ? "compiled" : call < 4 ? "interpreted" : "reused";
    EXPECT_TRUE(contains(step.last_call(), how)) << call << ": " << step.last_call();
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobTest, SharedSizes_RanksMayRunDifferentPrograms) {
  start({.consistency = Consistency::SharedSizes});
  auto step = job->frame<X, Y>("step", [this](X in) {
    return Y{last ? in.x * 2.0 : in.x + 5.0};  // no collective: nothing to pair wrongly
  });
  for (const std::int64_t rows : {3, 4, 5}) {
    const auto out = step({filled({rows + rank}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), last ? 2 : 6);
  }
  EXPECT_TRUE(finish());
}

TEST_F(JobTest, RankNumber_IsAnInputOfOneProgram) {
  auto step = job->frame<X, Y>(
      "step", [](X in) { return Y{in.x + cast(in.x.trace()->rank(), DType::F64)}; });
  const auto out = step({filled({2}, 1)});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->y), 1 + rank);
  EXPECT_TRUE(finish());
}

TEST_F(JobTest, InitInAProcessThatHasMpi_JoinsAllItsRanks) {
  Settings settings;
  settings.log = {"off"};
  settings.cache_dir = TEST_CACHE;
  auto second = Job::init(nullptr, nullptr, {.settings = settings, .summary = false});
  ASSERT_TRUE(second) << second.error().text();
  EXPECT_EQ((*second)->size(), size);
  EXPECT_TRUE((*second)->settle());
  EXPECT_TRUE((*second)->finish());
  EXPECT_TRUE(job->settle());
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::job_test
