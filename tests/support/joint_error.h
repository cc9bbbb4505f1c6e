// The error that a failure in the middle of a graph must give on all ranks.
#pragma once

#include <string>
#include <vector>

#include "on_ranks.h"

namespace lockstep::worker {

/// "a03_list": names that sort in the order of their numbers.
inline std::string numbered(std::size_t at, const char* what) {
  return (at < 10 ? "a0" : "a") + std::to_string(at) + "_" + what;
}

inline void add_rank(std::vector<Inputs>& inputs) {
  for (std::size_t r = 0; r < inputs.size(); ++r)
    inputs[r]["job.rank"] = integers({}, {static_cast<std::int64_t>(r)});
}

/// True if all ranks have the same error, and one of `guilty` is its cause.
inline testing::AssertionResult joint(const OnRanks::Run& run, const RankSet& guilty) {
  for (const auto& rank : run.ranks) {
    if (rank->has_value()) return testing::AssertionFailure() << "a rank did not fail";
    const Status& status = rank->error();
    if (status.text() != run.ranks[0]->error().text())
      return testing::AssertionFailure()
             << status.text() << " and " << run.ranks[0]->error().text();
    if (status.code != Code::RuntimeAssert || status.groups.empty() ||
        !guilty.contains(Rank{status.groups[0].ranks.lowest()}))
      return testing::AssertionFailure() << status.text();
  }
  return testing::AssertionSuccess();
}

}  // namespace lockstep::worker
