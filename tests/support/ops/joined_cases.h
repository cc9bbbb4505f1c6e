// Op cases in one graph, each forward and backward, so that many share one compile.
#pragma once

#include <cstdint>
#include <vector>

#include "op_cases.h"

#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker::test {

class JoinedCases {
 public:
  /// Cases of `ranks` ranks; of these, every one whose number is `part` modulo `parts`.
  explicit JoinedCases(int ranks, std::size_t part = 0, std::size_t parts = 1);
  [[nodiscard]] std::size_t count() const { return cases_.size(); }
  [[nodiscard]] int ranks() const { return ranks_; }
  /// With all free sizes symbols. Of each case: its result, and the gradients of the sum of its squares.
  [[nodiscard]] Result<Graph> traced() const;
  /// By rank; rank r has N = n + r.
  [[nodiscard]] std::vector<Inputs> inputs(std::int64_t n, std::int64_t m,
                                           std::uint64_t seed) const;

 private:
  [[nodiscard]] Decision decision() const;
  std::vector<const OpCase*> cases_;
  int ranks_;
};

/// All pairs of {0, 1, 2, 5}, and a larger one.
[[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> case_sizes();

}  // namespace lockstep::worker::test
