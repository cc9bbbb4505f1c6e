// Objects as inputs of frames, on real ranks.
#include <filesystem>

#include "job_ranks.h"

#include <lockstep/worker/simulator/answers/replay.h>

namespace lockstep::worker::opaque_job_test {
namespace {

struct Options {
  double factor = 1;
};
struct SameFactor {
  static std::uint64_t hash(const Options& s) { return static_cast<std::uint64_t>(s.factor); }
  static bool equal(const Options& a, const Options& b) { return a.factor == b.factor; }
};

struct ByIdentity {
  Tensor x;
  Opaque<Options> config;
  template <class V>
  void fields(V& v) {
    v("x", x), v("config", config);
  }
};
struct ByValue {
  Tensor x;
  Opaque<Options, SameFactor> config;
  template <class V>
  void fields(V& v) {
    v("x", x), v("config", config);
  }
};
struct Named {
  std::vector<std::pair<std::string, Tensor>> parts;
  template <class V>
  void fields(V& v) {
    v("parts", parts);
  }
};

std::shared_ptr<Options> factor(double value) { return std::make_shared<Options>(Options{value}); }

class OpaqueJob : public JobRanks {
 protected:
  template <class In>
  CompiledFrame<In, Y> frame() {
    return job->frame<In, Y>("step", [](const In& in) { return Y{in.x * in.config->factor}; });
  }
  template <class In>
  double result(CompiledFrame<In, Y>& step, const In& in) {
    auto out = step(in);
    EXPECT_TRUE(out) << out.error().text();
    return out ? only(out->y) : 0;
  }
};

TEST_F(OpaqueJob, AnotherObject_IsCompiledForItself) {
  auto step = frame<ByIdentity>();
  const auto two = factor(2), other_two = factor(2);
  const Tensor x = filled({3}, 1);
  EXPECT_EQ(result(step, {x, two}), 2);
  EXPECT_TRUE(step.last_compiled());
  EXPECT_EQ(result(step, {x, two}), 2);
  EXPECT_FALSE(step.last_compiled());
  EXPECT_EQ(result(step, {x, other_two}), 2);
  EXPECT_TRUE(step.last_compiled()) << "equal, but another one";
  EXPECT_EQ(result(step, {x, two}), 2);
  EXPECT_FALSE(step.last_compiled()) << "its entry is still there";
  EXPECT_TRUE(finish());
}

TEST_F(OpaqueJob, EqualObjects_MadeAnewInEveryCall_ShareAnEntry) {
  auto step = frame<ByValue>();
  const Tensor x = filled({3}, 1);
  for (int call = 0; call < 4; ++call) {
    EXPECT_EQ(result(step, {x, factor(5)}), 5);
    EXPECT_EQ(step.last_compiled(), call == 0);
  }
  EXPECT_EQ(result(step, {x, factor(6)}), 6);
  EXPECT_TRUE(step.last_compiled());
  EXPECT_TRUE(finish());
}

TEST_F(OpaqueJob, RanksWithDifferentObjects_GetOneErrorThatNamesThem) {
  auto step = frame<ByValue>();
  const Tensor x = filled({3}, 1);
  auto out = step({x, factor(last ? 3 : 2)});
  if (size > 1) {
    ASSERT_FALSE(out.has_value());
    EXPECT_EQ(out.error().code, Code::ConstantMismatch) << out.error().text();
    EXPECT_EQ(out.error().source, "config");
    ASSERT_EQ(out.error().groups.size(), 2U);
    EXPECT_EQ(out.error().groups[0].value, "hash 0000000000000002");
    EXPECT_EQ(out.error().groups[1].value, "hash 0000000000000003");
    EXPECT_TRUE(contains(out.error().message, "object config is another one on some ranks"));
    expect_joint(out.error());
  }
  EXPECT_EQ(result(step, {x, factor(2)}), 2);
  // A hit of all ranks but one.
  out = step({x, factor(last ? 3 : 2)});
  EXPECT_EQ(out.has_value(), size == 1);
  if (!out) expect_joint(out.error());
  EXPECT_TRUE(finish());
}

TEST_F(OpaqueJob, ByIdentity_RanksCompareTheOrderOfFirstUse) {
  auto step = frame<ByIdentity>();
  const auto a = factor(2), b = factor(2);
  const Tensor x = filled({3}, 1);
  EXPECT_EQ(result(step, {x, a}), 2);
  const auto out = step({x, last ? b : a});
  EXPECT_EQ(out.has_value(), size == 1);
  if (!out) {
    EXPECT_EQ(out.error().code, Code::ConstantMismatch) << out.error().text();
    expect_joint(out.error());
  }
  EXPECT_TRUE(finish());
}

TEST_F(OpaqueJob, AnotherOrderOfNames_IsCompiledForItself_AndComparedByTheRanks) {
  auto step = job->frame<Named, Y>("step", [](const Named& in) {
    Tensor y = in.parts[0].second;
    for (std::size_t i = 1; i < in.parts.size(); ++i) y = y * 2.0 + in.parts[i].second;
    return Y{y};
  });
  const Named there{{{"a", filled({2}, 1)}, {"b", filled({2}, 10)}}};
  const Named back{{{"b", filled({2}, 10)}, {"a", filled({2}, 1)}}};
  EXPECT_EQ(result(step, there), 12);
  EXPECT_EQ(result(step, back), 21);
  EXPECT_TRUE(step.last_compiled());
  EXPECT_EQ(result(step, there), 12);
  EXPECT_FALSE(step.last_compiled());
  const auto out = step(last ? back : there);
  if (size > 1) {
    ASSERT_FALSE(out.has_value());
    EXPECT_EQ(out.error().code, Code::ConstantMismatch) << out.error().text();
    EXPECT_EQ(out.error().source, "parts.keys()");
    expect_joint(out.error());
  }
  EXPECT_TRUE(finish());
}

TEST_F(OpaqueJob, ARecordedJob_IsReplayed) {
  const std::string record = testing::TempDir() + "lockstep-opaque-record-" + std::to_string(size);
  if (rank == 0) std::filesystem::remove_all(record);
  MPI_Barrier(MPI_COMM_WORLD);
  Settings settings = quiet();
  settings.record_dir = record;
  start({}, settings);
  auto step = frame<ByValue>();
  for (const double value : {3.0, 3.0, 9.0})
    ASSERT_TRUE(step({filled({3}, 1), factor(value)}).has_value());
  ASSERT_TRUE(finish());
  job.reset();
  if (rank != 0) return;
  const auto ranks = simulator::read_record(record);
  ASSERT_TRUE(ranks) << ranks.error().text();
  const auto again = simulator::replay(*ranks);
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_FALSE(again->difference) << again->difference->text();
  ASSERT_EQ(again->result.calls.size(), 3U);
  EXPECT_EQ(outcome_text(again->result.calls[1].outcome), "reused 0");
  EXPECT_EQ(again->result.calls[2].reported->field("config")->values[0].bytes,
            "hash 0000000000000009");
  std::filesystem::remove_all(record);
}

TEST_F(OpaqueJob, AFrame_KeepsNoObjectAlive) {
  auto step = frame<ByIdentity>();
  auto config = factor(2);
  const std::weak_ptr<Options> watched = config;
  EXPECT_EQ(result(step, {filled({3}, 1), config}), 2);
  config.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_TRUE(finish());
}

/// Which no default constructor can empty.
struct Boxed {
  explicit Boxed(Tensor first) { nested["deep"].push_back(std::move(first)); }
  std::map<std::string, std::vector<Tensor>> nested;
  template <class V>
  void fields(V& v) {
    v("nested", nested);
  }
};

/// Memory whose end can be seen.
struct Watched final : DeviceMemory {
  Result<void> fetch(void* to, std::size_t bytes) const override {
    std::fill_n(static_cast<std::byte*>(to), bytes, std::byte{0});
    return {};
  }
};

TEST_F(OpaqueJob, InputsThatAreMoved_AreFreedDuringTheRun_WhateverHoldsThem) {
  auto memory = std::make_shared<const Watched>();
  const std::weak_ptr<const DeviceMemory> watched = memory;
  bool gone = false;
  auto step = job->frame<Boxed, Y>("step", [&](const Boxed& in) {
    const auto look = [&](std::span<const Array> values, Array& out) {
      gone = watched.expired();
      out.set(0, values[0].at(0));
    };
    const auto one = [](std::span<const TensorMeta> metas) { return metas[0]; };
    return Y{host_call("look", {sum(in.nested.at("deep")[0] * 2.0)}, one, look)};
  });
  Boxed in(Tensor(Array::far(DType::F64, {100}, std::move(memory))));
  ASSERT_FALSE(watched.expired());
  const auto out = step(std::move(in));
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_TRUE(gone) << "after its last reader, before the end of the call";
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::opaque_job_test
