// Which ranks of a group share a host: a round gathers the messages of a host's ranks, then one of
// these ranks sends to other hosts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::collectives {

/// Runs of consecutive ranks on one host. A round that gets no runs treats each rank as a host of
/// its own. Pure: equal on all ranks if `hosts` is.
class HostRuns {
 public:
  HostRuns() = default;
  /// `hosts` are the numbers of the ranks' hosts, by rank. There are no runs if nothing is to be
  /// gathered: all ranks share one host, or no two neighbouring ranks do.
  explicit HostRuns(std::span<const std::uint64_t> hosts);

  [[nodiscard]] bool empty() const { return firsts_.empty(); }
  /// Number of runs. This function and those below require that empty() is false.
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
