// Op cases in one graph, each forward and backward, so that many cases share one compile.
#pragma once

#include <cstdint>
#include <vector>

#include "op_cases.h"

#include <lockstep/worker/compile/run/run_host.h>

namespace lockstep::worker::test {

class JoinedCases {
 public:
  /// Takes the op cases of `ranks` ranks; of these, the cases whose number is `part` modulo
  /// `parts`.
  explicit JoinedCases(int ranks, std::size_t part = 0, std::size_t parts = 1);
  [[nodiscard]] std::size_t count() const { return cases_.size(); }
  [[nodiscard]] int ranks() const { return ranks_; }
  /// Traces with all free sizes as symbols. Outputs per case: its result, and the gradients of the
  /// sum of the result's squares.
  [[nodiscard]] Result<Graph> traced() const;
  /// Inputs by rank; rank r has N = n + r.
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
