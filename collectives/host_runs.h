// Which ranks of a group share a host, so that a round can gather what the ranks of a host say before
// one of them speaks to other hosts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::collectives {

/// Runs of consecutive ranks on one host. A round that is given none takes each rank for a host of
/// its own. Pure: equal on all ranks that are given the same hosts.
class HostRuns {
 public:
  HostRuns() = default;
  /// `hosts`: a number for the host of each rank, by rank. Empty where nothing is to be gathered:
  /// one host, or no two neighbours on one.
  explicit HostRuns(std::span<const std::uint64_t> hosts);

  [[nodiscard]] bool empty() const { return firsts_.empty(); }
  /// The others require that it is not empty.
  [[nodiscard]] int count() const { return static_cast<int>(firsts_.size()) - 1; }
  [[nodiscard]] int run_of(Rank rank) const;
  [[nodiscard]] Rank first(int run) const { return Rank{firsts_[static_cast<std::size_t>(run)]}; }
  [[nodiscard]] int length(int run) const { return first(run + 1).value - first(run).value; }
  /// The rank that speaks for its run: that at the top of the ordered tree of the run (tree.h).
  [[nodiscard]] Rank head(int run) const {
    return Rank{first(run).value + (length(run) - 1) / 2};
  }

 private:
  std::vector<std::int32_t> firsts_;  // of each run, and the number of ranks
};

}  // namespace lockstep::collectives
