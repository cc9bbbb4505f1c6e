// Fields of users as inputs of frames, on real ranks.
#include <filesystem>

#include "job_ranks.h"

#include <lockstep/worker/simulator/answers/replay.h>

namespace lockstep::worker::field_job_test {
namespace {

struct Step {
  Tensor x;
  FieldInput capacity, host;
  template <class V>
  void fields(V& v) {
    v("x", x), v("capacity", capacity), v("host", host);
  }
};

class FieldJob : public JobRanks {
 protected:
  CompiledFrame<Step, Y> frame() {
    return job->frame<Step, Y>("step", [](const Step& in) {
      std::int64_t hosts = static_cast<std::int64_t>(in.host.values().size());
      return Y{in.x *
               (100.0 * static_cast<double>(hosts) + static_cast<double>(in.capacity.integer()))};
    });
  }
  Step inputs(std::int64_t capacity) const {
    return {
        filled({2}, 1), {capacity, FieldJoin::Max}, {rank % 2 == 0 ? "a" : "b", FieldJoin::Union}};
  }
  [[nodiscard]] double hosts() const { return size < 2 ? 100 : 200; }
};

TEST_F(FieldJob, TheFrame_IsTracedWithTheJoinedValues_AndServesLess) {
  auto step = frame();
  auto out = step(inputs(5 + rank));
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->y), hosts() + 4 + size);
  EXPECT_TRUE(step.last_compiled());
  step.prefetch(inputs(3 - rank));
  out = step(inputs(3 - rank));
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->y), hosts() + 4 + size) << "the version for the greatest value serves";
  EXPECT_FALSE(step.last_compiled());
  out = step(inputs(last ? 50 : 0));
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->y), hosts() + 50);
  EXPECT_TRUE(step.last_compiled());
  EXPECT_TRUE(finish());
}

TEST_F(FieldJob, ARecordedJob_IsReplayed) {
  const std::string record = testing::TempDir() + "lockstep-field-record-" + std::to_string(size);
  if (rank == 0) std::filesystem::remove_all(record);
  MPI_Barrier(MPI_COMM_WORLD);
  Settings settings = quiet();
  settings.record_dir = record;
  start({}, settings);
  auto step = frame();
  for (const std::int64_t capacity : {3, 2, 9}) ASSERT_TRUE(step(inputs(capacity + rank)));
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
  ASSERT_TRUE(again->result.calls[2].reported);
  EXPECT_EQ(again->result.calls[2].reported->field("capacity")->values[0].number, 8 + size);
  std::filesystem::remove_all(record);
}

TEST_F(FieldJob, Infer_TakesThisRanksValues) {
  auto step = frame();
  const auto found = step.infer(inputs(7), {.box = {2, 9}, .symbols = {{"x.size(0)"}}});
  EXPECT_TRUE(found) << found.error().text();
  EXPECT_TRUE(finish());
}

TEST_F(FieldJob, WhatIsWrongWithAFieldOfOneRank_IsTheErrorOfAll) {
  auto step = frame();
  Step in = inputs(1);
  if (last) in.host = {std::string(1025, 'x'), FieldJoin::Union};
  auto out = step(in);
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code, Code::BadInput) << out.error().text();
  EXPECT_EQ(out.error().source, "host");
  expect_joint(out.error());
  if (size > 1) {
    in = inputs(1);
    in.capacity = {1, last ? FieldJoin::Min : FieldJoin::Max};
    out = step(in);
    ASSERT_FALSE(out.has_value());
    EXPECT_EQ(out.error().code, Code::KindMismatch) << out.error().text();
    expect_joint(out.error());
  }
  EXPECT_TRUE(step(inputs(1)).has_value());
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::field_job_test
