// Checkpoints of a job on real ranks: saved between calls of frames, with the votes of the job.
#include <fstream>

#include "job_folder.h"

#include <lockstep/worker/checkpoints.h>
#include <lockstep/worker/files/checkpoint/folder.h>
#include <lockstep/worker/files/checkpoint/merge.h>

namespace lockstep::worker::checkpoint_job_test {

struct State {
  Tensor x, w;
  std::int64_t step = 0, first = 0;
  Key key{3};
  std::int64_t cursor = 0;
  template <class V>
  void fields(V& v) {
    v("x", sharded(x, 0, first, 12)), v("w", w), v("step", step), v("key", key);
    v("cursor", PerRank(cursor));
  }
};

class CheckpointJob : public JobFolder {
 protected:
  [[nodiscard]] State state(double value) const {
    State out;
    out.first = 12 * rank / size;
    out.x = filled({12 * (rank + 1) / size - out.first, 2}, value + rank);
    out.w = filled({3}, value);
    out.cursor = 100 * rank;
    return out;
  }
};

struct Counted {
  Tensor x;
  int walks = 0;
  template <class V>
  void fields(V& v) {
    ++walks;
    v("x", x);
  }
};

TEST_F(CheckpointJob, StepsThatAreNotSaved_DoNotWalkThroughTheState) {
  Checkpoints checkpoints(*job, folder, {.every = 10});
  Counted now{filled({3}, 1)};
  for (int step = 1; step < 10; ++step) ASSERT_TRUE(checkpoints.save(step, now));
  EXPECT_EQ(now.walks, 0);
  ASSERT_TRUE(checkpoints.save(10, now));
  EXPECT_GT(now.walks, 0);
  ASSERT_TRUE(checkpoints.finish());
  EXPECT_EQ(checkpoints.last_committed(), 10);
  EXPECT_TRUE(finish());
}

TEST_F(CheckpointJob, SavedBetweenCalls_IsLoadedAndTheNextStepsAreTheSame) {
  auto step = job->frame<X, Y>("step", [](X in) { return Y{in.x * 0.5 + all_reduce(sum(in.x))}; });
  Checkpoints checkpoints(*job, folder, {.every = 2});
  State now = state(1);
  std::vector<double> seen;
  for (now.step = 1; now.step <= 5; ++now.step) {
    auto out = step({now.x});
    ASSERT_TRUE(out) << out.error().text();
    now.x = out->y;
    seen.push_back(now.x.array().at(0));
    const auto saved = checkpoints.save(now.step, now);
    ASSERT_TRUE(saved) << saved.error().text();
    EXPECT_EQ(*saved, now.step % 2 == 0);
  }
  ASSERT_TRUE(checkpoints.finish());
  EXPECT_EQ(checkpoints.last_committed(), 4);
  EXPECT_EQ(checkpoints.last_failure(), std::nullopt);
  State back = state(0);
  const auto found = checkpoints.restore(back);
  ASSERT_TRUE(found) << found.error().text();
  ASSERT_TRUE(*found);
  EXPECT_EQ((*found)->step, 4);
  EXPECT_EQ(back.step, 4);
  EXPECT_EQ(back.cursor, 100 * rank);
  EXPECT_EQ(back.x.array().at(0), seen[3]);
  auto out = step({back.x});
  ASSERT_TRUE(out);
  EXPECT_EQ(out->y.array().at(0), seen[4]);
  EXPECT_TRUE(finish());
}

TEST_F(CheckpointJob, AFolderThatCannotBeMade_IsAJointFailureAndTheProgramGoesOn) {
  std::ofstream(folder + "/file") << "x";
  Checkpoints checkpoints(*job, folder + "/file/below");
  State now = state(1);
  const auto saved = checkpoints.save(1, now);
  ASSERT_TRUE(saved) << saved.error().text();
  ASSERT_TRUE(checkpoints.last_failure());
  expect_joint(*checkpoints.last_failure());
  EXPECT_EQ(checkpoints.last_failure()->code, Code::Environment);
  EXPECT_TRUE(finish());
}

TEST_F(CheckpointJob, AStateThatDiffersOnOneRank_IsOneErrorAndTheNextSaveWorks) {
  Checkpoints checkpoints(*job, folder);
  State now = state(1);
  if (size > 1) {
    State other = state(1);
    if (last) other.w = filled({4}, 1);
    const auto saved = checkpoints.save(1, other);
    ASSERT_FALSE(saved);
    expect_joint(saved.error());
    EXPECT_EQ(saved.error().code, Code::ConstraintViolation);
  }
  ASSERT_TRUE(checkpoints.save(2, now));
  ASSERT_TRUE(checkpoints.finish());
  EXPECT_EQ(checkpoints.last_committed(), 2);
  EXPECT_TRUE(finish());
}

TEST_F(CheckpointJob, DamageThatOneRankReads_IsOneErrorAndTheStateIsAsItWas) {
  Checkpoints checkpoints(*job, folder);
  State now = state(1);
  ASSERT_TRUE(checkpoints.save(1, now));
  ASSERT_TRUE(checkpoints.finish());
  if (last) {
    const std::string file = folder + "/step-000001/" + rank_file_name(rank);
    std::fstream io(file, std::ios::in | std::ios::out | std::ios::binary);
    io.seekp(-1, std::ios::end);
    io.put('x');
  }
  MPI_Barrier(MPI_COMM_WORLD);
  State back = state(5);
  const auto found = checkpoints.restore(back);
  ASSERT_FALSE(found);
  expect_joint(found.error());
  EXPECT_TRUE(contains(found.error().message, "is damaged")) << found.error().message;
  EXPECT_EQ(back.x.array().at(0), 5 + rank);
  EXPECT_EQ(back.w.array().at(0), 5);
  EXPECT_TRUE(finish());
}

TEST_F(CheckpointJob, WhatFramesHaveLearnt_IsThereForTheJobThatGoesOn) {
  const auto frame = [&] { return job->frame<X, Y>("step", [](X in) { return Y{in.x * 2.0}; }); };
  const auto compiled = [](CompiledFrame<X, Y>& step, std::int64_t rows) {
    EXPECT_TRUE(step({filled({rows, 2}, 1)}));
    return step.last_compiled();
  };
  State now = state(1);
  {
    auto step = frame();
    EXPECT_TRUE(compiled(step, 3));
    EXPECT_TRUE(compiled(step, 4));  // another size: a symbol from here on
    EXPECT_FALSE(compiled(step, 5));
    Checkpoints checkpoints(*job, folder);
    ASSERT_TRUE(checkpoints.save(1, now));
    ASSERT_TRUE(checkpoints.finish());
    EXPECT_TRUE(finish());
  }
  start({});
  auto step = frame();
  Checkpoints checkpoints(*job, folder);
  const auto found = checkpoints.restore(now);
  ASSERT_TRUE(found && *found);
  EXPECT_TRUE(compiled(step, 6));
  EXPECT_FALSE(compiled(step, 7));
  EXPECT_TRUE(finish());
}

TEST_F(CheckpointJob, RestoreWithoutACheckpoint_IsNone) {
  Checkpoints checkpoints(*job, folder + "/none");
  State back = state(5);
  const auto found = checkpoints.restore(back);
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_FALSE(*found);
  EXPECT_TRUE(finish());
}

}  // namespace lockstep::worker::checkpoint_job_test
