// Which ranks of a group share a host, so that a round can gather the messages of a host's ranks
// before one of them sends to other hosts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::collectives {

/// Runs of consecutive ranks on one host. A round without them treats each rank as a host of its
/// own. Pure: equal on all ranks that are given the same hosts.
class HostRuns {
 public:
  HostRuns() = default;
  /// `hosts`: the number of each rank's host, by rank. The runs are empty if there is nothing to
  /// gather: one host, or no two neighbouring ranks on one.
  explicit HostRuns(std::span<const std::uint64_t> hosts);

  [[nodiscard]] bool empty() const { return firsts_.empty(); }
  /// The functions from here on require that the runs are not empty.
  [[nodiscard]] int count() const { return static_cast<int>(firsts_.size()) - 1; }
  [[nodiscard]] int run_of(Rank rank) const;
  [[nodiscard]] Rank first(int run) const { return Rank{firsts_[static_cast<std::size_t>(run)]}; }
  [[nodiscard]] int length(int run) const { return first(run + 1).value - first(run).value; }
  /// The rank that sends for its run: the root of the run's ordered tree (tree.h).
  [[nodiscard]] Rank head(int run) const {
    return Rank{first(run).value + (length(run) - 1) / 2};
  }

 private:
  std::vector<std::int32_t> firsts_;  // first rank of each run, then the number of ranks
};

}  // namespace lockstep::collectives
