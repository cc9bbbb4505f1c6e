// Who gives whom the list of all ranks, as a pure state machine. Used by rendezvous_members.cpp
// only.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::collectives {

/// A tree over hosts, in the order in which they come, with rank 0's at its top: the first rank of
/// a host waits with that of another, of kHosts at most, and the other ranks of its host with it.
/// So many children a process has, and so often it gives the list. One thread.
class RendezvousTree {
 public:
  static constexpr std::size_t kHosts = 4;

  /// Rank 0's.
  explicit RendezvousTree(std::uint64_t host) : hosts_{host}, firsts_{{host, Rank{0}}} {}

  /// With whom a rank that has come waits.
  [[nodiscard]] Rank parent(Rank rank, std::uint64_t host);
  /// It is gone: nobody is sent to it any more.
  void left(Rank rank);

 private:
  std::vector<std::uint64_t> hosts_;      // in the order in which they came
  std::map<std::uint64_t, Rank> firsts_;  // the first rank of each, unless it has left
};

}  // namespace lockstep::collectives
