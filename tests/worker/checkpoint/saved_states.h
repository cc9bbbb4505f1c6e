// Saves and loads by ranks that are threads, and a small state.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "launch.h"
#include "thread_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/worker/files/checkpoint/restore.h>
#include <lockstep/worker/files/checkpoint/saver.h>

namespace lockstep::worker {

inline std::string path(const Folder& folder) { return folder / "ckpt"; }

/// Saves what `state(rank)` gives at `step`, on so many ranks; the error of rank 0, which all have.
template <class State>
std::optional<Status> save(const std::string& folder, int size, std::int64_t step, State state,
                           CheckpointOptions options = {}) {
  std::vector<std::optional<Status>> failed(static_cast<std::size_t>(size));
  options.stop_on_failure = true;
  on_threads(size, [&](CheckpointRanks& ranks) {
    const int rank = ranks.rank().value;
    auto mine = state(rank);
    CheckpointSaver saver(ranks, folder, options);
    auto done = saver.save(step, leaves_of(mine));
    if (done) {
      const auto ended = saver.finish();
      if (!ended) done = ended.error();
    }
    if (!done) failed[static_cast<std::size_t>(rank)] = done.error();
    if (done) {
      EXPECT_EQ(saver.last_committed(), step);
    }
  });
  for (const auto& one : failed) EXPECT_EQ(one, failed[0]);
  return failed[0];
}

/// Loads into what `state(rank)` gives, and hands each rank's to `look`; the error, which all have.
template <class State, class Look>
std::optional<Status> load(const std::string& folder, int size, State state, Look look,
                           const RestoreOptions& options = {}) {
  std::vector<std::optional<Status>> failed(static_cast<std::size_t>(size));
  std::mutex one_at_a_time;
  on_threads(size, [&](CheckpointRanks& ranks) {
    const int rank = ranks.rank().value;
    auto mine = state(rank);
    const auto found = restore_checkpoint(ranks, folder, leaves_of(mine), options);
    const std::lock_guard lock(one_at_a_time);
    if (!found)
      failed[static_cast<std::size_t>(rank)] = found.error();
    else
      look(rank, mine, *found);
  });
  for (const auto& one : failed) EXPECT_EQ(one, failed[0]);
  return failed[0];
}

inline Tensor numbers(std::vector<std::int64_t> sizes, double first, DType dtype = DType::F32) {
  Array out(dtype, std::move(sizes));
  for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, first + static_cast<double>(i));
  return out;
}

/// Two rows per rank of x [2n, 3], a shared y, and values.
struct Small {
  Tensor x = numbers({2, 3}, 0), y = numbers({4}, 100);
  int rank = 0, size = 1;
  std::int64_t step = 7;
  double rate = 0.1;
  std::string name = "a \"b\"\n";
  Key key{42};
  std::int64_t cursor = 0;
  Small(int r, int n) : x(numbers({2, 3}, 6.0 * r)), rank(r), size(n), cursor(10 + r) {}
  template <class V>
  void fields(V& v) {
    v("x", sharded(x, 0, 2 * rank, 2 * size)), v("y", y), v("step", step), v("rate", rate);
    v("name", name), v("key", key), v("cursor", PerRank(cursor));
  }
};

}  // namespace lockstep::worker
