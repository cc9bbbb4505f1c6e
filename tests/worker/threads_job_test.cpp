// Programs with several threads: a call while another thread's is under way is refused on this rank
// alone and harms nothing; calls that come one after the other may come from any thread.
#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "job_ranks.h"
#include <unistd.h>

#include <lockstep/worker/checkpoints.h>

namespace lockstep::worker::threads_job_test {
namespace {

struct State {
  Tensor weights;
  template <class V>
  void fields(V& v) {
    v("weights", weights);
  }
};

class JobThreads : public JobRanks {
 protected:
  /// Runs `what` on a thread of its own.
  static void elsewhere(const std::function<void()>& what) { std::thread(what).join(); }
  template <class T>
  static void expect_refused(const Result<T>& result, const std::string& call) {
    ASSERT_FALSE(result) << call << " went well";
    EXPECT_EQ(result.error().code, Code::BadInput) << result.error().text();
    for (const std::string& part :
         {call + ": thread ", "a call of the main thread (" + std::to_string(::getpid()) + ")",
          std::string("one after the other")})
      EXPECT_TRUE(contains(result.error().message, part)) << result.error().message;
  }
  /// A frame that adds up x over the ranks; `meanwhile` runs on the host in the middle of a run.
  CompiledFrame<X, Y> summing(const std::string& name, const std::function<void()>& meanwhile) {
    return job->frame<X, Y>(name, [meanwhile](X in) {
      const Tensor x = host_call(
          "meanwhile", {in.x}, [](auto metas) { return metas[0]; },
          [meanwhile](auto arrays, Array& out) {
            meanwhile();
            out = arrays[0].clone();
          });
      return Y{all_reduce(sum(x))};
    });
  }
};

TEST_F(JobThreads, FrameCalledWhileItIsTraced_IsRefusedAndTheTraceGoesOn) {
  int traced = 0;
  std::optional<CompiledFrame<X, Y>> step;
  step = job->frame<X, Y>("step", [&](X in) {
    ++traced;
    elsewhere([&] { expect_refused((*step)({filled({7}, 9)}), "step"); });
    return Y{all_reduce(sum(in.x))};
  });
  for (int call = 0; call < 3; ++call) {
    const auto out = (*step)({filled({3 + call}, 2)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 2 * (3 + call) * size);
  }
  EXPECT_GT(traced, 0);
  EXPECT_TRUE(finish());
}

TEST_F(JobThreads, EveryCallDuringARun_IsRefusedAndTheRunIsUnharmed) {
  const std::filesystem::path folder =
      std::filesystem::path(TEST_CACHE) / ("threads_of_" + std::to_string(size));
  if (rank == 0) std::filesystem::remove_all(folder);
  Checkpoints checkpoints(*job, folder);
  State state{filled({2}, 1)};
  auto other = job->frame<X, Y>("other", [](X in) { return Y{in.x + 1.0}; });
  std::optional<CompiledFrame<X, Y>> late;
  int runs = 0;
  std::optional<CompiledFrame<X, Y>> step;
  step = summing("step", [&] {
    if (++runs != 2) return;
    elsewhere([&] {
      expect_refused((*step)({filled({3}, 5)}), "step");
      expect_refused(step->prefetch({filled({3}, 5)}), "step");
      expect_refused(step->infer({filled({3}, 5)}), "step");
      expect_refused(step->save(folder / "step.lsp"), "step");
      expect_refused(other({filled({3}, 5)}), "other");
      expect_refused(job->settle(), "settle()");
      expect_refused(job->more(true), "more()");
      expect_refused(job->resync(), "resync()");
      expect_refused(job->finish(), "finish()");
      expect_refused(job->group("pair", RankSet::all(size)), "group()");
      expect_refused(job->load(folder / "step.lsp"), "load()");
      expect_refused(checkpoints.save(1, state), "Checkpoints::save()");
      expect_refused(checkpoints.save_last(1, state), "Checkpoints::save_last()");
      expect_refused(checkpoints.restore(state), "Checkpoints::restore()");
      expect_refused(checkpoints.finish(), "Checkpoints::finish()");
      late = job->frame<X, Y>("late", [](X in) { return Y{in.x}; });
      EXPECT_EQ(job->rank(), rank);
    });
  });
  for (int call = 0; call < 4; ++call) {
    const auto out = (*step)({filled({3}, 1 + call)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 3 * (1 + call) * size);
  }
  EXPECT_EQ(runs, 4);
  ASSERT_TRUE(late);
  expect_refused((*late)({filled({3}, 5)}), "late");  // as it was made
  auto anew = job->frame<X, Y>("late", [](X in) { return Y{in.x}; });
  EXPECT_TRUE(anew({filled({3}, 5)}));
  EXPECT_TRUE(other({filled({3}, 5)}));
  EXPECT_TRUE(job->group("pair", RankSet::all(size)));
  EXPECT_TRUE(checkpoints.save_last(1, state));
  EXPECT_TRUE(job->settle());
  EXPECT_TRUE(finish());
}

TEST_F(JobThreads, CallsOneAfterTheOther_MayComeFromAnyThread) {
  Checkpoints checkpoints(*job, std::filesystem::path(TEST_CACHE) / "threads_moved");
  std::optional<CompiledFrame<X, Y>> step;
  elsewhere([&] { step = job->frame<X, Y>("step", [](X in) { return Y{all_reduce(sum(in.x))}; }); });
  for (int call = 0; call < 6; ++call) {
    const auto one = [&] {
      const auto out = (*step)({filled({2 + call % 3}, 1)});
      ASSERT_TRUE(out) << out.error().text();
      EXPECT_EQ(only(out->y), (2 + call % 3) * size);
      const auto more = job->more(rank == 0);
      ASSERT_TRUE(more) << more.error().text();
      EXPECT_TRUE(*more);
      EXPECT_TRUE(step->prefetch({filled({2 + (call + 1) % 3}, 1)}));
    };
    if (call % 2 == 0)
      one();
    else
      elsewhere(one);
  }
  elsewhere([&] { EXPECT_TRUE(finish()); });
}

/// Each rank makes as many calls as the others; which of its threads makes which is chance. The
/// values show whose inputs a call has used.
TEST_F(JobThreads, ThreadsThatTryAgainUntilTheyAreLetIn_GetTheirOwnResults) {
  constexpr int kCalls = 300;
  auto step = job->frame<X, Y>("step", [](X in) { return Y{in.x * 2.0 + sum(in.x)}; });
  ASSERT_TRUE(step({filled({2, 3}, 1)}));
  std::atomic<int> tickets{0}, wrong{0};
  const auto work = [&](double value) {
    while (tickets.fetch_add(1) < kCalls)
      for (;;) {
        const auto out = step({filled({2, 3}, value)});
        if (!out && out.error().code == Code::BadInput) {
          std::this_thread::yield();
          continue;
        }
        if (!out || only(out->y) != 8 * value) ++wrong;
        break;
      }
  };
  std::thread one(work, 3), two(work, 5);
  work(7);
  one.join();
  two.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(finish());
}

/// As the error says: with one mutex around each.
TEST_F(JobThreads, CallsUnderOneMutex_AreNeverRefused) {
  std::mutex mutex;
  auto step = job->frame<X, Y>("step", [](X in) { return Y{all_reduce(sum(in.x))}; });
  std::atomic<int> failed{0};
  const auto work = [&] {
    for (int call = 0; call < 50; ++call) {
      const std::scoped_lock lock(mutex);
      const auto out = step({filled({4}, 1)});
      if (!out || only(out->y) != 4 * size) ++failed;
    }
  };
  std::thread one(work), two(work);
  one.join();
  two.join();
  EXPECT_EQ(failed, 0);
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::threads_job_test
